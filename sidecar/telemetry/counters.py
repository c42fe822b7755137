"""Counters of the hot path: plain integers in preallocated blocks, read when scraped.

One writer (the event loop), so an increment is an addition and nothing else. Labels never meet the
hot path: a call carries a reference to its block. The number of blocks is capped, because service
and method names come from the wire (a hostile consumer may send a new one with each call): calls to
services that nobody has share one block, methods of one service beyond the cap share the method
``_other`` of it, and when the table is full, calls share the block ``_unknown``, ``_other``.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, final

from sidecar.model import outcome

# Not a tuple of a fixed length: mypyc makes that a C struct, copied into a new Python tuple at each
# use, and of nine floats it forgets the value ("value for final name was not set").
Bounds = tuple[float, ...]

# Upper bounds in seconds; the last bucket is +Inf. From "a loopback call" to "a patient consumer".
DURATION_BOUNDS: Final[Bounds] = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
MAX_METHOD_BLOCKS: Final = 2000  # x 25 series each: within what one scrape should return
MAX_METHODS: Final = 200  # of one service: invented ones must not take the blocks of the others
MAX_LABEL_SETS: Final = 5000  # of one rarer family: services come and go for as long as we run
LOOP_LAG_BOUNDS: Final[Bounds] = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
UNKNOWN_SERVICE_LABEL: Final = "_unknown"
OTHER_METHOD_LABEL: Final = "_other"


@final
class Histogram:
    """Observations in seconds, in buckets with the given upper bounds and one above them."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds: Final = bounds
        self.buckets: Final[list[int]] = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one observation."""
        self.buckets[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds


@final
class MethodStats:
    """Calls of one (protocol, service, method): outcomes and the duration histogram."""

    def __init__(self, protocol: str, service: str, method: str) -> None:
        self.protocol: Final = protocol
        self.service: Final = service
        self.method: Final = method
        self.outcomes: Final[list[int]] = [0] * outcome.COUNT
        self.buckets: Final[list[int]] = [0] * (len(DURATION_BOUNDS) + 1)
        self.duration_sum = 0.0

    def settle(self, result: int, seconds: float) -> None:
        """Count one finished call; ``result`` is a constant of ``model.outcome``."""
        self.outcomes[result] += 1
        self.buckets[bisect_left(DURATION_BOUNDS, seconds)] += 1
        self.duration_sum += seconds


@final
class Counters:
    """Every counter of the process that is not in a registry of its own ring."""

    def __init__(self, max_blocks: int = MAX_METHOD_BLOCKS) -> None:
        self._max_blocks: Final = max_blocks
        self.methods: Final[dict[tuple[str, str, str], MethodStats]] = {}
        self._method_counts: Final[dict[str, int]] = {}
        self.series_dropped = 0
        self.no_eligible: Final[dict[tuple[str, str], int]] = {}  # (service, reason)
        self.degraded: Final[dict[tuple[str, str, str], int]] = {}  # (service, router, reason)
        self.named: Final[dict[tuple[str, str], int]] = {}  # (counter name, label value)
        self.loop_lag: Final = Histogram(LOOP_LAG_BOUNDS)

    def method(self, protocol: str, service: str, method: str) -> MethodStats:
        """Return the block of a method, or a shared one when a cap is reached."""
        if service == UNKNOWN_SERVICE_LABEL:
            method = OTHER_METHOD_LABEL
        stats = self.methods.get((protocol, service, method))
        if stats is not None:
            return stats
        if service != UNKNOWN_SERVICE_LABEL:
            if len(self.methods) >= self._max_blocks:
                self.series_dropped += 1
                return self.method(protocol, UNKNOWN_SERVICE_LABEL, OTHER_METHOD_LABEL)
            count = self._method_counts.get(service, 0)
            if count >= MAX_METHODS and method != OTHER_METHOD_LABEL:
                self.series_dropped += 1
                return self.method(protocol, service, OTHER_METHOD_LABEL)
            self._method_counts[service] = count + 1
        stats = MethodStats(protocol, service, method)
        self.methods[(protocol, service, method)] = stats
        return stats

    def count(self, name: str, label: str = "", amount: int = 1) -> None:
        """Add to a rarely used counter; ``name`` and its label are listed in ``names``."""
        key = (name, label)
        self.named[key] = self.named.get(key, 0) + amount

    def no_provider(self, service: str, reason: str) -> None:
        """Count a call that found nothing eligible."""
        key = (service, reason)
        if key not in self.no_eligible and len(self.no_eligible) >= MAX_LABEL_SETS:
            self.series_dropped += 1
            key = (UNKNOWN_SERVICE_LABEL, reason)
        self.no_eligible[key] = self.no_eligible.get(key, 0) + 1

    def degrade(self, service: str, router: str, reason: str) -> None:
        """Count a call for which a router returned its wider set on purpose."""
        key = (service, router, reason)
        if key not in self.degraded and len(self.degraded) >= MAX_LABEL_SETS:
            self.series_dropped += 1
            key = (UNKNOWN_SERVICE_LABEL, router, reason)
        self.degraded[key] = self.degraded.get(key, 0) + 1
