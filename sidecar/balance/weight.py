"""The weight of an instance at one moment: its base weight, reduced while it warms up.

The rule is that of Dubbo's AbstractLoadBalance, with two recorded deviations: an instance that
started in this very millisecond has weight 1 (Dubbo: the full weight), and the division is done in
integers (Dubbo: 32-bit floats, which differ by at most 1 where a step begins).

``now_ms`` is the wall clock read once plus a monotonic difference, so a clock that is set back
cannot make a warm instance cold. A provider whose clock is ahead has weight 1 until it is reached.
"""

from __future__ import annotations

from sidecar.model.instance import Instance


def base_weight(instance: Instance, method: str) -> int:
    """Return the weight of a warm instance for one method; negative weights count as 0."""
    weight = instance.weight
    of_methods = instance.method_weights
    if of_methods is not None:
        weight = of_methods.get(method, weight)
    return max(0, weight)


def weight_at(instance: Instance, method: str, now_ms: int) -> int:
    """Return the weight at ``now_ms``: it only grows with time, up to the base weight."""
    base = base_weight(instance, method)
    if base <= 1 or instance.started_ms <= 0:
        return base
    uptime = now_ms - instance.started_ms
    if uptime < 0:
        return 1
    if uptime >= instance.warmup_ms:
        return base
    return max(1, uptime * base // instance.warmup_ms)


def is_warming(instance: Instance, now_ms: int) -> bool:
    """Tell whether the weight of the instance may still grow."""
    if instance.started_ms <= 0:
        return False
    uptime = now_ms - instance.started_ms
    return uptime < 0 or uptime < instance.warmup_ms
