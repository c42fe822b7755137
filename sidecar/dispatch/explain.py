"""Why a call would go where it goes: the walk of a decision with every set named.

The steps come from the same chain, over the same snapshot, that decides calls; nothing is decided a
second way here. No argument of the call is needed, only what routers read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sidecar.balance import pool as balance
from sidecar.dispatch.directory import Service
from sidecar.model import reason as reasons
from sidecar.model.instance import Instance
from sidecar.model.protocol import DUBBO, NAMES
from sidecar.routing.chain import TraceStep
from sidecar.routing.router import Call, resolve
from sidecar.routing.snapshot import ServiceSnapshot, View

MAX_EXCLUDED: Final = 20  # per step; the counts tell how many there are


def explain(
    service: Service,
    call: Call,
    method: str,
    unavailable: dict[str, int],
    protocol: int = DUBBO,
) -> dict[str, Any]:
    """Return the explanation of a call of a protocol, ready for JSON.

    ``steps`` are the match of group, version and protocol, each router, and ``admit`` (weights and
    addresses in ``unavailable``). ``excluded`` lists at most ``MAX_EXCLUDED`` of a step,
    ``eligible`` all addresses that may be picked. ``reason`` is a reason token when there are none.
    """
    plan = service.plan
    if plan is None:
        return _answer(service, protocol, 0, [], [], service.failure)
    snapshot = plan.snapshot
    view = snapshot.view(protocol)
    steps = [_match_step(snapshot, view)]
    trace: list[TraceStep] = []
    if view.members:
        view.chain.route(call, view.members, service.counters, trace)
    steps.extend(_router_step(snapshot, call, each) for each in trace)
    pool = plan.pool(call.tag, call.force_tag, call.service_tag, protocol)
    eligible = _admit(pool, method, unavailable, steps)
    return _answer(service, protocol, snapshot.epoch, steps, eligible, pool.reason)


def _answer(
    service: Service,
    protocol: int,
    epoch: int,
    steps: list[dict[str, Any]],
    eligible: list[str],
    reason: str,
) -> dict[str, Any]:
    return {
        "service": service.key.text,
        "protocol": NAMES[protocol],
        "epoch": epoch,
        "steps": steps,
        "eligible": eligible,
        "picked_by": balance.NAME if eligible else "",
        "reason": reason,
    }


def _match_step(snapshot: ServiceSnapshot, view: View) -> dict[str, Any]:
    sets = snapshot.member_sets
    members = view.members
    outside = (each for each in snapshot.instances if each is not None and each.id not in members)
    return _step(
        "match",
        snapshot.size,
        len(members),
        view.empty_reason or "matched",
        ((each, sets.verdict(each) or reasons.PROTOCOL_MISMATCH) for each in outside),
    )


def _router_step(snapshot: ServiceSnapshot, call: Call, each: TraceStep) -> dict[str, Any]:
    gone = resolve(snapshot.instances, each.before - each.step.out)
    router = each.router
    return _step(
        router.name,
        len(each.before),
        len(each.step.out),
        each.step.reason,
        ((instance, router.why_not(call, instance)) for instance in gone),
    )


def _admit(
    pool: balance.Pool, method: str, unavailable: dict[str, int], steps: list[dict[str, Any]]
) -> list[str]:
    if not pool.instances:
        return []
    refused = pool.refusals(method, unavailable)
    admitted = [each for each in pool.instances if each.id not in refused]
    is_last_resort = all(each.address in unavailable for each in admitted)
    steps.append(
        _step(
            "admit",
            len(pool.instances),
            len(admitted),
            "last_resort" if is_last_resort else "admitted",
            ((each, refused[each.id]) for each in pool.instances if each.id in refused),
        )
    )
    return [each.address for each in admitted]


def _step(
    name: str,
    before: int,
    after: int,
    reason: str,
    excluded: Iterable[tuple[Instance, str]],
) -> dict[str, Any]:
    shown = [
        {"instance": instance.address, "reason": why}
        for (instance, why), _ in zip(excluded, range(MAX_EXCLUDED), strict=False)
    ]
    return {"router": name, "in": before, "out": after, "reason": reason, "excluded": shown}
