"""One HTTP/2 connection over ngh2 (libnghttp2); the only module that knows it.

Window updates are made by hand: what the peer sent is acknowledged when somebody took it, so that
a slow reader at one end stops the writer at the other.

nghttp2 is given whole frames only. ngh2 forgets the beginning of a DATA frame whose stream ends
meanwhile, and the connection's window with it: after some hundred cancelled transfers the peer
could send nothing any more. No time is lost, since ngh2 collects whole frames, too.

A stream ends when its last frame was written, so ``take`` may end streams, too: call ``deliver``
after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import ngh2

from sidecar.protocol.http2 import codes, frames
from sidecar.protocol.http2.limits import SessionLimits
from sidecar.protocol.http2.meter import FrameMeter
from sidecar.protocol.http2.receiver import Headers as Headers
from sidecar.protocol.http2.receiver import Receiver

# Words of ``broken`` besides those of the meter.
CLOSED: Final = "closed"  # a regular end: GOAWAY, and the last stream on the wire is over
PROTOCOL: Final = "protocol"
STREAMS: Final = "streams"  # more than were allowed, after the peer has acknowledged the limit
LIMIT: Final = "limit"  # a limit of nghttp2 that lies above ours

# How many streams a peer allows before its SETTINGS say so (nghttp2's own assumption).
UNTOLD_STREAMS: Final = 100

# nghttp2's limits end the connection without a word, so ours must be met first.
_SLACK: Final = 4
_UNLIMITED: Final = (1 << 32, 1 << 32)

_MAX_WINDOW: Final = (1 << 31) - 1
_ANY_STREAMS: Final = (1 << 32) - 1

_Data: Final = ngh2.DataReceived
_Request: Final = ngh2.RequestReceived
_Response: Final = ngh2.ResponseReceived
_Trailers: Final = ngh2.TrailersReceived
_Closed: Final = ngh2.StreamClosed
_Reset: Final = ngh2.StreamReset
_WindowUpdated: Final = ngh2.WindowUpdated
_Informational: Final = ngh2.InformationalResponseReceived
_Settings: Final = ngh2.SettingsReceived
_PingAck: Final = ngh2.PingAcknowledged
_GoAway: Final = ngh2.GoAwayReceived
_ConnectionClosed: Final = ngh2.ConnectionClosed

_SET_ENABLE_PUSH: Final = 2
_SET_MAX_STREAMS: Final = 3
_SET_STREAM_WINDOW: Final = 4
_SET_HEADER_SIZE: Final = 6


@final
class Session:
    """One connection, towards a consumer (as the server) or a provider (as the client).

    Nothing here raises: calls on a stream that is over return False, and a connection that cannot
    go on is ``broken``. The caller then writes ``farewell()``, closes, and calls ``close_all``.
    """

    def __init__(self, is_server: bool, limits: SessionLimits) -> None:
        self._is_server: Final = is_server
        self._limits: Final = limits
        self._meter: Final = FrameMeter(limits, is_server)
        role = ngh2.Role.SERVER if is_server else ngh2.Role.CLIENT
        connection = ngh2.Connection(role, _configuration(limits))
        self._connection: Final = connection
        # Bound once: what each call needs is not looked up by its name each time.
        self._receive_data: Final[Callable[[bytes | memoryview], None]] = connection.receive_data
        self._events: Final[Callable[[], list[ngh2.Event]]] = connection.events
        self._data_to_send: Final[Callable[..., bytes]] = connection.data_to_send
        self._send_response: Final[Callable[..., None]] = connection.send_response
        self._send_data: Final[Callable[..., None]] = connection.send_data
        self._send_trailers: Final[Callable[[int, Headers], None]] = connection.send_trailers
        self._queued_body_size: Final[Callable[..., int]] = connection.queued_body_size
        self._acknowledge: Final[Callable[[int, int], None]] = connection.acknowledge_received_data
        self._held = b""
        self._open: Final[set[int]] = set()
        self._reset_here: Final[set[int]] = set()
        self._reset_by_peer = 0
        self._last_heard = 0
        self._heard = 0  # streams that came to be in this feed
        self._takes_streams = is_server
        self._last_code = codes.NO_ERROR
        self._is_cut = False
        self._has_parted = False
        # While less than this was acknowledged the peer has window left: an update can wait.
        self.widest_window: Final[int] = limits.stream_window
        self.window_step: Final[int] = limits.first_window // 4
        self.broken = ""
        self.is_leaving = False
        self._is_settled = False
        self.max_streams = UNTOLD_STREAMS

    # In

    def start(self) -> None:
        """Announce settings and the connection's window; once, before anything else."""
        limits = self._limits
        settings = {
            _SET_STREAM_WINDOW: limits.first_window,
            _SET_HEADER_SIZE: limits.header_size,
        }
        if self._is_server:
            settings[_SET_MAX_STREAMS] = limits.max_streams
        else:
            settings[_SET_ENABLE_PUSH] = 0
        self._connection.initiate_connection(settings)
        self._connection.set_local_window_size(min(limits.connection_window, _MAX_WINDOW))

    def feed(self, data: bytes, now: float, receiver: Receiver) -> None:
        """Read what the peer sent and tell the receiver; ``broken`` afterwards when it was too bad.

        ``now`` is in seconds, monotonic. What came before the failure is told first.
        """
        if self.broken:
            return
        word = self._meter.feed(data, now)
        failure = self._receive(data, self._meter.first, self._meter.whole)
        self.deliver(now, receiver)
        if self._takes_streams:
            word = word or self._meter.note_heard(self._heard, now)
            self._heard = 0
        self.fail(failure or word)

    def take_refused(self) -> int:
        """Return how many streams never came to be since the last time: refused, or malformed."""
        count = self._meter.refused
        self._meter.refused = 0
        return count

    def deliver(self, now: float, receiver: Receiver) -> None:
        """Tell the receiver which streams ended by what was written: call it after ``take``."""
        for event in self._events():
            if self.broken:
                return
            self._dispatch(event, now, receiver)

    def fail(self, word: str) -> None:
        """Break the connection; the first word stays, and "" is none."""
        self.broken = self.broken or word

    def close_all(self, receiver: Receiver, code: int = codes.CONNECTION_LOST) -> None:
        """End every stream that is still open, after the connection was lost or broken."""
        self.fail(CLOSED)
        while self._open:
            receiver.on_closed(self._open.pop(), code)

    @property
    def header_since(self) -> float:
        """The time since when a header list of the peer is incomplete; 0.0 when none is."""
        return self._meter.header_since

    # Out

    @property
    def has_output(self) -> bool:
        """Whether ``take`` has bytes to give; data that waits for a window does not count."""
        try:
            return not self.broken and self._connection.want_write
        except ngh2.NGH2Error:  # it failed, and what came before is being told
            return False

    def take(self, amount: int) -> bytes:
        """Hand out at most so many bytes to be written; then call ``deliver``."""
        if self.broken:
            return b""
        try:
            output = self._data_to_send(amount)
        except ngh2.NGH2Error as error:
            self.fail(_word_of(error))
            return b""
        self._is_cut = len(output) == amount
        return output

    def take_all(self) -> bytes:
        """Hand out all that can be written, with one copy less than ``take``; then ``deliver``.

        That is ``queued_of_all`` at most, and the heads of frames.
        """
        if self.broken:
            return b""
        try:
            output = self._data_to_send()
        except ngh2.NGH2Error as error:
            self.fail(_word_of(error))
            return b""
        self._is_cut = False
        return output

    def farewell(self) -> bytes:
        """Return what is to be written before closing a broken connection: a GOAWAY frame.

        Empty when the end was regular, or when GOAWAY was written already.
        """
        if self._has_parted or self.broken in ("", CLOSED):
            return b""
        self._has_parted = True
        is_error = self.broken in (PROTOCOL, STREAMS)
        code = codes.PROTOCOL_ERROR if is_error else codes.ENHANCE_YOUR_CALM
        try:
            self._connection.terminate_connection(code)
            return self._connection.data_to_send()
        except ngh2.NGH2Error:
            # nghttp2 gave up; what it held of a frame that was written in part is lost.
            return b"" if self._is_cut else frames.goaway(self._last_heard, code)

    def request(self, headers: Headers, is_end: bool) -> int:
        """Open a stream and return its id; 0 when the peer allows no further one."""
        if len(self._open) >= self.max_streams:
            return 0
        try:
            stream_id = self._connection.send_request(headers, end_stream=is_end)
        except ngh2.NGH2Error:
            # GOAWAY, or no stream ids are left; either way this connection opens no more.
            self.is_leaving = True
            return 0
        self._open.add(stream_id)
        self._meter.note_request()
        return stream_id

    def respond(self, stream_id: int, headers: Headers, is_end: bool) -> bool:
        """Send the final head of a response; False when the stream is over."""
        if self.broken:
            return False
        try:
            self._send_response(stream_id, headers, end_stream=is_end)
        except (ngh2.NGH2Error, ValueError):
            return False
        self._meter.note_answer()
        return True

    def inform(self, stream_id: int, headers: Headers) -> bool:
        """Send a response of status 1xx; False when the stream is over or has its final head."""
        if stream_id not in self._open:
            return False
        try:
            self._connection.send_informational_response(stream_id, headers)
        except ngh2.NGH2Error:
            return False
        return True

    def data(self, stream_id: int, data: bytes, is_end: bool) -> bool:
        """Queue a piece of a body; False when the stream is over, headless or ended by us."""
        if self.broken:
            return False
        try:
            if is_end:
                self._send_data(stream_id, data, end_stream=True)
            else:
                self._send_data(stream_id, data)
        except (ngh2.NGH2Error, ValueError):
            return False
        self._meter.note_sent(len(data))
        return True

    def trailers(self, stream_id: int, headers: Headers) -> bool:
        """End our half of a stream with trailers, after what is queued."""
        if self.broken:
            return False
        try:
            self._send_trailers(stream_id, headers)
        except (ngh2.NGH2Error, ValueError):
            return False
        return True

    def end(self, stream_id: int) -> bool:
        """End our half of a stream, after what is queued."""
        return self.data(stream_id, b"", True)

    def reset(self, stream_id: int, code: int) -> bool:
        """Reset a stream; what is queued of it, trailers too, and not yet taken is never sent.

        CONNECTION_LOST, heard from another connection, is sent as INTERNAL_ERROR.
        """
        if stream_id not in self._open:
            return False
        try:
            self._connection.reset_stream(stream_id, code if code >= 0 else codes.INTERNAL_ERROR)
        except ngh2.NGH2Error:
            return False
        self._reset_here.add(stream_id)
        return True

    def acknowledge(self, stream_id: int, amount: int) -> bool:
        """Return window to the peer for data that was heard; of streams that are over, too."""
        try:
            self._acknowledge(amount, stream_id)
        except (ngh2.NGH2Error, ValueError):
            return False
        return True

    def widen(self, stream_id: int, window: int) -> bool:
        """Have the peer send more of a stream at once; ``window`` is more than it was."""
        try:
            self._connection.set_local_window_size(min(window, _MAX_WINDOW), stream_id=stream_id)
        except ngh2.NGH2Error:
            return False
        return True

    def queued(self, stream_id: int) -> int:
        """Return the bytes of a body that ``take`` has not handed out; 0 when it is over."""
        return self._queued_body_size(stream_id) if stream_id in self._open else 0

    @property
    def queued_of_all(self) -> int:
        """The bytes of all bodies that ``take`` has not handed out."""
        return self._queued_body_size()

    def ping(self, payload: bytes) -> bool:
        """Send a PING with eight bytes."""
        try:
            self._connection.ping(payload)
        except ngh2.NGH2Error:
            return False
        return True

    def shutdown_notice(self) -> bool:
        """Ask the client to open no further streams; those on their way are still served."""
        try:
            self._connection.send_shutdown_notice()
        except ngh2.NGH2Error:
            return False
        return True

    def goaway(self, code: int) -> bool:
        """Take no further streams; when the last one is over the session is ``closed``."""
        try:
            self._connection.send_goaway(code)
        except ngh2.NGH2Error:
            return False
        self._last_code = code
        self._takes_streams = False  # those that were on their way are ignored, as they must be
        return True

    # Inner

    def _receive(self, data: bytes, first: int, whole: int) -> str:
        """Pass on what ends with a whole frame, hold the rest; the word for a failure, or ""."""
        if whole == 0:
            self._held += data
            return ""
        try:
            if self._held:
                self._receive_data(self._held + data[:first])
                self._held = b""
                if first < whole:
                    self._receive_data(memoryview(data)[first:whole])
            elif whole == len(data):
                self._receive_data(data)
            else:
                self._receive_data(memoryview(data)[:whole])
        except ngh2.NGH2Error as error:
            return _word_of(error)
        if whole < len(data):
            self._held = data[whole:]
        return ""

    def _dispatch(self, event: Any, now: float, receiver: Receiver) -> None:
        kind = type(event)
        if kind is _Data:
            data: bytes = event.data
            is_end: bool = event.end_stream
            if data or is_end:
                receiver.on_data(event.stream_id, data, is_end)
            else:  # an empty frame between others says nothing
                self.fail(self._meter.note_empty(now))
        elif kind is _Closed:
            self._on_closed(event, now, receiver)
        elif kind is _Request:
            stream_id: int = event.stream_id
            self._open.add(stream_id)
            self._last_heard = stream_id
            self._heard += 1
            receiver.on_headers(stream_id, event.headers, event.end_stream)
        elif kind is _Response:
            receiver.on_headers(event.stream_id, event.headers, event.end_stream)
        elif kind is _Trailers:
            receiver.on_trailers(event.stream_id, event.headers)
        elif kind is _Reset:
            self._reset_by_peer = event.stream_id
        elif kind is _WindowUpdated:
            receiver.on_window(event.stream_id)
        else:
            self._dispatch_rare(event, receiver)

    def _dispatch_rare(self, event: Any, receiver: Receiver) -> None:
        kind = type(event)
        if kind is _Informational:
            receiver.on_informational(event.stream_id, event.headers)
        elif kind is _Settings:
            told: int = self.max_streams if self._is_settled else _ANY_STREAMS
            self._is_settled = True
            self.max_streams = event.settings.get(_SET_MAX_STREAMS, told)
            receiver.on_settings()
        elif kind is _PingAck:
            receiver.on_ping_ack()
        elif kind is _GoAway:
            self.is_leaving = True
            self._last_code = event.error_code
            receiver.on_goaway(event.last_stream_id, event.error_code)
        elif kind is _ConnectionClosed:
            # A code that neither side asked for is nghttp2's answer to what the peer did.
            self._has_parted = True
            is_full = self._is_server and len(self._open) >= self._limits.max_streams
            word = STREAMS if is_full else PROTOCOL
            self.fail(CLOSED if event.error_code == self._last_code else word)

    def _on_closed(self, event: Any, now: float, receiver: Receiver) -> None:
        stream_id: int = event.stream_id
        code: int = event.error_code
        if stream_id not in self._open:
            return  # it was counted as one that never came to be
        word = ""
        if stream_id in self._reset_here:
            self._reset_here.discard(stream_id)
        elif code != codes.NO_ERROR and stream_id != self._reset_by_peer and not event.local_error:
            # The peer broke the rules of the stream so that nghttp2 had to reset it.
            word = self._meter.note_reset(now)
        self._open.discard(stream_id)
        receiver.on_closed(stream_id, code)
        self.fail(word)


def _configuration(limits: SessionLimits) -> ngh2.Configuration:
    return ngh2.Configuration(
        auto_window_update=False,
        peer_max_concurrent_streams=UNTOLD_STREAMS,
        max_reserved_remote_streams=0,
        max_send_header_block_length=_SLACK * limits.header_size,
        max_outbound_ack=_SLACK * limits.control_frames,
        stream_reset_rate_limit=_UNLIMITED,
        max_continuations=_SLACK * limits.continuations,
        glitch_rate_limit=_UNLIMITED,
        max_inbound_header_list_size=_SLACK * limits.header_size,
        max_inbound_header_count=_SLACK * limits.header_count,
    )


def _word_of(error: ngh2.NGH2Error) -> str:
    return LIMIT if isinstance(error, ngh2.DenialOfServiceError) else PROTOCOL
