"""What all consumer connections have, whatever their protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sidecar.proxy.link import FlushQueue, Link


class ConsumerLink(Link):
    """A consumer's connection. Times are in seconds of the monotonic clock."""

    def __init__(self, queue: FlushQueue, clock: Callable[[], float]) -> None:
        super().__init__(queue)
        self.clock: Final = clock
        self.last_request = 0.0
        self.stalled_since = 0.0  # 0 while the consumer reads all there is
        self._unread = 0  # what the transport still held at the last look, while it is stalled
        self.is_leaving = False  # close when nothing is in flight any more
        self.closed_because = ""  # word of the counter, when this end closed it

    @property
    def inflight(self) -> int:
        """The number of calls that are not answered yet."""
        raise NotImplementedError

    @property
    def is_unfinished(self) -> bool:
        """Whether the consumer is being told that this connection takes no new calls."""
        return False

    def close(self) -> None:
        """Write what is queued and end the connection; how long that takes is watched."""
        if self.stalled_since == 0:
            self.stalled_since = self.clock()
        super().close()

    def leave(self) -> None:
        """Close the connection as soon as no call is in flight on it."""
        self.is_leaving = True
        if self.inflight == 0:
            self.close()

    def check(self, now: float, stall: float) -> None:
        """End a connection whose consumer has read nothing for ``stall`` seconds."""
        if self.stalled_since == 0 or self.transport is None:
            return
        unread = self.transport.get_write_buffer_size()
        if unread < self._unread:
            self.stalled_since = now  # slow, but it reads
        elif self.stalled_since <= now - stall:
            self.closed_because = self.closed_because or "stalled"
            self.abort()
        self._unread = unread
