"""How late the event loop runs: the sign of saturation of a program with one thread."""

from __future__ import annotations

import asyncio
from typing import Final, final

from sidecar.telemetry.counters import Histogram

PERIOD: Final = 0.5  # seconds between two samples


@final
class LagSampler:
    """Sets a timer again and again and observes how late it fires."""

    def __init__(self, loop: asyncio.AbstractEventLoop, histogram: Histogram) -> None:
        self._loop = loop
        self._histogram = histogram
        self._due = loop.time() + PERIOD
        self._timer = loop.call_at(self._due, self._sample)

    def stop(self) -> None:
        """Take no more samples."""
        self._timer.cancel()

    def _sample(self) -> None:
        now = self._loop.time()
        self._histogram.observe(max(0.0, now - self._due))
        self._due = now + PERIOD
        self._timer = self._loop.call_at(self._due, self._sample)
