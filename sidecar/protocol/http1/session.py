"""One HTTP/1.1 connection of a consumer over h11; the only module that knows it.

Requests come out as HTTP/2 has them, and answers go in the same way. A request that comes before
the answer to the one before it waits here: one is worked on at a time.

h11 looks at the size of an unfinished head only between reads, so a read is given to it in slices.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, NamedTuple, final

import h11

from sidecar.model import reason
from sidecar.protocol.http1 import head
from sidecar.protocol.http1.head import HeadError, Headers
from sidecar.protocol.http2.limits import SessionLimits
from sidecar.protocol.triple import reply

# Words of ``broken``.
BAD_REQUEST: Final = "bad_request"
HEADER_SIZE: Final = "header_size"
SLOW_HEADER: Final = "slow_header"
BAD_RESPONSE: Final = "bad_response"  # an answer that HTTP/1.1 cannot carry

SLICE: Final = 16 * 1024
# Steps of h11 for one call of ``feed``, some 10 us each: a body may come in chunks of one byte.
MAX_STEPS: Final = 1000

_TOKENS: Final = {
    HEADER_SIZE: reason.HEADERS_TOO_LARGE,
    SLOW_HEADER: reason.TIMEOUT,
}
_BODILESS: Final = (204, 304)


class Head(NamedTuple):
    """A request; ``is_end`` when it has no body."""

    headers: Headers
    is_end: bool


class Piece(NamedTuple):
    """Bytes of a request's body; the last piece may be empty."""

    data: bytes
    is_end: bool


class Trailers(NamedTuple):
    """The trailers of a request, which end it."""

    headers: Headers


Event = Head | Piece | Trailers


