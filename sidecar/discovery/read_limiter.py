"""How fast one sidecar reads from one registry.

After an outage every sidecar wants to read everything at once. A burst that covers a normal
consumer's services goes out immediately, the rest at a steady rate, and never more than a few
replies are under way, which bounds the memory that large lists take on their way in.
"""

from __future__ import annotations

from typing import Final, final

BURST: Final = 100  # requests: twenty services with their slots and rules
PER_SECOND: Final = 200.0  # what one server answers for hundreds of sidecars at a time
IN_FLIGHT: Final = 16  # replies of up to the size limit each


@final
class ReadLimiter:
    """A rate with a burst, and a cap on requests under way; times are in seconds."""

    def __init__(
        self, burst: int = BURST, per_second: float = PER_SECOND, in_flight: int = IN_FLIGHT
    ) -> None:
        self._interval: Final = 1.0 / per_second
        self._slack: Final = (burst - 0.5) / per_second  # a half, against rounding
        self._max_in_flight: Final = in_flight
        # When the request after the last one were due, had all come at the steady rate. Kept as a
        # time, so that what next_at promises is exactly what take compares with.
        self._due = 0.0
        self.in_flight = 0

    def take(self, now: float) -> bool:
        """Take leave for one request; the taker gives it back with ``done``."""
        if self.in_flight >= self._max_in_flight or now < self._due - self._slack:
            return False
        self._due = max(self._due, now) + self._interval
        self.in_flight += 1
        return True

    def done(self) -> None:
        """A request is no longer under way."""
        self.in_flight -= 1

    def next_at(self) -> float:
        """Return from when on ``take`` succeeds, 0 while only replies can make room."""
        if self.in_flight >= self._max_in_flight:
            return 0.0
        return self._due - self._slack
