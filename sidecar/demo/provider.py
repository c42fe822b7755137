"""The providers of one zone, as one process: ``python -m sidecar.demo.provider ZONE PLAN [URL]``.

The plan lists instances as ``NAME[=TAG]``, separated by commas; each listens on a free port of its
own. With a ZooKeeper URL they register there, as Dubbo providers do. Once all is up the process
prints one JSON object, NAME -> provider URL. A line ``weight NAME NUMBER`` on its input registers
an instance with a new weight and prints the object again; the end of its input ends the process,
so that no provider outlives the demo.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import partial
from typing import Final, cast, final

from sidecar.demo.nodes import ZooKeeperNodes
from sidecar.demo.wire import INTERFACE, MAX_PAYLOAD, METHOD, greet_reply
from sidecar.protocol.dubbo.frame import FrameReader
from sidecar.protocol.dubbo.reply import heartbeat_reply

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
        for frame in self._frames.feed(data):
            if frame.is_event and frame.is_two_way:
                transport.write(heartbeat_reply(frame))
            elif frame.is_request and frame.is_two_way:
                transport.write(greet_reply(frame, f"Hello from {self._name}"))
        if self._frames.broken:
            transport.close()


@final
class Zone:
    """The instances of one zone and their registrations."""

    def __init__(self, zone: str, registry: str) -> None:
        self._zone = zone
        self._nodes = ZooKeeperNodes(registry) if registry else None
        self._ports: dict[str, int] = {}
        self._tags: dict[str, str] = {}
        self.urls: dict[str, str] = {}

    async def start(self, plan: str) -> None:
        """Listen for every instance of the plan and register it."""
        loop = asyncio.get_running_loop()
        for text in plan.split(","):
            name, _, tag = text.partition("=")
            server = await loop.create_server(partial(GreeterConnection, name), "127.0.0.1")
            self._ports[name] = server.sockets[0].getsockname()[1]
            self._tags[name] = tag
            self.register(name, DEFAULT_WEIGHT)

    def register(self, name: str, weight: int) -> None:
        """Register an instance with a weight, in place of its registration so far."""
        previous = self.urls.get(name)
        self.urls[name] = self._url(name, weight)
        if self._nodes is not None:
            self._nodes.add_provider(INTERFACE, self.urls[name])
            if previous is not None:
                self._nodes.remove_provider(INTERFACE, previous)

    def _url(self, name: str, weight: int) -> str:
        parameters = {
            "application": APPLICATION,
            "dubbo": "2.0.2",
            "interface": INTERFACE,
            "methods": METHOD,
            "side": "provider",
            "timestamp": str(int(time.time() * 1000) - AGE_MS),
            "weight": str(weight),
            "zone": self._zone,
        }
        if self._tags[name]:
            parameters["dubbo.tag"] = self._tags[name]
        query = "&".join(f"{key}={value}" for key, value in sorted(parameters.items()))
        return f"dubbo://127.0.0.1:{self._ports[name]}/{INTERFACE}?{query}"


async def serve(zone_name: str, plan: str, registry: str) -> None:
    """Serve until the input ends."""
    zone = Zone(zone_name, registry)
    await zone.start(plan)
    while True:
        sys.stdout.write(json.dumps(zone.urls) + "\n")
        sys.stdout.flush()
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            return
        _, name, weight = line.split()
        await asyncio.to_thread(zone.register, name, int(weight))


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:4]))
