"""A real gRPC client asks before anything is measured, because h2load reads no grpc-status."""

from __future__ import annotations

import time

import grpc

from harness.native import INTERFACE, METHOD, VERSION, LoadError

REPLY = b"Hello from the benchmark"
LARGE = b"x" * 2**20
SECONDS = 5.0
METADATA = (("tri-service-version", VERSION),)


def verify(port: int) -> None:
    """Make one unary call and read one stream of two large messages.

    Raises LoadError when either is not answered as the provider answers it.
    """
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            reply = _unary(channel)
            download = channel.unary_stream(f"/{INTERFACE}/download")
            stream = download(b"", timeout=SECONDS, metadata=(*METADATA, ("messages", "2")))
            messages = list(stream)
        except grpc.RpcError as error:
            raise LoadError(f"a gRPC client is answered on port {port}: {error}") from error
    if reply != REPLY or messages != [LARGE, LARGE]:
        raise LoadError(f"a gRPC client gets something else on port {port} than the provider sends")


class Visitor:
    """One ordinary consumer beside others, on a connection of its own."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.answered_ms: list[float] = []
        self.failed = 0

    def call(self) -> None:
        """Make one call; it may take a second."""
        begin = time.monotonic()
        try:
            _unary(self.channel, timeout=1.0)
        except grpc.RpcError:
            self.failed += 1
        else:
            self.answered_ms.append((time.monotonic() - begin) * 1e3)

    def close(self) -> None:
        """End the connection."""
        self.channel.close()


def _unary(channel: grpc.Channel, timeout: float = SECONDS) -> bytes:
    reply: bytes = channel.unary_unary(f"/{INTERFACE}/{METHOD}")(
        b"x" * 244, timeout=timeout, metadata=METADATA
    )
    return reply
