"""Throughput and latency of calls through each competitor, in alternating rounds.

The same for every protocol; a `Contest` holds what differs.

Within a round every case visits every competitor once, and the order turns from round to round.
A figure is the median over the rounds; a ratio is the median of the ratios inside the rounds, so
that a slow minute of the machine cancels out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from harness import competitors
from harness.competitors import DIRECT, ENVOY, Competitor
from harness.native import DUBBO, Programs
from harness.process import Place
from harness.progress import Progress

Case = tuple[int, int]  # consumer connections, calls outstanding on each

LATENCY_CONNECTIONS = 50
LATENCY_RATE = 2000
PERCENTILES = ("p50", "p90", "p99", "p99.9")


@dataclass(frozen=True)
class Plan:
    """How long and how often to measure, and whom."""

    names: list[str]
    rounds: int
    seconds: float
    warm_up: float
    fleets: tuple[int, ...]
    place: Place  # of the proxies

    def pause(self) -> None:
        """Give the rest of the machine its turn after a measurement at real-time priority."""
        if self.place.is_real_time:
            time.sleep(self.seconds)


@dataclass(frozen=True)
class Contest:
    """One protocol: its cases, and its load generator."""

    protocol: str
    cases: tuple[Case, ...]
    # One measurement of one case: `calls_per_second`, and whatever else the generator tells.
    closed_loop: Callable[[Plan, Case, Competitor, Programs, Path], dict[str, float]]
    # Called before each measurement; raises LoadError when what is answered is not right.
    verify: Callable[[int], None] | None = None


def throughput(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return calls per second over Dubbo TCP, by fleet and case."""
    return measure_throughput(DUBBO_CONTEST, plan, programs, out)


