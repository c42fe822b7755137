"""`tests/bench/run [PART ...]`: measure, print tables, write JSON files and a plot."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness import (
    coalescing,
    competitors,
    h2load,
    machine,
    memory,
    micro,
    plot,
    report,
    triple,
    triple_memory,
    triple_streaming,
    wheels,
)
from harness.native import TRIPLE, LoadError, Programs
from harness.process import Place, StartError
from harness.traffic import Plan, latency, throughput
from harness.wheels import WheelError

MEASURED = {
    "throughput": throughput,
    "latency": latency,
    "decision": micro.decision,
    "change": micro.change,
    "coalescing": coalescing.measure,
    "memory": memory.measure,
    "triple-throughput": triple.throughput,
    "triple-latency": triple.latency,
    "triple-streaming": triple_streaming.measure,
    "triple-idle": triple_memory.idle,
    "triple-slow": triple_memory.slow,
}
# One word for several parts.
GROUPS = {TRIPLE: [name for name in MEASURED if name.startswith(TRIPLE)]}
# Providers behind the proxies: one address (everything on one connection) and several.
FLEETS = (1, 4)


def main() -> int:
    """Run the chosen parts; 0 when all of them ran."""
    options = _options()
    out: Path = options.out.resolve()
    parts = _parts(options.parts)
    if not h2load.is_here() and any(part in GROUPS[TRIPLE] for part in parts):
        print("h2load is needed: apt-get install nghttp2-client", file=sys.stderr)
        return 1
    names = options.only or list(competitors.ALL)
    found = machine.describe()
    print(f"Machine: {machine.sentence(found)}")
    _prepare(names, out)
    proxy_core, peer_core = machine.cores()
    programs = Programs(out / "bin", Place(peer_core, options.real_time))
    plan = _plan(options, names, Place(proxy_core, options.real_time))
    try:
        for part in parts:
            result = MEASURED[part](plan, programs, out)
            report.save(part, found, result, out)
            report.show(part, result)
        if not options.no_plot:
            print(f"\nFigures: {out}, plot: {plot.draw(out)}")
    except (StartError, LoadError, WheelError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _prepare(names: list[str], out: Path) -> None:
    for name, kind in ((competitors.COMPILED, "compiled"), (competitors.PURE, "pure")):
        if name in names:
            folder = wheels.installed(kind, out)
            print(f"{name}: a wheel with {wheels.compiled_count(folder)} compiled modules")


def _parts(words: list[str]) -> list[str]:
    wanted = [part for word in words for part in GROUPS.get(word, [word])]
    return list(dict.fromkeys(wanted)) or list(MEASURED)


def _plan(options: argparse.Namespace, names: list[str], place: Place) -> Plan:
    if options.quick:
        return Plan(names, rounds=1, seconds=0.3, warm_up=0.1, fleets=(FLEETS[-1],), place=place)
    warm_up = min(0.5, options.seconds / 4)
    return Plan(names, options.rounds, options.seconds, warm_up, FLEETS, place)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/run", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"{', '.join(MEASURED)}; {TRIPLE} for all of that name; all if none",
    )
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="per measurement (2)")
    parser.add_argument("--quick", action="store_true", help="one short round: does it still run?")
    parser.add_argument(
        "--real-time",
        action="store_true",
        help="for a busy machine: what is measured runs at real-time priority, with pauses in which"
        " everybody else catches up (needs root)",
    )
    parser.add_argument(
        "--only", action="append", choices=competitors.ALL, help="take only these competitors"
    )
    parser.add_argument("--no-plot", action="store_true", help="do without matplotlib")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "out")
    options = parser.parse_args()
    unknown = set(options.parts) - set(MEASURED) - set(GROUPS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
