"""The contract for ending calls; each protocol has its own words for it.

Whatever the way, a call that ends leaves every table it is in, is counted once, and its consumer
hears of it once if it waits for an answer.
"""

from __future__ import annotations

import logging
from typing import Final, Generic, TypeVar

from sidecar.proxy.call import Call
from sidecar.proxy.consumer import ConsumerLink
from sidecar.telemetry import names
from sidecar.telemetry.counters import (
    OTHER_METHOD_LABEL,
    UNKNOWN_SERVICE_LABEL,
    Counters,
    MethodStats,
)
from sidecar.telemetry.names import Metric

log = logging.getLogger(__name__)

C = TypeVar("C", bound=Call)


class Settlement(Generic[C]):
    """Ends the calls of one protocol, whose name is a metric label."""

    def __init__(self, protocol: str, counters: Counters) -> None:
        self.protocol: Final = protocol
        self.counters: Final = counters
        self.unknown: Final[MethodStats] = counters.method(
            protocol, UNKNOWN_SERVICE_LABEL, OTHER_METHOD_LABEL
        )

    def count(self, metric: Metric, label: str = "") -> None:
        """Add one to a counter of the table of metrics."""
        self.counters.count(metric.name, label)

    def count_unroutable(self, call: C, token: str) -> None:
        """Count a call for which nothing is eligible.

        Only names the registries know become labels; any text may come from the wire.
        """
        known = call.service.stats_label if call.service is not None else UNKNOWN_SERVICE_LABEL
        self.counters.no_provider(known, token)

    def consumer_ended(self, consumer: ConsumerLink) -> None:
        """Count the end of a consumer's connection if it was this end that closed it."""
        if consumer.closed_because:
            log.warning("a consumer's connection was ended: %s", consumer.closed_because)
            self.count(names.CONSUMERS_CLOSED, consumer.closed_because)
            consumer.closed_because = ""

    def refuse_unroutable(self, call: C, token: str, now: float) -> None:
        """Answer that no instance is eligible, and why."""
        raise NotImplementedError

    def refuse_overload(self, call: C, why: str, now: float) -> None:
        """Answer that a cap is reached."""
        raise NotImplementedError

    def refuse_unreachable(self, call: C, whom: str, now: float) -> None:
        """Answer that there is no connection to any instance that was tried."""
        raise NotImplementedError

    def refuse_late(self, call: C, now: float) -> None:
        """Answer that the sidecar is about to end."""
        raise NotImplementedError

    def lose(self, call: C, address: str, now: float) -> None:
        """Answer that the connection broke on which the call had been sent."""
        raise NotImplementedError

    def time_out(self, call: C, now: float) -> None:
        """Answer that the deadline has passed."""
        raise NotImplementedError

    def cancel(self, call: C, now: float) -> None:
        """Give up a call whose consumer does not want an answer any more."""
        raise NotImplementedError
