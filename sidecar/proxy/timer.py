"""The one timer behind the deadlines of all calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, final

from sidecar.resilience.deadlines import NEVER, DeadlineWheel, Timed

log = logging.getLogger(__name__)

# Added to each delay (s), so that a wake never comes a rounding error early and has to be repeated.
ROUNDING: Final = 0.0005


@final
class DeadlineTimer:
    """Wakes the deadline wheel when something may be due, and hands over what is.

    ``call_later`` is the loop's; ``clock`` returns seconds of the clock the deadlines are in.
    ``on_expired`` is assigned once, before the first call.
    """

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], asyncio.TimerHandle],
        clock: Callable[[], float],
    ) -> None:
        self._call_later: Final = call_later
        self._clock: Final = clock
        self.on_expired: Callable[[Timed, float], None] | None = None
        self._wheel: Final = DeadlineWheel()
        self._armed_ms = NEVER
        self._handle: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._wheel)

    def add(self, item: Timed, now: float) -> None:
        """File an item whose ``due_ms`` is set; filed before, it moves."""
        wheel = self._wheel
        wheel.remove(item)
        wheel.add(item, int(now * 1000))
        if self._armed_ms == NEVER or wheel.wake_ms < self._armed_ms:
            self._arm(now)

    def remove(self, item: Timed) -> None:
        """Forget an item; the timer is left alone, because waking for nothing is cheaper."""
        self._wheel.remove(item)

    def stop(self) -> None:
        """Never wake again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, now: float) -> None:
        self.stop()
        self._armed_ms = self._wheel.wake_ms
        if self._armed_ms != NEVER:
            delay = max(self._armed_ms / 1000 - now, 0.0)
            self._handle = self._call_later(delay + ROUNDING, self._wake)

    def _wake(self) -> None:
        self._handle = None
        now = self._clock()
        on_expired = self.on_expired
        for item in self._wheel.expire(int(now * 1000)):
            if on_expired is not None:
                try:
                    on_expired(item, now)
                except Exception:  # a defect costs this call, not the deadlines of all others
                    log.exception("a deadline was missed")
        self._arm(self._clock())
