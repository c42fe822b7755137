"""A consumer's connection and the calls it makes.

Heartbeats are answered here, with no provider involved. A consumer that does not read its replies
is not read from either; when replies pile up beyond a cap, or it stays like that too long, its
connection is ended, so that it never stalls the provider connections it shares with others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from sidecar.dispatch.directory import Service
from sidecar.model.instance import Instance
from sidecar.protocol.dubbo.frame import Frame, FrameReader
from sidecar.protocol.dubbo.message import RequestHead
from sidecar.protocol.dubbo.reply import heartbeat_reply
from sidecar.protocol.dubbo.session import ClientSession, ServerSession
from sidecar.proxy.link import LARGE_READ, FlushQueue, Link
from sidecar.resilience.deadlines import Timed
from sidecar.telemetry.counters import MethodStats


@final
class Call(Timed):
    """One request of a consumer, from its arrival until it is answered or given up.

    ``frame`` is dropped once the call was written to a provider, unless it may be sent again.
    Times are in seconds of a monotonic clock, ``due_ms`` in milliseconds of the same clock.
    """

    def __init__(self, downstream: Downstream, frame: Frame, head: RequestHead, now: float) -> None:
        super().__init__()
        self.downstream: Final = downstream
        self.head: Final = head
        self.id8: Final = frame.id8
        self.serialization: Final = frame.serialization
        self.size: Final = frame.size
        self.is_two_way: Final = frame.is_two_way
        self.started: Final = now
        self.service_name: Final = head.service if head.is_readable else downstream.default_service
        self.frame: Frame | None = frame
        self.service: Service | None = None
        self.stats: MethodStats | None = None
        self.instance: Instance | None = None  # the choice of the attempt under way
        self.session: ClientSession[Call] | None = None  # where it waits under upstream_id
        self.upstream_id: bytes = b""
        self.tried: list[str] | None = None  # addresses that failed this call
        self.is_idempotent = False
        self.is_resent = False
        self.has_overflowed = False
        self.is_done = False

    def leave(self, address: str) -> None:
        """Note an address this call must not be given to again."""
        if self.tried is None:
            self.tried = [address]
        else:
            self.tried.append(address)


class RequestHandler:
    """What a consumer's connection reports."""

    def request(self, downstream: Downstream, frame: Frame, now: float) -> None:
        """Take a request that is not an event; ``now`` is when its last byte was read."""
        raise NotImplementedError

    def consumer_lost(self, downstream: Downstream, now: float) -> None:
        """Give up the calls of a consumer that went away."""
        raise NotImplementedError


@final
class Downstream(Link):
    """The protocol object of one consumer connection."""

    def __init__(
        self,
        handler: RequestHandler,
        queue: FlushQueue,
        clock: Callable[[], float],
        reader: FrameReader,
        session: ServerSession[Call],
        max_buffer: int,
        default_service: str,
    ) -> None:
        super().__init__(queue)
        self._handler: Final = handler
        self._clock: Final = clock
        self._reader: Final = reader
        self._max_buffer: Final = max_buffer
        self.session: Final = session
        self.default_service: Final = default_service
        self.last_request = 0.0
        self.stalled_since = 0.0  # 0 while the consumer reads all there is
        self._unread = 0  # what the transport still held at the last look, while it is stalled
        self.is_leaving = False  # close when nothing is in flight any more
        self.closed_because = ""  # word of the counter, when this end closed it

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start with a connected transport."""
        self.open(transport)

    def data_received(self, data: bytes) -> None:
        """Take the bytes of one read."""
        now = self._clock()
        reader = self._reader
        for frame in reader.feed(data):
            if not frame.is_event and frame.is_request:
                self.last_request = now
                self._handler.request(self, frame, now)
            elif frame.is_request and frame.is_two_way and not frame.oversize:
                self.send(heartbeat_reply(frame))
        if reader.broken and not self.is_closed:
            self.closed_because = "broken_stream"
            self.close()
        if len(data) >= LARGE_READ:
            self.give_way()

    def eof_received(self) -> bool:
        """Stay open for the replies to what was asked before; True keeps the transport open."""
        self.leave()
        return not self.is_closed

    def close(self) -> None:
        """Write what is queued and end the connection; how long that takes is watched."""
        if self.stalled_since == 0:
            self.stalled_since = self._clock()
        super().close()

    def leave(self) -> None:
        """Close the connection as soon as no call is in flight on it."""
        self.is_leaving = True
        if not self.session.calls:
            self.close()

    def reply(self, call: Call, data: bytes) -> None:
        """Queue the reply that ends a call."""
        self.session.release(call)
        self.send(data)
        if self.is_write_paused and self.queued_bytes > self._max_buffer:
            self.closed_because = "buffer"
            self.abort()
        elif self.is_leaving and not self.session.calls:
            self.close()

    def pause_writing(self) -> None:
        """Stop reading from a consumer that does not read."""
        super().pause_writing()
        self.stalled_since = self._clock()
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again from a consumer that reads again."""
        super().resume_writing()
        if not self.is_closed:
            self.stalled_since = 0.0
            self.resume_reading()

    def resume_reading(self) -> None:
        """Read again, unless the consumer does not read."""
        if not self.is_write_paused:
            super().resume_reading()

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

    def connection_lost(self, error: Exception | None) -> None:
        """Give up the calls of this consumer."""
        self.is_closed = True
        self.transport = None
        self.take_parts()
        self._handler.consumer_lost(self, self._clock())
