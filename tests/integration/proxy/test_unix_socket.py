"""A listener on a Unix socket."""

from __future__ import annotations

import asyncio
import os
import stat

import pytest

from sidecar.model.errors import SidecarError
from sidecar.proxy.plane import DataPlane
from sidecar.settings.schema import Limits, Listener
from tests.fixtures.dubbo_peer import Consumer, eventually


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "s.sock")
    if len(path) > 100:
        pytest.skip("the path of the test directory is too long for a socket")
    return path


async def connect(path):
    _, consumer = await asyncio.get_running_loop().create_unix_connection(Consumer, path)
    return consumer


async def test_calls_through_a_unix_socket(worlds, path):
    world = await worlds(listeners=[Listener(address=f"unix://{path}")])
    assert world.plane.addresses == [f"unix://{path}"]
    assert world.plane.ports == [0]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    provider = await world.provider()
    world.services.publish(provider.port)
    consumers = [await connect(path) for _ in range(3)]
    world.peers += consumers
    for consumer in consumers:
        assert (await consumer.call()).status == 20
    assert world.plane.consumers == 3


async def test_its_consumers_are_limited_too(worlds, path):
    world = await worlds(
        listeners=[Listener(address=f"unix://{path}")], limits=Limits(max_consumers=1)
    )
    consumers = [await connect(path)]
    await eventually(lambda: world.plane.consumers == 1)
    consumers.append(await connect(path))
    await consumers[1].gone()
    assert world.count("sidecar_consumers_closed_total", "too_many") == 1
    assert not consumers[0].is_closed
    world.peers += consumers


async def test_its_file_goes_with_the_listener_and_connections_stay(worlds, path):
    world = await worlds(listeners=[Listener(address=f"unix://{path}")])
    provider = await world.provider(delay=0.1)
    world.services.publish(provider.port)
    consumer = await connect(path)
    call = asyncio.ensure_future(consumer.call())
    await eventually(lambda: provider.calls)
    world.plane.hurry()
    await world.plane.drain()
    assert (await call).status == 20
    with pytest.raises(FileNotFoundError):
        await connect(path)
    await consumer.gone()


async def test_an_address_that_is_taken(worlds, path):
    first = await worlds(listeners=[Listener(address=f"unix://{path}")])
    second = DataPlane(
        first.settings, first.services.directory, first, first.counters, asyncio.get_running_loop()
    )
    with pytest.raises(SidecarError) as caught:
        await second.start()
    await second.stop()
    assert str(caught.value) == f"cannot listen on unix://{path}: another process listens there"
    first.peers.append(await connect(path))
