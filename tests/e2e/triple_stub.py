"""A Triple provider that answers with chosen frames, to see what a consumer makes of them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from tests.e2e.http2_frames import FRAME_HEADER, PREFACE

GOAWAY = 7
OK = [(":status", "200"), ("content-type", "application/grpc+proto")]
GREETING = bytes.fromhex("0000000025") + (
    b"\x0a\x08hessian4\x12\x07\x06hi bob\x1a\x10java.lang.String"
)
"""The gRPC message with the text "hi bob", wrapped in the form of Dubbo's Java servers."""

Headers = list[tuple[str, str]]


@dataclass
class Request:
    """One request as it came, and the ways to answer it."""

    connection: Connection
    stream: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)

    def greet(self) -> None:
        """Answer with a message and status 0."""
        self.send(OK)
        with self.connection.engine as engine:
            engine.send_data(self.stream, GREETING)
        self.send([("grpc-status", "0")], ends=True)

    def refuse(self, status: int, text: str, http_status: int = 200) -> None:
        """Answer with trailers only."""
        head = [(":status", str(http_status)), OK[1]]
        self.send([*head, ("grpc-status", str(status)), ("grpc-message", text)], ends=True)

    def send(self, headers: Headers, ends: bool = False) -> None:
        """Send a block of headers."""
        with self.connection.engine as engine:
            engine.send_headers(self.stream, headers, end_stream=ends)

    def reset(self, code: int) -> None:
        """Send RST_STREAM."""
        with self.connection.engine as engine:
            engine.reset_stream(self.stream, code)


class Engine:
    """The HTTP/2 engine of one connection; used as a context it locks, then sends what it made."""

    def __init__(self, transport: socket.socket) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self._http2 = h2.connection.H2Connection(config)
        self._transport = transport
        self._lock = threading.RLock()

    def __enter__(self) -> h2.connection.H2Connection:
        self._lock.acquire()
        return self._http2

    def __exit__(self, *_: object) -> None:
        data = self._http2.data_to_send()
        with contextlib.suppress(OSError):
            self._transport.sendall(data)
        self._lock.release()


class Connection:
    """One consumer's connection; ``answer`` gets each request when it is complete."""

    def __init__(self, transport: socket.socket, answer: Callable[[Request], None]) -> None:
        self.transport = transport
        self.engine = Engine(transport)
        self.requests: list[Request] = []
        self.pings = 0
        self.resets: list[int] = []
        self.is_leaving = False  # the consumer has sent GOAWAY
        self.is_closed = False
        self._answer = answer

    def serve(self) -> None:
        """Read until the consumer has gone."""
        with self.engine as engine:
            engine.initiate_connection()
        with (
            self.transport,
            contextlib.suppress(OSError, h2.exceptions.ProtocolError),
            self.transport.makefile("rb") as stream,
        ):
            self._feed(stream.read(len(PREFACE)))
            while len(head := stream.read(FRAME_HEADER)) == FRAME_HEADER:
                frame = head + stream.read(int.from_bytes(head[:3], "big"))
                if head[3] == GOAWAY:  # h2 would take it for the end, but open streams go on
                    self.is_leaving = True
                else:
                    self._feed(frame)
        self.is_closed = True

    def _feed(self, data: bytes) -> None:
        with self.engine as engine:
            events = engine.receive_data(data)
        for event in events:
            self._take(event)

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            request = Request(self, event.stream_id, dict(event.headers))
            self.requests.append(request)
        elif isinstance(event, h2.events.DataReceived):
            self._request(event.stream_id).body += event.data
            with self.engine as engine:
                engine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self._answer(self._request(event.stream_id))
        elif isinstance(event, h2.events.PingReceived):
            self.pings += 1
        elif isinstance(event, h2.events.StreamReset):
            self.resets.append(int(event.error_code))

    def _request(self, stream: int) -> Request:
        return next(request for request in self.requests if request.stream == stream)

    def go_away(self, last_stream: int = 2**31 - 1) -> None:
        """Send GOAWAY without an error, and go on serving."""
        frame = (8).to_bytes(3, "big") + b"\x07\x00\x00\x00\x00\x00"
        self.transport.sendall(frame + last_stream.to_bytes(4, "big") + bytes(4))

    def cut(self) -> None:
        """Close the connection without a word."""
        with contextlib.suppress(OSError):
            self.transport.shutdown(socket.SHUT_RDWR)  # the serving thread closes it


class TripleStub:
    """Listens on a loopback port."""

    def __init__(self, port: int = 0) -> None:
        self.answer: Callable[[Request], None] = Request.greet
        self.connections: list[Connection] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Its direct URL."""
        return f"tri://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """Every request so far."""
        return [request for connection in self.connections for request in connection.requests]

    def _accept(self) -> None:
        while True:
            try:
                transport, _ = self._listener.accept()
            except OSError:
                return
            connection = Connection(transport, lambda request: self.answer(request))
            self.connections.append(connection)
            threading.Thread(target=connection.serve, daemon=True).start()

    def close(self) -> None:
        """Stop listening and close every connection."""
        with contextlib.suppress(OSError):  # a second time
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that holds it
        self._listener.close()
        for connection in self.connections:
            connection.cut()
