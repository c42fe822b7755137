"""A consumer's HTTP/2 connection: each of its streams is a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from sidecar.protocol.http2 import codes
from sidecar.protocol.http2.receiver import Headers, Receiver
from sidecar.protocol.http2.session import CLOSED, Session
from sidecar.proxy.link import LARGE_READ, FlushQueue
from sidecar.proxy.triple.exchange import ConsumerSide, TripleCall, keepable
from sidecar.proxy.triple.paths import Paths
from sidecar.proxy.triple.wire import CONNECTION, Backlog, write_out

# A consumer that reads nothing at all for this long (s) is given up. Windows bound what is kept for
# it, so there is no hurry: one that stands still under a debugger goes on afterwards.
STALL: Final = 300.0
PING: Final = b"draining"  # its answer says that the consumer has seen the first GOAWAY
# How long (s) that answer is awaited before the second GOAWAY.
NOTICE: Final = 1.0
# How long (s) a connection that was given up is still read. To close it with bytes unread would be
# a reset, which can overtake the GOAWAY that says why.
LINGER: Final = 1.0


class RequestHandler:
    """What a consumer's connection reports."""

    def request(
        self, consumer: ConsumerSide, stream_id: int, headers: Headers, is_end: bool, now: float
    ) -> None:
        """Take the head of a request; ``consumer.admit`` is called with the call it becomes."""
        raise NotImplementedError

    def cancelled(self, call: TripleCall, now: float) -> None:
        """Give up a call whose consumer does not want it any more."""
        raise NotImplementedError

    def refused(self, count: int) -> None:
        """Hear of streams that never became calls."""
        raise NotImplementedError

    def consumer_lost(self, consumer: ConsumerSide, now: float) -> None:
        """Forget a consumer that went away; its calls were cancelled."""
        raise NotImplementedError


@final
class Patience:
    """How long a consumer may take, in seconds, and what is kept of its requests in bytes."""

    def __init__(self, slow_header: float, idle: float, replay: int) -> None:
        self.slow_header: Final = slow_header
        self.idle: Final = idle
        self.replay: Final = replay


