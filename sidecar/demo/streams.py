"""The sample service over HTTP/2, as a gRPC client and a provider with both protocols see it.

One message with one string each way; the provider's connection is found out by its first bytes,
as Dubbo 3.3 does on a port with two protocols.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast, final

from sidecar.demo.wire import INTERFACE, MAX_PAYLOAD, METHOD
from sidecar.protocol.http2.limits import SessionLimits
from sidecar.protocol.http2.receiver import Headers, OpenReceiver
from sidecar.protocol.http2.session import Session
from sidecar.protocol.triple import ending, reply

CHUNK: Final = 64 * 1024

_STRING_FIELD: Final = b"\x0a"  # protobuf: field 1, a string of less than 128 bytes
_PREFIX_SIZE: Final = 5


def limits() -> SessionLimits:
    """Return what a connection of the demo may cost; its peers are its own."""
    return SessionLimits(
        header_size=16 * 1024, header_count=100, continuations=4, resets=100, control_frames=1000,
        stream_window=MAX_PAYLOAD, connection_window=16 * MAX_PAYLOAD, max_streams=100,
    )  # fmt: skip


def message(text: str) -> bytes:
    """Return a gRPC message with a short text."""
    data = text.encode()
    body = _STRING_FIELD + bytes((len(data),)) + data
    return b"\0" + len(body).to_bytes(_PREFIX_SIZE - 1, "big") + body


def text_of(data: bytes) -> str:
    """Return the text of a message."""
    return data[_PREFIX_SIZE + 2 :].decode()


@final
class GreeterStreams(OpenReceiver, asyncio.Protocol):
    """Answers the calls of one gRPC client."""

    def __init__(self, name: str) -> None:
        self._greeting: Final = message(f"Hello from {name}")
        self._session: Final = Session(True, limits())
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        self._transport = cast("asyncio.Transport", transport)
        self._session.start()
        self._transport.write(self._session.take(CHUNK))

    def data_received(self, data: bytes) -> None:
        """Answer what has come."""
        transport = cast("asyncio.Transport", self._transport)
        self._session.feed(data, asyncio.get_running_loop().time(), self)
        transport.write(self._session.take(CHUNK))
        self._session.deliver(asyncio.get_running_loop().time(), self)
        if self._session.broken:
            transport.close()

    def on_data(self, stream_id: int, data: bytes, is_end: bool) -> None:
        """Answer the message, which comes in one piece."""
        self._session.acknowledge(stream_id, len(data))
        if is_end:
            head = [(b":status", b"200"), (b"content-type", b"application/grpc")]
            self._session.respond(stream_id, head, False)
            self._session.data(stream_id, self._greeting, False)
            self._session.trailers(stream_id, reply.trailers(reply.OK, ""))


Told = Callable[[bool, str], None]


@final
class GreeterClient(OpenReceiver):
    """Calls ``greet`` on one HTTP/2 connection; ``told`` hears each answer or error text."""

    def __init__(self, authority: str, told: Told) -> None:
        self._authority: Final = authority.encode()
        self._told: Final = told
        self._session: Final = Session(False, limits())
        self._texts: Final[dict[int, str]] = {}
        self._session.start()

    def call(self, name: str, tag: str) -> None:
        """Ask for a greeting."""
        headers = [
            (b":method", b"POST"), (b":scheme", b"http"), (b":authority", self._authority),
            (b":path", f"/{INTERFACE}/{METHOD}".encode()), (b"content-type", b"application/grpc"),
            (b"te", b"trailers"), (b"grpc-timeout", b"3S"),
        ]  # fmt: skip
        if tag:
            headers.append((b"dubbo-tag", tag.encode()))
        stream_id = self._session.request(headers, False)
        self._session.data(stream_id, message(name), True)

    def take(self) -> bytes:
        """Return what is to be written."""
        return self._session.take(CHUNK)

    def feed(self, data: bytes) -> None:
        """Take what was read; raises ConnectionResetError when it is no HTTP/2."""
        self._session.feed(data, asyncio.get_running_loop().time(), self)
        if self._session.broken:
            raise ConnectionResetError(f"the connection is broken: {self._session.broken}")

    def on_headers(self, stream_id: int, headers: Headers, is_end: bool) -> None:
        """Take the head of an answer, which may be all there is."""
        if is_end:
            self._end(stream_id, headers)

    def on_data(self, stream_id: int, data: bytes, is_end: bool) -> None:
        """Take a greeting, which comes in one piece."""
        self._session.acknowledge(stream_id, len(data))
        self._texts[stream_id] = text_of(data)

    def on_trailers(self, stream_id: int, headers: Headers) -> None:
        """Take the end of an answer."""
        self._end(stream_id, headers)

    def on_closed(self, stream_id: int, code: int) -> None:
        """Count a stream that was cut."""
        if code != 0:
            self._told(False, f"the stream was reset with code {code}")

    def _end(self, stream_id: int, headers: Headers) -> None:
        text = self._texts.pop(stream_id, "")
        if ending.grpc_status(headers) == reply.OK:
            self._told(True, text)
        else:
            why = dict(headers).get(b"grpc-message", b"no message").decode(errors="replace")
            self._told(False, why)
