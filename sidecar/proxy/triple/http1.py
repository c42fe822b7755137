"""A consumer's HTTP/1.1 connection: one call after the other, each a stream at a provider.

Its body is queued as it is and framed when the transport takes it, so that what is kept for a slow
consumer are the bytes that the provider's window counts. HTTP/1.1 has no way to say that an answer
went wrong after it has begun, except to break the connection off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from sidecar.protocol.http1.head import REQUEST_TIMEOUT
from sidecar.protocol.http1.session import SLOW_HEADER, Event, Head, Piece, ServerSession
from sidecar.protocol.http2.receiver import Headers
from sidecar.proxy.link import LARGE_READ, FlushQueue
from sidecar.proxy.triple.downstream import LINGER, STALL, Patience, RequestHandler
from sidecar.proxy.triple.exchange import ConsumerSide, TripleCall, keepable
from sidecar.proxy.triple.paths import Paths
from sidecar.proxy.triple.wire import CHUNK

# What may still come of a request (bytes) that was answered before its end. It is read, since a
# connection closed meanwhile might take the answer with it; and no more, since nobody wants it.
MAX_UNWANTED: Final = 1024 * 1024

UNWANTED: Final = "unwanted_body"
CUT: Final = "answer_cut"
IDLE: Final = "idle"


@final
class Http1Downstream(ConsumerSide):
    """The protocol object of one consumer connection; ``window`` is in bytes of a request."""

    def __init__(
        self,
        handler: RequestHandler,
        queue: FlushQueue,
        clock: Callable[[], float],
        session: ServerSession,
        patience: Patience,
        paths: Paths,
        window: int,
    ) -> None:
        super().__init__(queue, clock, paths)
        self._handler: Final = handler
        self._session: Final = session
        self._patience: Final = patience
        self._window: Final = window
        self._now = clock()
        self._active_at = self._now
        self._head_since = 0.0  # 0 while no head is incomplete
        self._answered_at = 0.0  # 0 while no answer waits for the end of its request
        self._left_at = 0.0  # 0 unless the consumer has to close the connection
        self._unwanted = 0
        self._untaken = 0  # bytes of the request that no provider has taken
        self._is_held = False  # not read from, because enough has come
        self._number = 0
        self._body = bytearray()  # of the answer, not yet taken by the transport
        self._trailers: Headers = ()
        self._is_ending = False  # the answer ends after what is queued
        self.call: TripleCall | None = None

    @property
    def inflight(self) -> int:
        """The number of calls that are not over."""
        return 0 if self.call is None else 1

    @property
    def held_bytes(self) -> int:
        """The bytes of the answer that the consumer has not taken."""
        return len(self._body)

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start with a connected transport."""
        self.open(transport)

    def data_received(self, data: bytes) -> None:
        """Take the bytes of one read."""
        if self.is_closed:
            return
        self._now = self.clock()
        self._take(data)
        if len(data) >= LARGE_READ:
            self.give_way()

    def _take(self, data: bytes) -> None:
        session = self._session
        for event in session.feed(data):
            self._react(event)
        if session.broken:
            self._break()
            return
        if not session.is_in_head:
            self._head_since = 0.0
        elif self._head_since == 0.0:
            self._head_since = self._now
        if session.has_more or session.is_answer_over:
            self._register()
        self._hold()

    def _react(self, event: Event) -> None:
        if isinstance(event, Head):
            self._request(event)
            return
        call = self.call
        if call is None:
            return
        if isinstance(event, Piece):
            size = len(event.data)
            self._untaken += size
            if call.is_done:
                self._unwanted += size
            call.receive(event.data, event.is_end, keepable(self._patience.replay, 1))
        else:
            call.receive_trailers(event.headers)

    def _request(self, head: Head) -> None:
        self._number += 1
        self._unwanted = 0
        self.last_request = self._now
        self._handler.request(self, self._number, head.headers, head.is_end, self._now)
        call = self.call
        if call is not None and not call.is_done and self._session.waits_for_go_on:
            self.send(self._session.go_on())

    def _hold(self) -> None:
        """Read no further while the provider takes nothing, or more has come than is looked at."""
        session, was_held = self._session, self._is_held
        limit = self._window // 2 if was_held else self._window
        self._is_held = self._untaken >= limit or session.has_more or session.is_ahead
        if self._is_held and not was_held and self.transport is not None:
            self.transport.pause_reading()
        elif was_held and not self._is_held:
            self.resume_reading()

    def resume_reading(self) -> None:
        """Read again, unless there is a reason not to."""
        if not self._is_held and not self.is_giving_way:
            super().resume_reading()

    # What calls ask for.

    def admit(self, call: TripleCall) -> None:
        """Remember a call until it is over."""
        self.call = call

    def drop_calls(self) -> None:
        """Give up the call: this connection is about to be ended."""
        call = self.call
        unwritten = len(self._body)
        self.call = None
        self._body = bytearray()
        self._is_ending = False
        if call is None:
            return
        if not call.is_done:
            self._handler.cancelled(call, self._now)
        if unwritten and call.provider is not None:
            call.provider.took(call, unwritten)

    def inform(self, call: TripleCall, headers: Headers) -> None:
        """Pass on an informational head."""
        self._send(self._session.inform(headers))

    def begin(self, call: TripleCall, headers: Headers, is_end: bool) -> None:
        """Pass on the head of the response."""
        self._send(self._session.respond(headers, is_end, self.is_leaving))
        if is_end:
            self._is_ending = True

    def _send(self, data: bytes) -> None:
        if self._session.broken:
            self._register()  # which ends the connection
        elif data:
            self.send(data)

    def body(self, call: TripleCall, data: bytes, is_end: bool) -> None:
        """Pass on a piece of the response."""
        if self._session.has_body and not self.is_closed:
            self._body += data
        elif data and call.provider is not None:
            call.provider.took(call, len(data))
        if is_end:
            self._is_ending = True
        self._register()

    def finish(self, call: TripleCall, trailers: Headers) -> None:
        """Pass on the trailers, which end the response."""
        self._trailers = trailers
        self._is_ending = True
        self._register()

    def cut(self, call: TripleCall, code: int) -> None:
        """End the response before its time, and the connection with it."""
        self.closed_because = self.closed_because or CUT
        self.abort()

    def took(self, call: TripleCall, amount: int) -> None:
        """Note that the provider's side took so many bytes of the request."""
        self._untaken -= amount
        if self._is_held:
            self._register()

    def queued(self, call: TripleCall) -> int:
        """Return the bytes of the response that the transport has not taken."""
        return len(self._body)

    # Writing and ending.

    def flush(self) -> None:
        """Write what there is, and return window for what the transport took."""
        self.is_registered = False
        if self.is_closed:
            return
        self._now = self.clock()
        self._write()
        if self.is_closing:
            return
        if self._session.broken:
            self._break()
        elif self._session.has_more or self._finish_call():
            self._take(b"")
        else:
            self._hold()
        if self.is_giving_way:
            self.is_giving_way = False
            self.resume_reading()

    def _write(self) -> None:
        session, transport = self._session, self.transport
        is_more = transport is not None
        while is_more and transport is not None and not self.is_write_paused:
            parts = self.take_parts()
            piece = bytes(self._body[:CHUNK])
            if piece:
                del self._body[:CHUNK]
                parts.append(session.data(piece))
                self._written(len(piece))
            is_more = bool(self._body)
            if self._is_ending and not is_more:
                self._is_ending = False
                parts.append(session.end(self._trailers))
            data = b"".join(parts)
            if data:
                transport.write(data)

    def _written(self, amount: int) -> None:
        call = self.call
        if call is not None and call.provider is not None:
            call.provider.took(call, amount)

    def _finish_call(self) -> bool:
        """Whether the next request may be read: both halves of this one are over."""
        session = self._session
        if self.call is None or not session.is_answer_over:
            return False
        if not session.is_request_over:
            self._answered_at = self._answered_at or self._now
            if self._unwanted > MAX_UNWANTED:
                self._turn_away()
            return False
        self.call = None
        self._trailers = ()
        self._answered_at = 0.0
        self._active_at = self._now
        if not self.is_leaving and session.next_request():
            return True
        self.close()
        return False

    def pause_writing(self) -> None:
        """Keep further bytes here; the consumer is read all the same, to notice its end."""
        self.is_write_paused = True
        self.stalled_since = self.clock()

    def resume_writing(self) -> None:
        """Write again; the transport calls it when its buffer is empty enough."""
        self.is_write_paused = False
        self.stalled_since = 0.0
        self._register()

    def leave(self) -> None:
        """Close the connection after the answer to the request under way."""
        if self.is_leaving or self.is_closed:
            return
        self.is_leaving = True
        if self.call is None and not self._session.is_in_head:
            self.close()

    def check(self, now: float, stall: float) -> None:
        """Do what time asks for; called now and then."""
        self._now = now
        super().check(now, STALL)
        if self.is_closed:
            if self._left_at != 0.0 and now - self._left_at >= LINGER:
                self.abort()
            return
        slow = self._patience.slow_header
        if self._head_since != 0.0 and now - self._head_since >= slow:
            self._session.fail(SLOW_HEADER, REQUEST_TIMEOUT, "the head of the request is late")
            self._break()
        elif self._answered_at != 0.0 and now - self._answered_at >= slow:
            self._turn_away()
        elif self.call is None and now - self._active_at >= self._patience.idle:
            self.closed_because = IDLE
            self.close()

    def _break(self) -> None:
        """End a connection that cannot go on, with an answer when none has begun."""
        self.closed_because = self.closed_because or self._session.broken
        self.drop_calls()
        farewell = self._session.farewell()
        if farewell:
            self._linger(farewell)
        else:
            self.abort()

    def _turn_away(self) -> None:
        """Read no more of a request that was answered."""
        self.closed_because = self.closed_because or UNWANTED
        self.drop_calls()
        self._linger(b"")

    def _linger(self, farewell: bytes) -> None:
        """Write the last bytes, and have the consumer close the connection.

        To close it with bytes unread would be a reset, which can overtake what was written.
        """
        self.is_closed = True
        self._left_at = self._now
        transport = self.transport
        if transport is None:
            return
        data = b"".join([*self.take_parts(), farewell])
        if data:
            transport.write(data)
        if transport.can_write_eof():
            transport.write_eof()
        transport.resume_reading()

    def eof_received(self) -> bool:
        """End with the consumer: that it closed its half only cannot be told from its end."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Give up the call of this consumer."""
        self.is_closed = True
        self.transport = None
        self._now = self.clock()
        self.take_parts()
        self.drop_calls()
        self._handler.consumer_lost(self, self._now)
