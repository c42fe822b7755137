"""A provider's HTTP/2 connection, shared by the calls of all consumers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import trait

from sidecar.protocol.http2 import codes
from sidecar.protocol.http2.limits import FIRST_WINDOW
from sidecar.protocol.http2.receiver import Headers, Receiver
from sidecar.protocol.http2.session import CLOSED, PROTOCOL, Session
from sidecar.protocol.triple.message import FirstMessage
from sidecar.proxy.endpoint import ProviderLink
from sidecar.proxy.link import LARGE_READ, FlushQueue
from sidecar.proxy.triple.exchange import ProviderSide, TripleCall, keepable
from sidecar.proxy.triple.extras import outgoing
from sidecar.proxy.triple.settlement import TripleSettlement
from sidecar.proxy.triple.windows import Windows
from sidecar.proxy.triple.wire import CONNECTION, Backlog, write_out
from sidecar.resilience.liveness import ASK, DEAD, Liveness

log = logging.getLogger(__name__)

PING: Final = b"liveness"
# A provider whose transport takes nothing for this long (s) is one that stands still.
STILL: Final = 1.0


@trait
class UpstreamOwner:
    """What a provider connection reports to the holder of its address."""

    def lost(self, link: Upstream, now: float) -> None:
        """Take a connection out of use that must not get another call."""

    def leaving(self, link: Upstream, now: float) -> None:
        """Give a connection no further calls: the provider takes none on it."""

    def has_room(self, link: Upstream, now: float) -> None:
        """Send calls that wait for a stream."""

    def refused(self, call: TripleCall, now: float) -> None:
        """Find another instance for a call that the provider did not process."""


@final
class Manner:
    """How provider connections are used, besides the limits of their sessions.

    ``clogged`` is the number of unread bytes from which on a connection gets no new call while
    another one can be had: a quarter of its window. With twice as many it gets none at all, since
    nghttp2 returns window when half of it was taken: its streams may have to wait for each other.
    Of requests that are not taken the same number stands for a provider that does not read.
    ``replay`` is the number of bytes kept of a request that has been sent.
    """

    def __init__(self, default_tag: str, is_authority_own: bool, clogged: int, replay: int) -> None:
        self.default_tag: Final = default_tag
        self.replay: Final = replay
        self.is_authority_own: Final = is_authority_own
        self.clogged: Final = clogged
        self.stalled: Final = 2 * clogged


@final
class Upstream(ProviderLink, ProviderSide, Receiver):
    """The protocol object of one provider connection; ``expires`` is when it has to be replaced."""

    def __init__(
        self,
        owner: UpstreamOwner,
        address: str,
        queue: FlushQueue,
        clock: Callable[[], float],
        settlement: TripleSettlement,
        session: Session,
        liveness: Liveness,
        is_asked_idle: bool,
        manner: Manner,
        expires: float,
    ) -> None:
        super().__init__(queue, liveness.last_read)
        self._owner: Final = owner
        self._address: Final = address
        self._clock: Final = clock
        self._settlement: Final = settlement
        self._session: Final = session
        self._liveness: Final = liveness
        self._is_asked_idle: Final = is_asked_idle
        self._manner: Final = manner
        self._backlog: Final = Backlog(session)
        self._windows: Final = Windows(session)
        self._now = liveness.last_read
        self._unsent: list[TripleCall] = []  # nothing of them was given to the transport
        self._returned = 0  # bytes of windows, since updates were looked for
        self.unread = 0  # bytes of responses that consumers have not taken
        self._paused_at = 0.0
        self._is_tls = False
        self._is_greeted = False  # the provider's settings have come
        self._greeting: asyncio.Future[None] | None = None
        self._is_told = False  # the owner knows that this connection takes no new calls
        self.expires: Final = expires
        self.calls: Final[dict[int, TripleCall]] = {}

    @property
    def has_room(self) -> bool:
        """Whether a further call can be sent here."""
        return (
            not self.is_closed
            and not self.is_write_paused
            and not self._is_full
            and not self._session.is_leaving
            and len(self.calls) < self._session.max_streams
        )

    @property
    def is_leaving(self) -> bool:
        """Whether the provider takes no further streams here."""
        return self._session.is_leaving

    @property
    def is_clogged(self) -> bool:
        """Whether readers that are slow hold so much here that calls should go elsewhere."""
        return self.unread >= self._manner.clogged

    @property
    def _is_full(self) -> bool:
        stalled = self._manner.stalled
        return self.unread >= stalled or self._backlog.held >= stalled

    @property
    def is_stalled(self) -> bool:
        """Whether a call would wait here for peers that read nothing.

        A transport that is full for a moment is none of these: each large request fills it.
        """
        is_still = self.is_write_paused and self._clock() - self._paused_at >= STILL
        return is_still or self._is_full

    @property
    def is_quiet(self) -> bool:
        """Whether no stream is open."""
        return not self.calls

    @property
    def held_bytes(self) -> int:
        """The bytes of requests that the provider has not taken."""
        return self._backlog.held

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start with a connected transport."""
        self.open(transport)
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        self._session.start()
        self._register()

    async def greeted(self) -> str:
        """Wait for the provider's settings; return why there will be none, "" when they are here.

        Who never sends them speaks something else, or is a process that stands still, for which the
        kernel accepts connections: a call that was sent to it could not go elsewhere any more.
        """
        if not self._is_greeted and not self.is_closed:
            self._greeting = asyncio.get_running_loop().create_future()
            await self._greeting
        if not self.is_closed:
            return ""
        return "no HTTP/2 is spoken there" if self._session.broken == PROTOCOL else "closed at once"

    def _end_greeting(self) -> None:
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_result(None)

    def forward(self, call: TripleCall, now: float) -> bool:
        """Send a call that has its instance; False when no stream can be opened."""
        is_whole = call.is_request_ended and not call.kept and call.request_trailers is None
        manner = self._manner
        headers = outgoing(call, manner.default_tag, manner.is_authority_own, self._is_tls, now)
        stream_id = self._session.request(headers, is_whole)
        if stream_id == 0:
            if self._session.is_leaving:  # the ids are used up
                self.leave()
            return False
        self.last_call = now
        self.calls[stream_id] = call
        call.provider = self
        call.upstream_id = stream_id
        call.first = None
        call.is_apart = not call.is_grpc
        self._unsent.append(call)
        if not is_whole:
            self._send_kept(call)
        self._register()
        return True

    def _send_kept(self, call: TripleCall) -> None:
        call.repeated = call.kept_bytes - call.unread
        for part in call.kept:
            self.body(call, part, False)
        if call.request_trailers is not None:
            self.finish(call, call.request_trailers)
        elif call.is_request_ended:
            self.body(call, b"", True)

    def data_received(self, data: bytes) -> None:
        """Take the bytes of one read."""
        self._now = self._clock()
        self._liveness.last_read = self._now
        session = self._session
        session.feed(data, self._now, self)
        if session.broken:
            self._break()
            return
        if session.has_output:
            self._register()
        if len(data) >= LARGE_READ:
            self.give_way()

    # What the session hears.

    def on_headers(self, stream_id: int, headers: Headers, is_end: bool) -> None:
        """Take the head of a response; one that comes too late is none, timer or not."""
        call = self.calls.get(stream_id)
        if call is None or call.is_done:
            return
        if 0 < call.due_ms <= self._now * 1000:
            self._settlement.time_out(call, self._now)
        else:
            self._settlement.begin(call, headers, is_end, self._now)

    def on_informational(self, stream_id: int, headers: Headers) -> None:
        """Take a head of status 1xx."""
        call = self.calls.get(stream_id)
        if call is not None and not call.is_done:
            call.inform(headers)

    def on_data(self, stream_id: int, data: bytes, is_end: bool) -> None:
        """Take a piece of a response."""
        call = self.calls.get(stream_id)
        if call is None or call.is_done:
            self._session.acknowledge(stream_id, len(data))
        else:
            self.unread += len(data)
            self._settlement.body(call, data, is_end, self._now)

    def on_trailers(self, stream_id: int, headers: Headers) -> None:
        """Take the trailers of a response."""
        call = self.calls.get(stream_id)
        if call is not None and not call.is_done:
            self._settlement.finish(call, headers, self._now)

    def on_closed(self, stream_id: int, code: int) -> None:
        """Forget a stream; a call that is not answered goes elsewhere or fails."""
        call = self.calls.pop(stream_id, None)
        self._backlog.remove(stream_id)
        self.last_call = self._now
        if call is not None and call.told_window != FIRST_WINDOW:
            self._windows.give_back(call.told_window)
        if len(self.calls) >= self._session.max_streams:
            # The provider has lowered its limit: of the requests that waited, one leaves now.
            self._backlog.unblock(CONNECTION)
        if call is not None and not call.is_done:
            if code == codes.REFUSED_STREAM and call.may_replay and not call.has_begun:
                call.come_back()
                self._owner.refused(call, self._now)
            else:
                self._settlement.reset_by_provider(call, code, self._now)
        self._owner.has_room(self, self._now)

    def on_goaway(self, last_stream_id: int, code: int) -> None:
        """Send no further calls here; what the provider will still answer is awaited."""
        self.leave()

    def leave(self) -> None:
        """Take no further calls; the owner closes this connection when it is quiet."""
        if not self._is_told:
            self._is_told = True
            self._owner.leaving(self, self._now)

    def on_ping_ack(self) -> None:
        """The answer was read, which is all that counts."""

    def on_settings(self) -> None:
        """Note that limits and windows may have changed."""
        if not self._is_greeted:
            self._is_greeted = True
            self._end_greeting()
        self._backlog.unblock(CONNECTION)
        self._owner.has_room(self, self._now)

    def on_window(self, stream_id: int) -> None:
        """Note that the provider takes more."""
        self._backlog.unblock(stream_id)
        self._register()

    # What calls ask for.

    def body(self, call: TripleCall, data: bytes, is_end: bool) -> None:
        """Pass on a piece of the request."""
        if data and not call.is_apart:
            data = self._set_apart(call, data, is_end)
        self._give(call, data, is_end)

    def _set_apart(self, call: TripleCall, data: bytes, is_end: bool) -> bytes:
        """Have the first message end with a frame; return what is still to be queued.

        Java providers of 3.3 read it with a decoder of its own, and lose the part of a message that
        comes behind it in the same frame. Consumers in Java send whole messages in large frames.
        """
        first = call.first
        if first is None:
            if is_end:
                call.is_apart = True
                return data
            first = call.first = FirstMessage()
        size = 0 if first.is_over else first.measure(data)
        if size == len(data):
            return data
        call.is_apart = True
        if size:
            self._give(call, data[:size], False)
        if not self.is_write_paused:
            self._write()
        return data[size:]

    def _give(self, call: TripleCall, data: bytes, is_end: bool) -> None:
        size = len(data)
        if self._session.data(call.upstream_id, data, is_end):
            if size:
                self._backlog.add(call.upstream_id, call, size)
        elif size:
            call.taken(size)
        self._register()

    def finish(self, call: TripleCall, trailers: Headers) -> None:
        """Pass on trailers of the request, which end it."""
        self._session.trailers(call.upstream_id, trailers)
        self._register()

    def cut(self, call: TripleCall, code: int) -> None:
        """Want no answer any more."""
        self._session.reset(call.upstream_id, code)
        self._register()

    def took(self, call: TripleCall, amount: int) -> None:
        """Return window for bytes of the response that the consumer took."""
        before = self.unread
        self.unread = before - amount
        session = self._session
        session.acknowledge(call.upstream_id, amount)
        if before >= self._manner.stalled > self.unread:
            self._owner.has_room(self, self._clock())
        call.told_bytes += amount
        if call.told_bytes >= call.told_window:
            self._widen(call)
        self._returned += amount
        if self._returned >= session.window_step and not self.is_registered:
            self._returned = 0
            if session.has_output:
                self._register()

    def _widen(self, call: TripleCall) -> None:
        call.told_bytes = 0
        window = call.told_window
        if 2 * call.consumer.queued(call) <= window:
            call.told_window = self._windows.widen(call.upstream_id, window, len(self.calls))
            if call.told_window != window:
                self._register()

    # Writing and ending.

    def flush(self) -> None:
        """Write what the session has, and return windows for what the transport took."""
        self.is_registered = False
        if self.is_closed:
            return
        self._now = self._clock()
        if self.is_giving_way:
            self.is_giving_way = False
            self.resume_reading()
        if not self.is_write_paused:
            self._write()
        session = self._session
        session.deliver(self._now, self)
        if session.broken:
            self._break()

    def _write(self) -> None:
        most = keepable(self._manner.replay, len(self.calls))
        for call in self._unsent:
            call.depart(most)
        self._unsent = []
        before = self._backlog.held
        is_all = write_out(self, self._session, before)
        for held in self._backlog.settle(is_all):
            held.call.taken(held.taken)
        if before >= self._manner.stalled > self._backlog.held:
            self._owner.has_room(self, self._now)

    def pause_writing(self) -> None:
        """Keep further bytes in the session; the transport calls it when its buffer is full."""
        self.is_write_paused = True
        self._paused_at = self._clock()

    def resume_writing(self) -> None:
        """Write again; the transport calls it when its buffer is empty enough."""
        self.is_write_paused = False
        self._register()
        self._owner.has_room(self, self._clock())

    def take_calls(self, is_sent: bool) -> list[TripleCall]:
        """Hand out and forget the calls that are not over, those that were sent or the others.

        A call without any bytes at a provider is one that nobody has seen.
        """
        calls = [each for each in self.calls.values() if each.is_sent == is_sent]
        for call in calls:
            del self.calls[call.upstream_id]
            self._backlog.remove(call.upstream_id)
        waiting = [call for call in calls if not call.is_done]
        for call in waiting:
            call.come_back()
        return waiting

    def check(self, now: float) -> None:
        """Ask a silent provider for a sign of life, or give it up; called now and then."""
        if not self.calls and not self._is_asked_idle:
            self._liveness.last_read = now  # nobody waits, so its silence says nothing
            return
        verdict = self._liveness.check(now)
        if verdict == DEAD:
            self._session.fail("dead")
            self._break()
        elif verdict == ASK:
            self._session.ping(PING)
            self._register()

    def _break(self) -> None:
        """Give up a connection that cannot go on, with a last word to the provider."""
        if self.is_closing:
            return
        word = self._session.broken
        if word == CLOSED:
            self.closed_because = "left"
        else:
            self.closed_because = word
            log.warning("the connection to %s is given up: %s", self._address, word)
        farewell = self._session.farewell()
        if farewell and self.transport is not None:
            self.transport.write(farewell)
        self._owner.lost(self, self._clock())
        self.close()
        self._end_greeting()

    def close(self) -> None:
        """Say goodbye and end the connection."""
        if not self.is_closing and not self._session.broken:
            self._session.goaway(codes.NO_ERROR)
        super().close()

    def eof_received(self) -> bool:
        """Leave a half-closed connection at once: no reply can come any more."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the owner, who may know already."""
        self.is_closed = True
        self.transport = None
        self._settlement.upstream_closed(self.closed_because)
        self._end_greeting()
        self._owner.lost(self, self._clock())
        self._session.fail(CLOSED)
