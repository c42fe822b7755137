"""The decision of a call: which instance, or why none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from sidecar.dispatch.directory import Service
from sidecar.model.instance import Instance
from sidecar.model.protocol import DUBBO


@final
class Decision:
    """The chosen instance, or None with the reason.

    ``reason`` is a token of ``model.reason``, ``""`` with an instance or while the service is still
    being resolved. ``override`` is the state that the instance has in ``unavailable`` when it was
    chosen for want of a better one, else 0.
    """

    def __init__(self, instance: Instance | None, reason: str, override: int) -> None:
        self.instance: Final = instance
        self.reason: Final = reason
        self.override: Final = override


def decide(
    service: Service,
    tag: str,
    force_tag: bool,
    service_tag: str,
    method: str,
    now_ms: int,
    rng: Callable[[], float],
    unavailable: dict[str, int],
    protocol: int = DUBBO,
) -> Decision:
    """Route a call and pick an instance; never raises, never waits.

    ``tag`` is the call's tag or the consumer's default. ``now_ms`` is the wall clock at start plus
    a monotonic difference. ``unavailable`` maps addresses to a state of ``balance.pool``; a retry
    adds the addresses that it tried. ``protocol`` is that of the call (``model.protocol``): only
    instances that speak it are chosen.
    """
    service.last_used = now_ms
    plan = service.plan
    if plan is None:
        return Decision(None, service.failure, 0)
    pool = plan.pool(tag, force_tag, service_tag, protocol)
    instance = pool.pick(method, now_ms, rng, unavailable)
    if instance is None:
        return Decision(None, pool.reason, 0)
    for router, reason in pool.degraded:
        service.counters.degrade(service.stats_label, router, reason)
    return Decision(instance, "", unavailable.get(instance.address, 0) if unavailable else 0)
