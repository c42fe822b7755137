"""How fast one sidecar reads from one registry.

After an outage every sidecar wants to read everything at once. A burst that covers a normal
consumer's services goes out immediately, the rest at a steady rate, and never more than a few
replies are under way, which bounds the memory that large lists take on their way in.
"""

from __future__ import annotations

from typing import Final, final

BURST: Final = 100.0  # requests: twenty services with their slots and rules
PER_SECOND: Final = 200.0  # what one server answers for hundreds of sidecars at a time
IN_FLIGHT: Final = 16  # replies of up to the size limit each


@final
class ReadLimiter:
    """A token bucket with a cap on requests under way; times are in seconds."""

    def __init__(
        self, burst: float = BURST, per_second: float = PER_SECOND, in_flight: int = IN_FLIGHT
    ) -> None:
        self._burst: Final = burst
        self._per_second: Final = per_second
        self._max_in_flight: Final = in_flight
        self._tokens = burst
        self._filled_at = 0.0
        self.in_flight = 0

    def take(self, now: float) -> bool:
        """Take leave for one request; the taker gives it back with ``done``."""
        if now > self._filled_at:
            grown = self._tokens + (now - self._filled_at) * self._per_second
            self._tokens = min(self._burst, grown)
            self._filled_at = now
        if self._tokens < 1.0 or self.in_flight >= self._max_in_flight:
            return False
        self._tokens -= 1.0
        self.in_flight += 1
        return True

    def done(self) -> None:
        """A request is no longer under way."""
        self.in_flight -= 1

    def next_at(self) -> float:
        """Return when the next token is there, 0 while only replies can make room."""
        if self.in_flight >= self._max_in_flight:
            return 0.0
        return self._filled_at + max(0.0, 1.0 - self._tokens) / self._per_second
