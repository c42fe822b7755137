"""When a draining data plane is done: serve on, then finish, then go.

A sidecar that leaves before its application makes the application's last calls fail. So the end
of the process is asked for, but served until no consumer was active for a while, or the grace
period is over; only then are new calls refused and those in flight awaited.
"""

from __future__ import annotations

from typing import Final

# What is in flight at the very end is awaited this long (s): the pod's own grace is nearly used up.
FINISH_TIME: Final = 2.0

SERVE: Final = 0
FINISH: Final = 1
DONE: Final = 2


class Drain:
    """The phases of an ending; times are in seconds of a monotonic clock."""

    def __init__(self, grace: float, idle: float, now: float) -> None:
        self._idle: Final = idle
        self._serve_until: Final = now + grace
        self._active = now
        self._finish_until = 0.0
        self._is_told = False
        self.phase = SERVE

    def hurry(self, now: float) -> None:
        """Refuse new calls from now on: a second signal asked for the end."""
        if self.phase == SERVE:
            self.phase = FINISH
            self._finish_until = now + FINISH_TIME

    def step(self, now: float, last_request: float, inflight: int) -> int:
        """Return the phase, given when the last request of any consumer came and what is open.

        FINISH is returned at least once: then consumers are told, and that is open until they know.
        """
        if inflight > 0:
            self._active = now
        self._active = max(self._active, last_request)
        if self.phase == SERVE and (now >= self._serve_until or now - self._active >= self._idle):
            self.hurry(now)
        if self._is_told and (inflight == 0 or now >= self._finish_until):
            self.phase = DONE
        self._is_told = self.phase != SERVE
        return self.phase
