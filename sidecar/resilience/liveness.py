"""Whether a peer that says nothing is still there."""

from __future__ import annotations

from typing import Final, final

ALIVE: Final = 0
ASK: Final = 1
DEAD: Final = 2


@final
class Liveness:
    """Decides from what was read whether a silent provider is asked or given up.

    Dubbo's HeaderExchangeClient asks after 60 s without a read and gives up after 180 s. Times are
    in seconds of a monotonic clock; a value of 0 switches that step off.
    """

    def __init__(self, ask_after: float, dead_after: float, now: float) -> None:
        self._ask_after: Final = ask_after
        self._dead_after: Final = dead_after
        self.last_read = now
        self._last_asked = now

    def check(self, now: float) -> int:
        """Return ALIVE, ASK (send a heartbeat now, at most one per period) or DEAD."""
        silent = now - self.last_read
        if 0 < self._dead_after <= silent:
            return DEAD
        if 0 < self._ask_after <= silent and now - self._last_asked >= self._ask_after:
            self._last_asked = now
            return ASK
        return ALIVE
