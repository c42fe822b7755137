"""What many consumers that do little cost: idle connections, and streams that are read slowly."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from harness import competitors, grpc_check, process
from harness.competitors import DIRECT, RELAY, Competitor
from harness.native import TRIPLE, LoadError, Programs
from harness.progress import Progress
from harness.traffic import Plan

IDLE_CONNECTIONS = 1000
SETTLE_SECONDS = 3.0  # until what was freed is given back
SLOW_CONNECTIONS, SLOW_STREAMS = 10, 1000
# A quarter of the smallest window clients announce, so that reading shows within the run: a client
# gives its window back when half of it was read.
SLOW_WINDOW = 16 * 1024
SLOW_SECONDS = 20.0
READ = {"1 KB/s": 1024, "nothing": 0}  # by each consumer, of each stream
SAMPLE_SECONDS = 0.25
MOST_MIB = 4096.0  # one that has taken this much is ended early, before it takes the machine


def idle(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return resident bytes per idle connection that made one call before."""
    connections = IDLE_CONNECTIONS if plan.rounds > 1 else IDLE_CONNECTIONS // 10
    settle = SETTLE_SECONDS if plan.rounds > 1 else 0.2
    result: dict[str, Any] = {"connections": connections, "found": {}}
    for name in _proxies(plan, RELAY):
        with _alone(name, plan, programs, out) as competitor:
            before = competitor.resident_bytes()
            with _held(programs, competitor, "--connections", str(connections)):
                time.sleep(settle)
                during = competitor.resident_bytes()
            time.sleep(settle)
            result["found"][name] = {
                "before_bytes": before,
                "during_bytes": during,
                "after_bytes": competitor.resident_bytes(),
                "bytes_per_connection": (during - before) / connections,
            }
    return result


def slow(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return resident memory over time under streams that are hardly read or not at all.

    Beside them one ordinary consumer makes a call a few times a second on its own connection.
    """
    is_quick = plan.rounds == 1
    streams = SLOW_STREAMS // 20 if is_quick else SLOW_STREAMS
    seconds = 1.0 if is_quick else SLOW_SECONDS
    names = _proxies(plan)
    progress = Progress("triple slow streams", len(READ) * len(names))
    found: dict[str, dict[str, Any]] = {}
    for reading, amount in READ.items():
        found[reading] = {}
        for name in names:
            with _alone(name, plan, programs, out) as competitor:
                words = ("--connections", str(SLOW_CONNECTIONS), "--streams", str(streams))
                windows = ("--window", str(SLOW_WINDOW), "--read", str(amount))
                found[reading][name] = _slow_streams(
                    programs, competitor, seconds, *words, *windows
                )
            progress.step(f"{reading} {name}")
    progress.done()
    return {
        "connections": SLOW_CONNECTIONS,
        "streams": SLOW_CONNECTIONS * streams,
        "consumer_window": SLOW_WINDOW,
        "sample_seconds": SAMPLE_SECONDS,
        "found": found,
    }


def _slow_streams(
    programs: Programs, competitor: Competitor, seconds: float, *words: str
) -> dict[str, Any]:
    visitor = grpc_check.Visitor(competitor.ports[0])
    before = competitor.resident_mib()
    try:
        with (
            process.watched_memory(competitor.pid, SAMPLE_SECONDS) as memory,
            _held(programs, competitor, *words) as state,
        ):
            end = time.monotonic() + seconds
            while time.monotonic() < end and memory[-1] < MOST_MIB:
                visitor.call()
                time.sleep(SAMPLE_SECONDS)
    finally:
        visitor.close()
    if state["over"] or state["lost_connections"]:
        raise LoadError(f"streams of {competitor.name} do not last: {state}")
    third = len(memory) // 3
    return {
        "before_mib": before,
        "resident_mib": memory,
        "peak_mib": max(memory),
        # The median of the last third of the time, and how far it lies above the second third's.
        "plateau_mib": median(memory[-third:]),
        "growth_mib": median(memory[-third:]) - median(memory[third : 2 * third]),
        "beside": {
            "answered": len(visitor.answered_ms),
            "failed": visitor.failed,
            "median_ms": median(visitor.answered_ms) if visitor.answered_ms else None,
        },
        "streams": state,
    }


def _proxies(plan: Plan, *others: str) -> list[str]:
    """Return who takes part: whoever has a process and keeps memory within limits."""
    return [name for name in plan.names if name not in (DIRECT, RELAY) or name in others]


@contextmanager
def _alone(name: str, plan: Plan, programs: Programs, out: Path) -> Iterator[Competitor]:
    """Run one competitor in a fresh process, called once."""
    with (
        programs.provider(1, TRIPLE) as ports,
        competitors.line_up([name], TRIPLE, ports, plan.place, out) as (competitor,),
    ):
        grpc_check.verify(competitor.ports[0])
        time.sleep(0.5)
        yield competitor


@contextmanager
def _held(programs: Programs, competitor: Competitor, *words: str) -> Iterator[dict[str, Any]]:
    """Hold consumers open; the dictionary is filled when they end.

    Raises LoadError when not all of them get as far as they should.
    """
    command = programs.command("grpc_hold", "--to", f"127.0.0.1:{competitor.ports[0]}", *words)
    running = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert running.stdout is not None
    state: dict[str, Any] = {}
    try:
        if not process.wait_for_line(running.stdout, seconds=20.0):
            raise LoadError(f"{' '.join(command)} does not get all of its streams")
        running.stdout.readline()
        yield state
        running.terminate()
        state.update(json.loads(running.stdout.readline()))
    finally:
        process.end(running)
        running.stdout.close()
