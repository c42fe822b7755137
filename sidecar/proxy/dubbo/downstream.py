"""A consumer's connection and the calls it makes.

Heartbeats are answered here, with no provider involved. A consumer that does not read its replies
is not read from either; when replies pile up beyond a cap, or it stays like that too long, its
connection is ended, so that it never stalls the provider connections it shares with others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from sidecar.protocol.dubbo.frame import Frame, FrameReader
from sidecar.protocol.dubbo.message import RequestHead
from sidecar.protocol.dubbo.reply import heartbeat_reply
from sidecar.protocol.dubbo.session import ClientSession, ServerSession
from sidecar.proxy.call import Call
from sidecar.proxy.consumer import ConsumerLink
from sidecar.proxy.link import LARGE_READ, FlushQueue


@final
class DubboCall(Call):
    """One request of a consumer, from its arrival until it is answered or given up.

    ``frame`` is dropped once the call was written to a provider, unless it may be sent again.
    """

    def __init__(self, downstream: Downstream, frame: Frame, head: RequestHead, now: float) -> None:
        name = head.service if head.is_readable else downstream.default_service
        super().__init__(name, head.method, head.timeout_ms, now)
        self.downstream: Final = downstream
        self.head: Final = head
        self.id8: Final = frame.id8
        self.serialization: Final = frame.serialization
        self.size: Final = frame.size
        self.is_two_way: Final = frame.is_two_way
        self.frame: Frame | None = frame
        self.session: ClientSession[DubboCall] | None = None  # where it waits under upstream_id
        self.upstream_id: bytes = b""
        self.is_idempotent = False
        self.is_resent = False

    @property
    def is_awaited(self) -> bool:
        """Whether the consumer waits for an answer."""
        return self.is_two_way

    @property
    def held_bytes(self) -> int:
        """The bytes that are kept while the call cannot leave; 0 when there is nothing to send."""
        return 0 if self.frame is None else len(self.frame.raw)


class RequestHandler:
    """What a consumer's connection reports."""

    def request(self, downstream: Downstream, frame: Frame, now: float) -> None:
        """Take a request that is not an event; ``now`` is when its last byte was read."""
        raise NotImplementedError

    def consumer_lost(self, downstream: Downstream, now: float) -> None:
        """Give up the calls of a consumer that went away."""
        raise NotImplementedError


@final
class Downstream(ConsumerLink):
    """The protocol object of one consumer connection."""

    def __init__(
        self,
        handler: RequestHandler,
        queue: FlushQueue,
        clock: Callable[[], float],
        reader: FrameReader,
        session: ServerSession[DubboCall],
        max_buffer: int,
        default_service: str,
    ) -> None:
        super().__init__(queue, clock)
        self._handler: Final = handler
        self._reader: Final = reader
        self._max_buffer: Final = max_buffer
        self.session: Final = session
        self.default_service: Final = default_service

    @property
    def inflight(self) -> int:
        """The number of two-way calls that are not answered yet."""
        return len(self.session)

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start with a connected transport."""
        self.open(transport)

    def data_received(self, data: bytes) -> None:
        """Take the bytes of one read."""
        now = self.clock()
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
        """Stay open for the replies to what was asked before; True keeps the transport open.

        In TLS the end of one direction is the end of both.
        """
        self.leave()
        if self.transport is not None and self.transport.get_extra_info("sslcontext") is not None:
            self.close()
        return not self.is_closed

    def reply(self, call: DubboCall, data: bytes) -> None:
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
        self.stalled_since = self.clock()
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

    def connection_lost(self, error: Exception | None) -> None:
        """Give up the calls of this consumer."""
        self.is_closed = True
        self.transport = None
        self.take_parts()
        self._handler.consumer_lost(self, self.clock())
