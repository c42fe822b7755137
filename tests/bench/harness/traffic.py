"""Throughput and latency of calls through each competitor, in alternating rounds.

Within a round every case visits every competitor once, and the order turns from round to round.
A figure is the median over the rounds; a ratio is the median of the ratios inside the rounds, so
that a slow minute of the machine cancels out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from harness import competitors
from harness.competitors import DIRECT, ENVOY, Competitor
from harness.native import Programs
from harness.process import Place
from harness.progress import Progress

# (consumer connections, calls outstanding on each)
CASES = ((8, 1), (64, 1), (8, 16))
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


def throughput(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return calls per second by fleet and case: medians, ratios to Envoy, and every round."""
    steps = len(plan.fleets) * plan.rounds * len(CASES) * len(plan.names)
    progress = Progress("throughput", steps)
    fleets = {
        str(fleet): _throughput_of_fleet(plan, fleet, programs, out, progress)
        for fleet in plan.fleets
    }
    return {
        "unit": "calls/s",
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "real_time": plan.place.is_real_time,
        "fleets": fleets,
    }


def latency(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return latency in microseconds at a fixed rate, from the intended start of each call."""
    progress = Progress("latency", plan.rounds * len(plan.names))
    fleet = plan.fleets[-1]
    rounds: list[dict[str, dict[str, float]]] = []
    with (
        programs.provider(fleet) as ports,
        competitors.line_up(plan.names, ports, plan.place, out) as line,
    ):
        for number in range(plan.rounds):
            found = {}
            for competitor in _in_turn(line, number):
                result = programs.load(
                    competitor.ports,
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
        "rate": LATENCY_RATE,
        "connections": LATENCY_CONNECTIONS,
        "providers": fleet,
        "seconds": plan.seconds,
        "real_time": plan.place.is_real_time,
        "median": {name: _percentiles(rounds, name) for name in plan.names},
        "added": _added(rounds, plan.names),
        "rounds": rounds,
    }


def _throughput_of_fleet(
    plan: Plan, fleet: int, programs: Programs, out: Path, progress: Progress
) -> dict[str, Any]:
    rounds: dict[str, list[dict[str, dict[str, float]]]] = {_label(case): [] for case in CASES}
    with (
        programs.provider(fleet) as ports,
        competitors.line_up(plan.names, ports, plan.place, out) as line,
    ):
        for number in range(plan.rounds):
            for case in CASES:
                found = {}
                for competitor in _in_turn(line, number):
                    found[competitor.name] = _closed_loop(plan, case, competitor, programs)
                    rate = found[competitor.name]["calls_per_second"]
                    plan.pause()
                    progress.step(f"{_label(case)} {competitor.name}: {rate:,.0f}/s")
                rounds[_label(case)].append(found)
    progress.done()
    return {label: _summary(found, plan.names) for label, found in rounds.items()}


def _closed_loop(
    plan: Plan, case: tuple[int, int], competitor: Competitor, programs: Programs
) -> dict[str, float]:
    before, begin = competitor.cpu_seconds(), time.monotonic()
    result = programs.load(
        competitor.ports,
        connections=case[0],
        outstanding=case[1],
        seconds=plan.seconds,
        warm_up=plan.warm_up,
    )
    used, elapsed = competitor.cpu_seconds() - before, time.monotonic() - begin
    calls = result["calls_per_second"] * (plan.seconds + plan.warm_up)
    return {
        "calls_per_second": result["calls_per_second"],
        "p50_us": result["latency_us"]["p50"],
        "p99_us": result["latency_us"]["p99"],
        # How much of the core the proxy got, and what a call cost it there: when the first is
        # well below 1, somebody else was on the core and only the second means something.
        "core_share": used / elapsed,
        "cpu_us_per_call": used / calls * 1e6,
        "resident_mib": competitor.resident_mib(),
    }


def _summary(rounds: list[dict[str, dict[str, float]]], names: list[str]) -> dict[str, Any]:
    medians = {
        name: {field: median(found[name][field] for found in rounds) for field in rounds[0][name]}
        for name in names
    }
    summary: dict[str, Any] = {"median": medians, "rounds": rounds}
    if ENVOY in names:
        summary["ratio_to_envoy"] = {
            name: median(
                found[name]["calls_per_second"] / found[ENVOY]["calls_per_second"]
                for found in rounds
            )
            for name in names
        }
    return summary


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


def _in_turn(line: list[Competitor], number: int) -> list[Competitor]:
    first = number % len(line)
    return line[first:] + line[:first]


def _label(case: tuple[int, int]) -> str:
    return f"{case[0]}x{case[1]}"
