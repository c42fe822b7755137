"""A driver on a real ZooKeeper, and the providers' side of it."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from sidecar.registry.driver import RegistryDriver
from sidecar.settings.schema import Registry, Services, Settings
from sidecar.settings.units import Duration
from sidecar.telemetry.counters import Counters
from tests.fixtures.board import Board
from tests.fixtures.provider_names import provider_name


class Rig:
    """One driver with its board. Times are in seconds."""

    def __init__(self, driver, board, counters):
        self.driver = driver
        self.board = board
        self.counters = counters

    @property
    def stats(self):
        return self.driver.stats["main"]

    async def until(self, condition, limit=10.0):
        """Wait until a condition holds; return how long it took."""
        begin = time.monotonic()
        while not condition():
            if time.monotonic() - begin > limit:
                raise AssertionError(f"not within {limit} s: {self.describe()}")
            await asyncio.sleep(0.01)
        return time.monotonic() - begin

    async def until_hosts(self, *octets, service="demo.Cart", limit=10.0):
        """Wait until a service has exactly these providers."""
        return await self.until(lambda: self.hosts(service) == set(octets), limit)

    def hosts(self, service="demo.Cart"):
        return self.board.hosts(service) if service in self.board.snapshots else None

    def describe(self):
        return self.driver.registries(), self.board.log, self.board.failures


class Providers:
    """Registers and removes providers with a session of its own."""

    def __init__(self, client, interface="demo.Cart", root="/dubbo"):
        self.client = client
        self.path = f"{root}/{interface}/providers"
        self.interface = interface

    def add(self, *octets, **more):
        for n in octets:
            name = provider_name(n, self.interface, **more)
            self.client.create(f"{self.path}/{name}", ephemeral=True, makepath=True)

    def remove(self, *octets, **more):
        for n in octets:
            self.client.delete(f"{self.path}/{provider_name(n, self.interface, **more)}")

    def clear(self):
        self.client.delete(self.path, recursive=True)


@pytest.fixture
async def rigs():
    """Make drivers: ``rigs(url, coalesce=0.3, ...)``; all of them end with the test."""
    made = []

    def make(url, coalesce=0.3, session_timeout=15.0, services=None, **registry):
        settings = Settings(
            registries=[
                Registry(
                    name="main",
                    url=url,
                    coalesce=Duration(coalesce),
                    session_timeout=Duration(session_timeout),
                    **registry,
                )
            ],
            services=services or Services(),
        )
        board, counters = Board(), Counters()
        driver = RegistryDriver(settings, board, counters, asyncio.get_running_loop())
        driver.start()
        made.append(driver)
        return Rig(driver, board, counters)

    yield make
    for each in made:
        await each.stop()


@pytest.fixture
def providers(zookeeper):
    """Providers of demo.Cart."""
    client = zookeeper.client()
    yield Providers(client)
    with contextlib.suppress(Exception):
        zookeeper.discard(client)