@final
class ServerSession:
    """What a consumer sends becomes events, what it is answered becomes bytes.

    Nothing here raises. A connection that cannot go on is ``broken``; ``farewell()`` is then to be
    written before it is closed. ``scheme`` is http, or https for TLS.
    """

    def __init__(self, limits: SessionLimits, scheme: bytes) -> None:
        self._limits: Final = limits
        self._scheme: Final = scheme
        self._connection = self._make_connection()
        self._held = b""  # of a read, what h11 has not got yet
        self._method = b""
        self._wants_trailers = False
        self._is_chunked = False
        self._status = head.BAD_REQUEST
        self._why = ""
        self.broken = ""
        self.has_more = False
        self.has_body = False  # of the answer: whether it can have one

    def _make_connection(self) -> h11.Connection:
        return h11.Connection(h11.SERVER, self._limits.header_size)

    # In

    def feed(self, data: bytes) -> list[Event]:
        """Read what the consumer sent and return what is complete.

        Empty data goes on with what waits: after the end of an answer, or while ``has_more`` says
        that there was too much for one call.
        """
        self._held += data
        events: list[Event] = []
        parts: list[bytes] = []
        steps = 0
        while not self._is_deaf and steps < MAX_STEPS:
            steps += 1
            event = self._next()
            if isinstance(event, h11.Data):
                parts.append(event.data)
            elif isinstance(event, h11.Request):
                self._begin(event, events)
            elif isinstance(event, h11.EndOfMessage):
                self._end(event, parts, events)
                parts = []
            elif event is not h11.NEED_DATA or not self._receive():
                break
        if self._is_deaf:
            self._held = b""
        self.has_more = steps == MAX_STEPS
        if parts:
            events.append(Piece(b"".join(parts), False))
        return events

    @property
    def _is_deaf(self) -> bool:
        """Whether nothing that comes counts any more."""
        return self.broken != "" or self._connection.their_state is h11.MUST_CLOSE

    def _next(self) -> Any:
        try:
            return self._connection.next_event()
        except h11.RemoteProtocolError as error:
            is_large = error.error_status_hint == head.TOO_LARGE
            word = HEADER_SIZE if is_large else BAD_REQUEST
            why = str(error).partition(": bytearray(")[0]  # what follows is what the consumer sent
            if why.startswith("Receive buffer"):
                why = f"more than {self._limits.header_size} bytes"
            self.fail(word, error.error_status_hint, why)
            return None

    def _receive(self) -> bool:
        """Give h11 some of what is held; False when nothing is."""
        held = self._held
        if self._connection.their_state is h11.IDLE and not self.is_in_head:
            held = held.lstrip(b"\r\n")  # empty lines before a request count for nothing
        self._held = held[SLICE:]
        if not held:
            return False
        self._connection.receive_data(held[:SLICE])
        return True

    def _begin(self, request: h11.Request, events: list[Event]) -> None:
        fields = list(request.headers)
        self._method = request.method
        self._wants_trailers = head.accepts_trailers(fields)
        if len(fields) > self._limits.header_count:
            self.fail(HEADER_SIZE, head.TOO_LARGE, "too many headers")
            return
        try:
            headers = head.request_headers(
                request.method, request.target, request.http_version, fields, self._scheme
            )
        except HeadError as error:
            self.fail(BAD_REQUEST, error.status, str(error))
        else:
            events.append(Head(headers, False))

    def _end(self, end: h11.EndOfMessage, parts: list[bytes], events: list[Event]) -> None:
        try:
            trailers = head.request_trailers(list(end.headers))
        except HeadError as error:
            self.fail(BAD_REQUEST, error.status, str(error))
            return
        last = events[-1] if events else None
        if trailers:
            if parts:
                events.append(Piece(b"".join(parts), False))
            events.append(Trailers(trailers))
        elif isinstance(last, Head) and not parts:
            events[-1] = Head(last.headers, True)
        else:
            events.append(Piece(b"".join(parts), True))

    @property
    def is_in_head(self) -> bool:
        """Whether the head of a request is incomplete."""
        connection = self._connection
        return connection.their_state is h11.IDLE and bool(connection.trailing_data[0])

    @property
    def is_request_over(self) -> bool:
        """Whether all of the request has come."""
        return self._connection.their_state not in (h11.IDLE, h11.SEND_BODY)

    @property
    def is_ahead(self) -> bool:
        """Whether something of the next request has come already."""
        if not self.is_request_over or self._is_deaf:
            return False
        return bool(self._held or self._connection.trailing_data[0])

    @property
    def waits_for_go_on(self) -> bool:
        """Whether the consumer sends the body when it is told to."""
        return self._connection.they_are_waiting_for_100_continue

    # Out

    def go_on(self) -> bytes:
        """Return what tells the consumer to send the body."""
        return self.inform(((b":status", b"100"),))

    def inform(self, headers: Headers) -> bytes:
        """Return a head of status 1xx; empty for one that the consumer cannot take."""
        status, fields = head.response_headers(headers)
        connection = self._connection
        is_possible = (
            connection.our_state is h11.SEND_RESPONSE and connection.their_http_version != b"1.0"
        )
        is_wanted = self.waits_for_go_on if status == 100 else status != 101
        if not is_possible or not is_wanted:
            return b""
        return self._send(
            h11.InformationalResponse, status_code=status, headers=fields, reason=_phrase(status)
        )

    def respond(self, headers: Headers, is_end: bool, is_last: bool) -> bytes:
        """Return the head of an answer; with ``is_last`` the connection ends after it."""
        status, fields = head.response_headers(headers)
        may_have_body = status not in _BODILESS and self._method != b"HEAD"
        has_length = any(name == b"content-length" for name, _ in fields)
        if is_end and may_have_body and not has_length:
            fields.append((b"content-length", b"0"))
            has_length = True
        if is_last:
            fields.append((b"connection", b"close"))
        self.has_body = may_have_body
        self._is_chunked = (
            may_have_body and not has_length and self._connection.their_http_version != b"1.0"
        )
        return self._send(
            h11.Response, status_code=status, headers=fields, reason=_phrase(status)
        )  # fmt: skip

    def data(self, data: bytes) -> bytes:
        """Return a piece of an answer; empty when the answer can have no body."""
        return self._send(h11.Data, data=data) if self.has_body else b""

    def end(self, trailers: Headers = ()) -> bytes:
        """Return the end of an answer; trailers are for consumers that ask for them."""
        fields: head.Pairs = []
        if self._is_chunked and self._wants_trailers:
            fields = head.response_trailers(trailers)
        return self._send(h11.EndOfMessage, headers=fields)

    def _send(self, kind: Callable[..., h11.Event], **content: Any) -> bytes:
        try:
            return self._connection.send(kind(**content)) or b""
        except h11.LocalProtocolError as error:
            self.fail(BAD_RESPONSE, head.BAD_GATEWAY, str(error))
            return b""

    @property
    def is_answer_over(self) -> bool:
        """Whether the answer is complete."""
        return self._connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE, h11.SEND_BODY)

    def next_request(self) -> bool:
        """Take the next request; False when the connection ends with this one."""
        connection = self._connection
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            return False
        # A new one, because h11 takes empty lines that it holds already for a bad request.
        self._held = connection.trailing_data[0] + self._held
        self._connection = self._make_connection()
        return True

    def fail(self, word: str, status: int, why: str) -> None:
        """Break the connection; ``status`` and the reason are told unless an answer has begun."""
        if not self.broken:
            self.broken = word
            self._status = status
            self._why = why

    def farewell(self) -> bytes:
        """Return the answer of a broken connection; empty when another one has begun."""
        if self._connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return b""
        token = _TOKENS.get(self.broken, reason.BAD_REQUEST)
        headers, body = reply.http_reply(self._status, f"{token}: {self._why}")
        return self.respond(headers, False, True) + self.data(body) + self.end()


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""
