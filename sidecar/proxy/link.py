"""One TCP connection whose writes leave together, once per loop turn.

A send only appends to a list; the first one of a turn registers the connection with the flush
queue, which runs after every ready socket of the turn was read. System calls dominate the cost of
small calls, and this makes one write out of all that a turn produced for a peer.

When the peer is slower than we are, the transport says so (``pause_writing``) and parts stay in
the list, where they are still ours: counted against a cap, and for a provider still movable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, final

log = logging.getLogger(__name__)

# What the transport may hold before it pauses us: enough for one good write, and little, because
# bytes given to the transport cannot be taken back when a provider starts to drain.
HIGH_WATER: Final = 64 * 1024

# A read as large as this says that more is waiting. uvloop would go on with this connection, for up
# to 32 reads of 250 KB, before it looks at another one: seconds, if the peer sends tiny frames.
LARGE_READ: Final = 128 * 1024


@final
class FlushQueue:
    """The connections that have something to write in this loop turn."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon: Final = call_soon
        self._links: list[Link] = []
        self._is_armed = False
        self._run: Final[Callable[[], None]] = self.run  # bound once, not once a turn

    def add(self, link: Link) -> None:
        """Have ``link.flush`` called at the end of this turn; the link adds itself once a turn."""
        self._links.append(link)
        if not self._is_armed:
            self._is_armed = True
            self._call_soon(self._run)

    def run(self) -> None:
        """Flush every registered connection; one that fails must not hold up the others."""
        links = self._links
        self._links = []
        self._is_armed = False
        for link in links:
            try:
                link.flush()
            except Exception:  # a defect costs this connection, not those behind it
                log.exception("a connection is ended, because it cannot be written to")
                link.abort()


class Link:
    """The write side that consumer and provider connections share."""

    def __init__(self, queue: FlushQueue) -> None:
        self._queue: Final = queue
        self.transport: asyncio.Transport | None = None
        self.parts: list[bytes] = []
        self.queued_bytes = 0
        self.is_write_paused = False
        self.is_registered = False
        self.is_giving_way = False
        self.is_closing = False  # the last write is being made; from here on it is only ended
        self.is_closed = False

    @property
    def held_bytes(self) -> int:
        """The bytes that the transport has not taken."""
        return self.queued_bytes

    def open(self, transport: asyncio.Transport) -> None:
        """Take over a connected transport."""
        self.transport = transport
        transport.set_write_buffer_limits(HIGH_WATER)

    def send(self, data: bytes) -> None:
        """Queue bytes for the end of this turn; on a closed connection they are dropped."""
        if self.is_closed:
            return
        self.parts.append(data)
        self.queued_bytes += len(data)
        self._register()

    def _register(self) -> None:
        if not self.is_registered:
            self.is_registered = True
            self._queue.add(self)

    def give_way(self) -> None:
        """Let every other connection be read before this one is read again."""
        if self.transport is not None and not self.is_closed:
            self.is_giving_way = True
            self.transport.pause_reading()
            self._register()

    def resume_reading(self) -> None:
        """Read again."""
        if self.transport is not None and not self.is_closed:
            self.transport.resume_reading()

    def flush(self) -> None:
        """Hand what is queued to the transport, unless the peer is slow."""
        self.is_registered = False
        if self.is_giving_way:
            self.is_giving_way = False
            self.resume_reading()
        if self.is_write_paused or not self.parts:
            return
        parts = self.take_parts()
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if data and self.transport is not None:
            self.transport.write(data)

    def take_parts(self) -> list[bytes]:
        """Empty the queue and return what was in it."""
        parts = self.parts
        self.parts = []
        self.queued_bytes = 0
        return parts

    def pause_writing(self) -> None:
        """Keep further parts here; the transport calls it when its buffer is full."""
        self.is_write_paused = True

    def resume_writing(self) -> None:
        """Write again; the transport calls it when its buffer is empty enough."""
        self.is_write_paused = False
        if self.parts:
            self._register()

    def close(self) -> None:
        """Write what is queued and end the connection; nothing is accepted after."""
        if self.is_closing or self.is_closed:
            return
        self.is_closing = True
        self.is_write_paused = False
        self.flush()
        self.is_closed = True
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """End the connection at once; what is queued is lost."""
        self.is_closed = True
        self.take_parts()
        if self.transport is not None:
            self.transport.abort()
