"""Writing what an HTTP/2 session has to say, and noting whose bytes the transport took."""

from __future__ import annotations

from typing import Final, final

from sidecar.protocol.http2.session import Session
from sidecar.proxy.link import Link
from sidecar.proxy.triple.exchange import TripleCall

# One write: what the transport holds at most before it pauses us, so that what a slow peer does not
# take stays in the session, where it is counted and can still be dropped. It is what the loop reads
# at once, so that what came in one piece leaves in one: each write wakes the peer.
CHUNK: Final = 256 * 1024
CONNECTION: Final = 0  # the stream id of the connection's own window


def write_out(link: Link, session: Session, held: int) -> bool:
    """Write until nothing is left (True) or the transport has enough (False).

    ``held`` is what the session may have of bodies at most, in bytes.
    """
    transport = link.transport
    if transport is None:
        return False
    while not link.is_write_paused:
        is_last = held <= CHUNK
        data = session.take_all() if is_last else session.take(CHUNK)
        if data:
            transport.write(data)
        if is_last or len(data) < CHUNK:
            return True
        held -= len(data)
    return False


@final
class Held:
    """Bytes of one stream's body that its transport has not taken; the last write took ``taken``.

    It is movable when a write may take some: its reader has room, as far as is known.
    """

    def __init__(self, stream_id: int, call: TripleCall, size: int) -> None:
        self.stream_id: Final = stream_id
        self.call: Final = call
        self.size = size
        self.taken = 0
        self.is_movable = True


@final
class Backlog:
    """Bytes of bodies that were given to a session and not yet taken by its transport.

    ``held`` is their sum. Only streams that can have moved are looked at: among thousands that wait
    for their reader, a write costs no more than it would alone.
    """

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._streams: Final[dict[int, Held]] = {}
        self._movable: list[Held] = []
        self.held = 0

    def add(self, stream_id: int, call: TripleCall, size: int) -> None:
        """Note bytes that were queued."""
        known = self._streams.get(stream_id)
        if known is None:
            known = Held(stream_id, call, size)
            self._streams[stream_id] = known
            self._movable.append(known)
        else:
            known.size += size
        self.held += size

    def unblock(self, stream_id: int) -> None:
        """Look at a stream (or all, CONNECTION) after the next write: its reader has made room."""
        if stream_id == CONNECTION:
            for each in self._streams.values():
                self._unblock(each)
        else:
            known = self._streams.get(stream_id)
            if known is not None:
                self._unblock(known)

    def _unblock(self, held: Held) -> None:
        if not held.is_movable:
            held.is_movable = True
            self._movable.append(held)

    def remove(self, stream_id: int) -> int:
        """Forget a stream that is over; return its bytes that were never taken."""
        known = self._streams.pop(stream_id, None)
        if known is None:
            return 0
        size = known.size
        self.held -= size
        known.size = 0
        return size

    def settle(self, is_all: bool) -> list[Held]:
        """Return the streams of which bytes were taken; ``is_all`` is what the write said."""
        if self.held == 0:
            return []
        if self._session.queued_of_all == 0:
            return self._settle_all()
        moved: list[Held] = []
        looked_at = self._movable
        self._movable = []
        for each in looked_at:
            if each.size == 0:
                continue  # it is over
            left = self._session.queued(each.stream_id)
            if left < each.size:
                each.taken = each.size - left
                each.size = left
                self.held -= each.taken
                moved.append(each)
            if left == 0:
                del self._streams[each.stream_id]
            elif is_all:
                each.is_movable = False
            else:
                self._movable.append(each)
        return moved

    def _settle_all(self) -> list[Held]:
        moved = list(self._streams.values())
        for each in moved:
            each.taken = each.size
            each.size = 0
        self._streams.clear()
        self._movable = []
        self.held = 0
        return moved
