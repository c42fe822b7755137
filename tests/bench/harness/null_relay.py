"""A relay that moves bytes and reads none of them: the price of the runtime alone.

`python null_relay.py LISTEN_PORT PROVIDER_PORT...`; one provider connection per consumer, the
providers take turns. What a proxy in this runtime adds is its distance from this one.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvloop


class Upstream(asyncio.Protocol):
    """The provider's side of one consumer."""

    def __init__(self, consumer: Downstream) -> None:
        self.consumer = consumer
        self.write: Callable[[bytes], None] = consumer.transport.write

    def connection_made(self, transport: Any) -> None:
        self.consumer.joined(transport)

    def data_received(self, data: bytes) -> None:
        self.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.consumer.transport.close()


class Downstream(asyncio.Protocol):
    """The consumer's side; bytes wait until the provider's side is connected."""

    def __init__(self, providers: Iterator[int]) -> None:
        self.providers = providers
        self.transport: Any = None
        self.upstream: Any = None
        self.waiting: list[bytes] = []
        self.write: Callable[[bytes], None] = self.waiting.append
        self.connecting: asyncio.Future[Any] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        loop = asyncio.get_running_loop()
        connect = loop.create_connection(lambda: Upstream(self), "127.0.0.1", next(self.providers))
        self.connecting = asyncio.ensure_future(connect)

    def joined(self, upstream: Any) -> None:
        """Take the provider's side into use."""
        self.upstream = upstream
        self.write = upstream.write
        upstream.writelines(self.waiting)
        if self.transport.is_closing():
            upstream.close()

    def data_received(self, data: bytes) -> None:
        self.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.upstream is not None:
            self.upstream.close()


async def serve(port: int, providers: list[int]) -> None:
    """Relay until the process ends."""
    turns = itertools.cycle(providers)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Downstream(turns), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), [int(word) for word in sys.argv[2:]]))
