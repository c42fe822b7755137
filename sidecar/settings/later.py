"""Keys and values of the configuration that are planned but not in this version.

They are refused like any unknown key, with a sentence that says so instead of a guess at a typo.
"""

from __future__ import annotations

from typing import Final

LATER_KEYS: Final = {
    "cache": "the snapshot cache for cold starts",
    "isolation": "isolation of unhealthy instances",
    "routing.virtual_group": "virtual grouping",
    "services.overrides.*.balancer": "a balancer per service",
}
LATER_VALUES: Final = {
    "balancer": (
        "round_robin", "least_active", "shortest_response", "consistent_hash", "p2c", "peak_ewma",
        "roundrobin", "leastactive", "shortestresponse", "consistenthash",  # as Dubbo writes them
    ),
    "routing.nearby.mode": ("affinity", "spill"),
}  # fmt: skip


def later_key(path: str) -> str:
    """Return what the key will be for, or an empty string when nothing is planned."""
    return LATER_KEYS.get(path, "")


def is_later_value(path: str, value: str) -> bool:
    """Return whether the value is planned for this key."""
    return value in LATER_VALUES.get(path, ())
