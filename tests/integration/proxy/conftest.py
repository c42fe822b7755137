"""The data plane on real sockets, on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvloop

from sidecar.model import outcome
from sidecar.model.protocol import TRIPLE
from sidecar.proxy.plane import DataPlane
from sidecar.settings.schema import Limits, Listener, Settings, Timeouts, Upstream
from sidecar.settings.units import Duration
from sidecar.telemetry.counters import Counters
from tests.fixtures import h2_peer
from tests.fixtures.dubbo_peer import Consumer, Peer, Provider, connect, eventually
from tests.fixtures.services import Services


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class World:
    """A running data plane with scripted peers around it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._skipped = 0.0
        self.counters = Counters()
        self.services = Services(settings, self.counters)
        self.resolved: list[str] = []
        self.peers: list[Provider | Peer] = []
        self.plane = DataPlane(
            settings, self.services.directory, self, self.counters, asyncio.get_running_loop(),
            lambda: time.monotonic() + self._skipped,
        )  # fmt: skip

    def skip(self, seconds: float) -> None:
        """Let the data plane's clock go on by so much at once; its timers stay where they are."""
        self._skipped += seconds

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


class H2World(World):
    """A data plane whose first listener takes HTTP/2, with scripted HTTP/2 peers around it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.h2_peers: list[h2_peer.Provider | h2_peer.Peer] = []
        self.engine: Any = self.plane._triple

    async def h2_provider(self, port: int = 0, **script: Any) -> h2_peer.Provider:
        provider = await h2_peer.Provider(**script).start(port)
        self.h2_peers.append(provider)
        return provider

    async def h2_consumer(self, **script: Any) -> h2_peer.Consumer:
        consumer = await h2_peer.connect(self.plane.ports[0], **script)
        self.h2_peers.append(consumer)
        return consumer

    def publish(self, *ports: int, **values: Any) -> None:
        self.services.publish(*ports, protocol="tri", protocols=TRIPLE, **values)

    async def h2_serve(self, *providers: h2_peer.Provider, **script: Any) -> h2_peer.Consumer:
        """Publish these providers and return a consumer that is ready to call."""
        self.publish(*[each.port for each in providers])
        return await self.h2_consumer(**script)

    @property
    def upstreams(self) -> list[Any]:
        """The provider connections."""
        pool = self.engine._pool
        endpoints = [*pool.endpoints.values(), *pool.retired]
        return [link for each in endpoints for link in (*each.links, *each.leavers)]

    @property
    def held(self) -> int:
        """Bytes of bodies that wait for a reader, in both directions."""
        return int(self.engine.held_bytes)

    def outcomes(self, service: str = "com.x.Demo:1.0.0", method: str = "hi") -> dict[str, int]:
        """Outcomes of a method that were counted, by name."""
        stats = self.counters.methods.get(("triple", service, method))
        counts = stats.outcomes if stats is not None else []
        return {outcome.NAMES[n]: count for n, count in enumerate(counts) if count}

    async def at_rest(self) -> None:
        """Wait until nothing is left of any call, on either side."""
        await eventually(lambda: self._is_at_rest)

    @property
    def _is_at_rest(self) -> bool:
        engine = self.engine
        pool = engine._pool
        return (
            self.plane.inflight == self.plane.waiting == self.held == 0
            and len(engine.walk.surroundings.timer) == 0
            and all(link.is_quiet and link.unread == 0 for link in self.upstreams)
            and all(each.parked == 0 for each in (*pool.endpoints.values(), *pool.retired))
        )

    async def end(self) -> None:
        await self.plane.stop()
        for peer in self.h2_peers:
            if isinstance(peer, h2_peer.Provider):
                peer.stop()
            elif not peer.is_closed:
                peer.transport.abort()
        await super().end()
        assert self._is_at_rest


@pytest.fixture
async def h2_worlds(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Callable[..., Any]]:
    """Start data planes for HTTP/2 with the given sections of the settings; no defect is logged."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(**sections: Any) -> H2World:
            listeners = [Listener(protocol="triple", address="127.0.0.1:0")]
            world = H2World(quick(**({"listeners": listeners} | sections)))
            await world.plane.start()
            stack.push_async_callback(world.end)
            return world

        yield start
    for phase in ("setup", "call"):
        assert [each for each in caplog.get_records(phase) if each.levelno >= logging.ERROR] == []
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


@pytest.fixture
async def h2_world(h2_worlds: Callable[..., Any]) -> H2World:
    """A data plane for HTTP/2 with the usual settings."""
    started: H2World = await h2_worlds()
    return started
