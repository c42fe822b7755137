"""Throughput and latency of unary gRPC calls over HTTP/2, without TLS on both sides.

Throughput is h2load's, a generator everybody knows. Latency is our own generator's: h2load starts
calls at the ticks of one timer for each client, all clients at once, and counts from when it wrote
a call, not from when the call was due, so it does not see its own waiting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import grpc_check, h2load
from harness.competitors import Competitor
from harness.native import TRIPLE, Programs
from harness.traffic import Case, Contest, Plan, measure_latency, measure_throughput


def throughput(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return calls per second by fleet and case."""
    return measure_throughput(CONTEST, plan, programs, out)


def latency(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return latency in microseconds at a fixed rate."""
    return measure_latency(CONTEST, plan, programs, out)


def _calls(
    plan: Plan, case: Case, competitor: Competitor, programs: Programs, out: Path
) -> dict[str, float]:
    clients, streams = case
    rate = h2load.calls_per_second(
        competitor.ports[0], clients, streams, plan.seconds, plan.warm_up, programs.place, out
    )
    return {"calls_per_second": rate}


CONTEST = Contest(TRIPLE, ((8, 1), (8, 10), (64, 1)), _calls, grpc_check.verify)
