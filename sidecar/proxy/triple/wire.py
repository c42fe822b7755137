"""Writing what an HTTP/2 session has to say, and noting whose bytes the transport took."""

from __future__ import annotations

from typing import Final, final

from sidecar.protocol.http2.session import Session
from sidecar.proxy.link import Link
from sidecar.proxy.triple.exchange import TripleCall

# One write: what the transport holds at most before it pauses us, so that what a slow peer does not
# take stays in the session, where it is counted and can still be dropped.
CHUNK: Final = 64 * 1024
CONNECTION: Final = 0  # the stream id of the connection's own window


def write_out(link: Link, session: Session) -> bool:
    """Write until nothing is left (True) or the transport has enough (False)."""
    transport = link.transport
    if transport is None:
        return False
    while not link.is_write_paused:
        data = session.take(CHUNK)
        if not data:
            return True
        transport.write(data)
    return False


@final
class Backlog:
    """Bytes of bodies that were given to a session and not yet taken by its transport.

    ``held`` is their sum. Only streams that can have moved are looked at: among thousands that wait
    for their reader, a write costs no more than it would alone.
    """

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._calls: Final[dict[int, TripleCall]] = {}
        self._sizes: Final[dict[int, int]] = {}
        self._movable: dict[int, None] = {}  # a set that keeps its order
        self.held = 0

    def add(self, stream_id: int, call: TripleCall, size: int) -> None:
        """Note bytes that were queued."""
        known = self._sizes.get(stream_id)
        if known is None:
            self._calls[stream_id] = call
            self._sizes[stream_id] = size
            self._movable[stream_id] = None
        else:
            self._sizes[stream_id] = known + size
        self.held += size

    def unblock(self, stream_id: int) -> None:
        """Look at a stream (or all, CONNECTION) after the next write: its reader has made room."""
        if stream_id == CONNECTION:
            self._movable = dict.fromkeys(self._sizes)
        elif stream_id in self._sizes:
            self._movable[stream_id] = None

    def remove(self, stream_id: int) -> int:
        """Forget a stream that is over; return its bytes that were never taken."""
        size = self._sizes.pop(stream_id, 0)
        self._calls.pop(stream_id, None)
        self.held -= size
        return size

    def settle(self, is_all: bool) -> list[tuple[TripleCall, int]]:
        """Return the calls whose bytes were taken, with how many; ``is_all`` as of the write."""
        moved: list[tuple[TripleCall, int]] = []
        looked_at = self._movable
        self._movable = {}
        for stream_id in looked_at:
            size = self._sizes.get(stream_id)
            if size is None:
                continue
            left = self._session.queued(stream_id)
            if left < size:
                moved.append((self._calls[stream_id], size - left))
                self.held -= size - left
                self._sizes[stream_id] = left
            if left == 0:
                del self._sizes[stream_id]
                del self._calls[stream_id]
            elif not is_all:
                self._movable[stream_id] = None
        return moved
