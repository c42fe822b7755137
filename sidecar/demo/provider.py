"""One sample provider as a process: ``python -m sidecar.demo.provider NAME ZONE TAG URL``.

It speaks Dubbo TCP and Triple on one free loopback port and, when the URL of a ZooKeeper is not
empty, registers there as Dubbo providers do. Then it prints its provider URL. A line with a number
on its input makes it register anew with that weight and print the URL again; the end of its input
ends it, so that no provider outlives the demo.
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from typing import Final, cast, final

from sidecar.demo.nodes import ZooKeeperNodes
from sidecar.demo.streams import GreeterStreams
from sidecar.demo.wire import INTERFACE, MAX_PAYLOAD, METHOD, greet_reply
from sidecar.protocol.dubbo.frame import FrameReader
from sidecar.protocol.dubbo.reply import heartbeat_reply
from sidecar.protocol.http2.frames import PREFACE

APPLICATION: Final = "greeter"
DEFAULT_WEIGHT: Final = 100
# Registered as started an hour ago: a provider that started just now would still be warming up,
# with a weight near 1 whatever it registers.
AGE_MS: Final = 3_600_000


@final
class GreeterConnection(asyncio.Protocol):
    """Answers calls and heartbeats of one consumer or sidecar."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._frames = FrameReader(MAX_PAYLOAD)
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for answers."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every whole request in the bytes so far."""
        transport = cast("asyncio.Transport", self._transport)
        if data.startswith(PREFACE):  # of HTTP/2, as a whole: sidecars write it at once
            streams = GreeterStreams(self._name)
            transport.set_protocol(streams)
            streams.connection_made(transport)
            streams.data_received(data)
            return
        for frame in self._frames.feed(data):
            if frame.is_event and frame.is_two_way:
                transport.write(heartbeat_reply(frame))
            elif frame.is_request and frame.is_two_way:
                transport.write(greet_reply(frame, f"Hello from {self._name}"))
        if self._frames.broken:
            transport.close()


@final
class Provider:
    """One instance and its registration."""

    def __init__(self, name: str, zone: str, tag: str, registry: str) -> None:
        self._name = name
        self._zone = zone
        self._tag = tag
        self._nodes = ZooKeeperNodes(registry) if registry else None
        self._port = 0
        self.url = ""

    async def start(self) -> None:
        """Listen and register."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(partial(GreeterConnection, self._name), "127.0.0.1")
        self._port = server.sockets[0].getsockname()[1]
        self.register(DEFAULT_WEIGHT)

    def register(self, weight: int) -> None:
        """Register with a weight, in place of the registration so far."""
        previous, self.url = self.url, self._url(weight)
        if self._nodes is not None:
            self._nodes.add_provider(INTERFACE, self.url)
            if previous:
                self._nodes.remove_provider(INTERFACE, previous)

    def _url(self, weight: int) -> str:
        parameters = {
            "application": APPLICATION,
            "dubbo": "2.0.2",
            "ext.protocol": "tri",
            "interface": INTERFACE,
            "methods": METHOD,
            "side": "provider",
            "timestamp": str(int(time.time() * 1000) - AGE_MS),
            "weight": str(weight),
            "zone": self._zone,
        }
        if self._tag:
            parameters["dubbo.tag"] = self._tag
        query = "&".join(f"{key}={value}" for key, value in sorted(parameters.items()))
        return f"dubbo://127.0.0.1:{self._port}/{INTERFACE}?{query}"


async def serve(name: str, zone: str, tag: str, registry: str) -> None:
    """Serve until the input ends."""
    provider = Provider(name, zone, tag, registry)
    await provider.start()
    while True:
        sys.stdout.write(provider.url + "\n")
        sys.stdout.flush()
        weight = await asyncio.to_thread(sys.stdin.readline)
        if not weight:
            return
        await asyncio.to_thread(provider.register, int(weight))


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:5]))