def latency(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return latency over Dubbo TCP in microseconds at a fixed rate."""
    return measure_latency(DUBBO_CONTEST, plan, programs, out)


def measure_throughput(
    contest: Contest, plan: Plan, programs: Programs, out: Path
) -> dict[str, Any]:
    """Return calls per second by fleet and case: medians, ratios to Envoy, and every round."""
    steps = len(plan.fleets) * plan.rounds * len(contest.cases) * len(plan.names)
    progress = Progress(f"{contest.protocol} throughput", steps)
    fleets = {
        str(fleet): _throughput_of_fleet(contest, plan, fleet, programs, out, progress)
        for fleet in plan.fleets
    }
    return {
        "unit": "calls/s",
        "protocol": contest.protocol,
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "real_time": plan.place.is_real_time,
        "fleets": fleets,
    }


def measure_latency(contest: Contest, plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return latency in microseconds at a fixed rate, from the intended start of each call."""
    progress = Progress(f"{contest.protocol} latency", plan.rounds * len(plan.names))
    fleet = plan.fleets[-1]
    rounds: list[dict[str, dict[str, float]]] = []
    with (
        programs.provider(fleet, contest.protocol) as ports,
        competitors.line_up(plan.names, contest.protocol, ports, plan.place, out) as line,
    ):
        for number in range(plan.rounds):
            found = {}
            for competitor in in_turn(line, number):
                if contest.verify is not None:
                    contest.verify(competitor.ports[0])
                result = programs.load(
                    competitor.ports,
                    contest.protocol,
                    connections=LATENCY_CONNECTIONS,
                    rate=LATENCY_RATE,
                    seconds=plan.seconds,
                    warm_up=plan.warm_up,
                )
                found[competitor.name] = result["latency_us"]
                plan.pause()
                progress.step(f"{competitor.name}: p50 {result['latency_us']['p50']:.0f} us")
            rounds.append(found)
    progress.done()
    return {
        "unit": "us",
        "protocol": contest.protocol,
        "rate": LATENCY_RATE,
        "connections": LATENCY_CONNECTIONS,
        "providers": fleet,
        "seconds": plan.seconds,
        "real_time": plan.place.is_real_time,
        "median": {name: _percentiles(rounds, name) for name in plan.names},
        "added": _added(rounds, plan.names),
        "rounds": rounds,
    }


def in_turn(line: list[Competitor], number: int) -> list[Competitor]:
    """Return the competitors in the order of that round."""
    first = number % len(line)
    return line[first:] + line[:first]


def label(case: Case) -> str:
    """Return the name of a case, as 8x16."""
    return f"{case[0]}x{case[1]}"


def summary(
    rounds: list[dict[str, dict[str, float]]], names: list[str], field: str
) -> dict[str, Any]:
    """Return medians over the rounds, and of the ratios to Envoy in `field`."""
    medians = {
        name: {each: median(found[name][each] for found in rounds) for each in rounds[0][name]}
        for name in names
    }
    result: dict[str, Any] = {"median": medians, "rounds": rounds}
    if ENVOY in names:
        result["ratio_to_envoy"] = {
            name: median(found[name][field] / found[ENVOY][field] for found in rounds)
            for name in names
        }
    return result


class Use:
    """What a competitor uses of its core during one measurement."""

    def __init__(self, competitor: Competitor) -> None:
        self._competitor = competitor
        self._cpu, self._begin = competitor.cpu_seconds(), time.monotonic()

    def figures(self, work: float, field: str) -> dict[str, float]:
        """Return its share of the core, microseconds per piece of work, and resident memory.

        When the share is well below 1, somebody else was on the core, or the other side was the
        slower one; then only the microseconds mean something.
        """
        used, elapsed = self._competitor.cpu_seconds() - self._cpu, time.monotonic() - self._begin
        return {
            "core_share": used / elapsed,
            field: used / work * 1e6,
            "resident_mib": self._competitor.resident_mib(),
        }


def _throughput_of_fleet(
    contest: Contest, plan: Plan, fleet: int, programs: Programs, out: Path, progress: Progress
) -> dict[str, Any]:
    rounds: dict[str, list[dict[str, dict[str, float]]]] = {
        label(case): [] for case in contest.cases
    }
    with (
        programs.provider(fleet, contest.protocol) as ports,
        competitors.line_up(plan.names, contest.protocol, ports, plan.place, out) as line,
    ):
        for number in range(plan.rounds):
            for case in contest.cases:
                found = {}
                for competitor in in_turn(line, number):
                    found[competitor.name] = _closed_loop(
                        contest, plan, case, competitor, programs, out
                    )
                    rate = found[competitor.name]["calls_per_second"]
                    plan.pause()
                    progress.step(f"{label(case)} {competitor.name}: {rate:,.0f}/s")
                rounds[label(case)].append(found)
    progress.done()
    return {name: summary(found, plan.names, "calls_per_second") for name, found in rounds.items()}


def _closed_loop(
    contest: Contest,
    plan: Plan,
    case: Case,
    competitor: Competitor,
    programs: Programs,
    out: Path,
) -> dict[str, float]:
    if contest.verify is not None:
        contest.verify(competitor.ports[0])
    use = Use(competitor)
    figures = contest.closed_loop(plan, case, competitor, programs, out)
    calls = figures["calls_per_second"] * (plan.seconds + plan.warm_up)
    return {**figures, **use.figures(calls, "cpu_us_per_call")}


def _dubbo_calls(
    plan: Plan, case: Case, competitor: Competitor, programs: Programs, out: Path
) -> dict[str, float]:
    result = programs.load(
        competitor.ports,
        connections=case[0],
        outstanding=case[1],
        seconds=plan.seconds,
        warm_up=plan.warm_up,
    )
    return {
        "calls_per_second": result["calls_per_second"],
        "p50_us": result["latency_us"]["p50"],
        "p99_us": result["latency_us"]["p99"],
    }


DUBBO_CONTEST = Contest(DUBBO, ((8, 1), (64, 1), (8, 16)), _dubbo_calls)


def _percentiles(rounds: list[dict[str, dict[str, float]]], name: str) -> dict[str, float]:
    return {field: median(found[name][field] for found in rounds) for field in PERCENTILES}


def _added(
    rounds: list[dict[str, dict[str, float]]], names: list[str]
) -> dict[str, dict[str, float]]:
    if DIRECT not in names:
        return {}
    return {
        name: {
            field: median(found[name][field] - found[DIRECT][field] for found in rounds)
            for field in PERCENTILES
        }
        for name in names
        if name != DIRECT
    }
