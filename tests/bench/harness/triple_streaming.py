"""Server streaming: how fast messages of 1 MiB pass, and what memory that takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import competitors, grpc_check, h2load, process
from harness.competitors import DIRECT, Competitor
from harness.native import TRIPLE, Programs
from harness.progress import Progress
from harness.traffic import Case, Plan, Use, in_turn, label, summary

# (consumer connections, streams on each): one alone, several connections, several on one.
CASES: tuple[Case, ...] = ((1, 1), (8, 1), (1, 8))
SAMPLE_SECONDS = 0.1


def measure(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return MB/s by case, and resident memory over time in the last round."""
    progress = Progress("triple streaming", plan.rounds * len(CASES) * len(plan.names))
    rounds: dict[str, list[dict[str, dict[str, float]]]] = {label(case): [] for case in CASES}
    series: dict[str, dict[str, list[float]]] = {label(case): {} for case in CASES}
    with (
        programs.provider(1, TRIPLE) as ports,
        competitors.line_up(plan.names, TRIPLE, ports, plan.place, out) as line,
    ):
        for number in range(plan.rounds):
            for case in CASES:
                found = {}
                for competitor in in_turn(line, number):
                    figures, memory = _download(plan, case, competitor, programs, out)
                    found[competitor.name] = figures
                    series[label(case)][competitor.name] = memory
                    plan.pause()
                    rate = figures["mb_per_second"]
                    progress.step(f"{label(case)} {competitor.name}: {rate:,.0f} MB/s")
                rounds[label(case)].append(found)
    progress.done()
    return {
        "unit": "MB/s",
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "real_time": plan.place.is_real_time,
        "sample_seconds": SAMPLE_SECONDS,
        "cases": {
            name: {
                **summary(found, plan.names, "mb_per_second"),
                "resident_mib": {
                    each: memory for each, memory in series[name].items() if each != DIRECT
                },
            }
            for name, found in rounds.items()
        },
    }


def _download(
    plan: Plan, case: Case, competitor: Competitor, programs: Programs, out: Path
) -> tuple[dict[str, float], list[float]]:
    grpc_check.verify(competitor.ports[0])
    use = Use(competitor)
    with process.watched_memory(competitor.pid, SAMPLE_SECONDS) as memory:
        rate = h2load.bytes_per_second(
            competitor.ports[0], case[0], case[1], plan.seconds, programs.place, out
        )
    megabytes = rate / 1e6
    figures = {"mb_per_second": megabytes, **use.figures(megabytes * plan.seconds, "cpu_us_per_mb")}
    return figures, memory