@final
class Downstream(ConsumerSide, Receiver):
    """The protocol object of one consumer connection."""

    def __init__(
        self,
        handler: RequestHandler,
        queue: FlushQueue,
        clock: Callable[[], float],
        session: Session,
        patience: Patience,
        paths: Paths,
    ) -> None:
        super().__init__(queue, clock, paths)
        self._handler: Final = handler
        self._session: Final = session
        self._patience: Final = patience
        self._backlog: Final = Backlog(session)
        self._now = clock()
        self._is_greeted = False  # the consumer's settings have come
        self._is_ping_due = False
        self._is_final = False  # the second GOAWAY is on its way
        self._is_lingering = False
        self._left_at = 0.0
        self._active_at = self._now
        self._returned = 0  # bytes of windows, since updates were looked for
        self._early: list[TripleCall] = []  # answered before their request has ended
        self.calls: Final[dict[int, TripleCall]] = {}

    @property
    def inflight(self) -> int:
        """The number of streams that are open."""
        return len(self.calls)

    @property
    def is_unfinished(self) -> bool:
        """Whether the consumer is being told that this connection takes no new calls."""
        return self.is_leaving and not self._is_final and not self.is_closed

    @property
    def held_bytes(self) -> int:
        """The bytes of responses that the consumer has not taken."""
        return self._backlog.held

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start with a connected transport."""
        self.open(transport)
        self._session.start()
        self._register()

    def data_received(self, data: bytes) -> None:
        """Take the bytes of one read."""
        if self.is_closed:
            return
        self._now = self.clock()
        session = self._session
        session.feed(data, self._now, self)
        refused = session.take_refused()
        if refused:
            self._handler.refused(refused)
        if session.broken:
            self._break()
            return
        if session.has_output:
            self._register()
        if len(data) >= LARGE_READ:
            self.give_way()

    # What the session hears.

    def on_headers(self, stream_id: int, headers: Headers, is_end: bool) -> None:
        """Take a request."""
        self.last_request = self._now
        self._handler.request(self, stream_id, headers, is_end, self._now)

    def on_informational(self, stream_id: int, headers: Headers) -> None:
        """Consumers send none."""

    def on_data(self, stream_id: int, data: bytes, is_end: bool) -> None:
        """Take a piece of a request."""
        call = self.calls.get(stream_id)
        if call is None:
            self._session.acknowledge(stream_id, len(data))
        else:
            call.receive(data, is_end, keepable(self._patience.replay, len(self.calls)))

    def on_trailers(self, stream_id: int, headers: Headers) -> None:
        """Take the trailers of a request."""
        call = self.calls.get(stream_id)
        if call is not None:
            call.receive_trailers(headers)

    def on_closed(self, stream_id: int, code: int) -> None:
        """Forget a stream, and give up its call if that is not answered."""
        call = self.calls.pop(stream_id, None)
        unwritten = self._backlog.remove(stream_id)
        self._active_at = self._now
        if call is None:
            return
        if not call.is_done:
            self._handler.cancelled(call, self._now)
        if unwritten and call.provider is not None:
            call.provider.took(call, unwritten)

    def on_goaway(self, last_stream_id: int, code: int) -> None:
        """Open streams go on; the consumer closes when it has all answers."""

    def on_ping_ack(self) -> None:
        """Hear that the consumer has seen the first GOAWAY: streams on their way have come."""
        self._finish_leaving()

    def on_settings(self) -> None:
        """Note that the handshake is done; windows may have grown."""
        self._is_greeted = True
        self._backlog.unblock(CONNECTION)

    def on_window(self, stream_id: int) -> None:
        """Note that the consumer takes more."""
        self._backlog.unblock(stream_id)
        self._register()

    # What calls ask for.

    def admit(self, call: TripleCall) -> None:
        """Remember a call until its stream is over."""
        self.calls[call.stream_id] = call

    def drop_calls(self) -> None:
        """Give up all calls: this connection is about to be ended."""
        self._now = self.clock()
        self._session.close_all(self)

    def inform(self, call: TripleCall, headers: Headers) -> None:
        """Pass on an informational head."""
        self._session.inform(call.stream_id, headers)
        self._register()

    def begin(self, call: TripleCall, headers: Headers, is_end: bool) -> None:
        """Pass on the head of the response."""
        self._session.respond(call.stream_id, headers, is_end)
        if is_end:
            self._ended(call)
        self._register()

    def body(self, call: TripleCall, data: bytes, is_end: bool) -> None:
        """Pass on a piece of the response."""
        size = len(data)
        if self._session.data(call.stream_id, data, is_end):
            if size:
                self._backlog.add(call.stream_id, call, size)
        elif size and call.provider is not None:
            call.provider.took(call, size)
        if is_end:
            self._ended(call)
        self._register()

    def finish(self, call: TripleCall, trailers: Headers) -> None:
        """Pass on the trailers, which end the response."""
        self._session.trailers(call.stream_id, trailers)
        self._ended(call)
        self._register()

    def cut(self, call: TripleCall, code: int) -> None:
        """End the response before its time; what is queued of it is dropped."""
        self._session.reset(call.stream_id, code)
        self._register()

    def took(self, call: TripleCall, amount: int) -> None:
        """Return window for bytes of the request that were taken."""
        session = self._session
        session.acknowledge(call.stream_id, amount)
        call.asked_bytes += amount
        if call.asked_bytes >= call.asked_window:
            self._widen(call)
        self._returned += amount
        if self._returned >= session.window_step and not self.is_registered:
            self._returned = 0
            if session.has_output:
                self._register()

    def _widen(self, call: TripleCall) -> None:
        call.asked_bytes = 0
        widest = self._session.widest_window
        if call.asked_window < widest and call.unread == 0:
            call.asked_window = min(2 * call.asked_window, widest)
            self._session.widen(call.stream_id, call.asked_window)
            self._register()

    def queued(self, call: TripleCall) -> int:
        """Return the bytes of the response that the transport has not taken."""
        return self._session.queued(call.stream_id)

    def _ended(self, call: TripleCall) -> None:
        if not call.is_request_ended:
            self._early.append(call)

    # Writing and ending.

    def flush(self) -> None:
        """Write what the session has, and return windows for what the transport took."""
        self.is_registered = False
        if self.is_closed:
            return
        self._now = self.clock()
        if self.is_giving_way:
            self.is_giving_way = False
            self.resume_reading()
        is_all = not self.is_write_paused and self._write()
        session = self._session
        session.deliver(self._now, self)
        if session.broken:
            self._break()
        elif is_all:
            self._follow_up()

    def _write(self) -> bool:
        """Write; tell whether nothing is left that could be written."""
        is_all = write_out(self, self._session, self._backlog.held)
        for held in self._backlog.settle(is_all):
            call = held.call
            if call.provider is not None:
                call.provider.took(call, held.taken)
            if call.is_done and not call.is_request_ended:
                self._early.append(call)
        return is_all

    def _follow_up(self) -> None:
        """Say what must not leave before all else has."""
        if self._early:
            self._end_early()
        if self._is_ping_due:
            # Not in one write with the GOAWAY: nghttp2 hurries with PINGs, it would overtake it.
            self._is_ping_due = False
            self._session.ping(PING)
            self._register()

    def _end_early(self) -> None:
        """Tell consumers to send no more of requests that were answered already.

        Only when the whole answer was written: a reset overtakes what is queued. While some of it
        waits for its reader, the next bytes that move bring the call back here.
        """
        calls = self._early
        self._early = []
        session = self._session
        for call in calls:
            if call.is_request_ended or session.queued(call.stream_id):
                continue
            if session.reset(call.stream_id, codes.NO_ERROR):
                self._register()

    def resume_writing(self) -> None:
        """Write again; the transport calls it when its buffer is empty enough."""
        self.is_write_paused = False
        self.stalled_since = 0.0
        self._register()

    def pause_writing(self) -> None:
        """Keep further bytes in the session; the consumer is read all the same, for its windows."""
        self.is_write_paused = True
        self.stalled_since = self.clock()

    def leave(self) -> None:
        """Ask for no new streams, and close the connection when the last one is over."""
        if self.is_leaving or self.is_closed:
            return
        self.is_leaving = True
        self._left_at = self.clock()
        self._session.shutdown_notice()
        self._is_ping_due = True
        self._register()

    def _finish_leaving(self) -> None:
        if not self.is_unfinished:
            return
        self._is_final = True
        # When its last stream is over the session is ``closed``, which ends the connection.
        self._session.goaway(codes.NO_ERROR)
        self._register()

    def check(self, now: float, stall: float) -> None:
        """Do what time asks for; called now and then."""
        self._now = now
        super().check(now, STALL)
        if self.is_closed:
            if self._is_lingering and now - self._left_at >= LINGER:
                self.abort()
            return
        patience = self._patience
        since = self._session.header_since
        if not self._is_greeted and now - self._active_at >= patience.slow_header:
            self._fail("slow_handshake")
        elif since != 0.0 and now - since >= patience.slow_header:
            self._fail("slow_header")
        elif self.is_unfinished and now - self._left_at >= NOTICE:
            self._finish_leaving()
        elif not self.calls and now - self._active_at >= patience.idle:
            self.closed_because = "idle"
            self.leave()

    def _fail(self, word: str) -> None:
        self._session.fail(word)
        self._break()

    def _break(self) -> None:
        """End a connection that cannot go on, with a last word to the consumer."""
        if self.is_closing:
            return
        session = self._session
        session.close_all(self)
        if session.broken == CLOSED:
            self.close()
        else:
            self.closed_because = self.closed_because or session.broken
            self._linger(session.farewell())

    def _linger(self, farewell: bytes) -> None:
        """Write the last bytes, and have the consumer close the connection."""
        self.is_closed = True
        self._is_lingering = True
        self._left_at = self.clock()
        transport = self.transport
        if transport is None:
            return
        if farewell:
            transport.write(farewell)
        if transport.can_write_eof():
            transport.write_eof()
        if self.is_giving_way:
            transport.resume_reading()

    def eof_received(self) -> bool:
        """End with the consumer: one that has closed its half reads no answers in HTTP/2."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Give up the calls of this consumer."""
        self.is_closed = True
        self.transport = None
        self.drop_calls()
        self._handler.consumer_lost(self, self._now)
