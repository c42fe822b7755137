"""The data plane on real sockets, on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvloop

from sidecar.proxy.plane import DataPlane
from sidecar.settings.schema import Limits, Listener, Settings, Timeouts, Upstream
from sidecar.settings.units import Duration
from sidecar.telemetry.counters import Counters
from tests.fixtures.dubbo_peer import Consumer, Peer, Provider, connect, eventually
from tests.fixtures.services import Services


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class World:
    """A running data plane with scripted peers around it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.counters = Counters()
        self.services = Services(settings, self.counters)
        self.resolved: list[str] = []
        self.peers: list[Provider | Peer] = []
        self.plane = DataPlane(
            settings, self.services.directory, self, self.counters, asyncio.get_running_loop()
        )

    def resolve(self, service: str) -> None:
        self.resolved.append(service)
        self.services.watch(service)

    async def provider(
        self, name: str = "hi bob", context: ssl.SSLContext | None = None, **script: Any
    ) -> Provider:
        provider = await Provider(name).start(0, context)
        for key, value in script.items():
            setattr(provider, key, value)
        self.peers.append(provider)
        return provider

    async def consumer(self, context: ssl.SSLContext | None = None) -> Consumer:
        consumer = await connect(self.plane.ports[0], context)
        self.peers.append(consumer)
        return consumer

    async def serve(self, *providers: Provider, **values: Any) -> Consumer:
        """Publish these providers and return a consumer that is ready to call."""
        self.services.publish(*[each.port for each in providers], **values)
        return await self.consumer()

    def count(self, name: str, label: str = "") -> int:
        return self.counters.named.get((name, label), 0)

    async def settled(self) -> None:
        """Wait until nothing is left of any call."""
        await eventually(lambda: self.plane.inflight == 0 and self.plane.waiting == 0)

    async def end(self) -> None:
        await self.plane.stop()
        for peer in self.peers:
            if isinstance(peer, Provider):
                peer.stop()
            elif not peer.is_closed:
                peer.transport.abort()
        await asyncio.sleep(0)
        await eventually(lambda: self.plane.consumers == 0)


def quick(**sections: Any) -> Settings:
    """Settings with a free port and times that suit a test."""
    defaults: dict[str, Any] = {
        "listeners": [Listener(address="127.0.0.1:0")],
        "timeouts": Timeouts(connect=Duration(2.0)),
        "upstream": Upstream(backoff_min=Duration(0.02), backoff_max=Duration(0.1)),
        "limits": Limits(),
    }
    return Settings(**(defaults | sections))


@pytest.fixture
async def worlds() -> AsyncIterator[Callable[..., Any]]:
    """Start data planes with the given sections of the settings."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(**sections: Any) -> World:
            world = World(quick(**sections))
            await world.plane.start()
            stack.push_async_callback(world.end)
            return world

        yield start


@pytest.fixture
async def world(worlds: Callable[..., Any]) -> World:
    """A data plane with the usual settings."""
    started: World = await worlds()
    return started
