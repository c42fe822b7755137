"""A provider that answers every call with chosen bytes, to see what a consumer makes of them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from tests.e2e.record import HEADER, RECEIVE, Frames

Answer = Callable[[bytes], bytes]
"""From a request frame to the bytes sent back; empty for none."""

EVENT = 0x20
TWO_WAY = 0x40


def text(value: str) -> bytes:
    """Return a hessian2 string of up to 1023 ASCII characters."""
    size = len(value)
    head = bytes([size]) if size < 32 else bytes([0x30 + (size >> 8), size & 0xFF])
    return head + value.encode()


def reply(request: bytes, status: int, body: bytes, serialization: int = 2) -> bytes:
    """Return a reply frame with the request's id."""
    head = b"\xda\xbb" + bytes([serialization, status]) + request[4:12]
    return head + len(body).to_bytes(4, "big") + body


def rpc_exception(code: int, message: str, kind: int = 3) -> bytes:
    """Return a status-20 body whose result is an RpcException made of two fields."""
    definition = b"C" + text("org.apache.dubbo.rpc.RpcException") + b"\x92"
    definition += text("code") + text("detailMessage")
    attachments = b"HZ" if kind == 3 else b""
    fields = b"\x60" + bytes([0x90 + code]) + text(message)
    return bytes([0x90 + kind]) + definition + fields + attachments


class StubProvider:
    """Listens on a loopback port; ``requests`` keeps every frame that is not an event."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Its direct URL."""
        return f"dubbo://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        frames = Frames()
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(RECEIVE):
                for frame in frames.feed(data):
                    if frame[2] & EVENT:
                        continue
                    self.requests.append(frame)
                    connection.sendall(self.answer(frame))

    def send(self, data: bytes) -> None:
        """Send bytes of its own accord on the newest connection."""
        self.connections[-1].sendall(data)

    def cut(self) -> None:
        """Close every connection; new ones are accepted."""
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self.connections.clear()

    def close(self) -> None:
        """Stop listening and close every connection."""
        self._listener.close()
        self.cut()


def body(frame: bytes) -> bytes:
    """Return the body of a frame."""
    return frame[HEADER:]
