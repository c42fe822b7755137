"""Start, drain and stop of the data plane on real sockets."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from sidecar.model.errors import SidecarError
from sidecar.model.protocol import DUBBO
from sidecar.model.service import ServiceKey
from sidecar.proxy.plane import DataPlane
from sidecar.settings.schema import Drain, Limits, Listener, Settings, Timeouts, Upstream
from sidecar.settings.units import Duration
from sidecar.telemetry.counters import Counters
from tests.fixtures.dubbo_frames import request
from tests.fixtures.dubbo_peer import connect, eventually
from tests.fixtures.services import SERVICE, Services, instance


class _BrokenLoop:
    def create_task(self, coroutine):
        return asyncio.get_running_loop().create_task(coroutine)

    async def create_connection(self, *_arguments):
        raise RuntimeError("out of handles")


def plane_on(address):
    settings = Settings(listeners=[Listener(address=address)])
    counters = Counters()
    directory = Services(settings, counters).directory
    return DataPlane(settings, directory, None, counters, asyncio.get_running_loop())


@pytest.mark.parametrize(
    "address", ["127.0.0.1:{port}", "256.0.0.1:1", "127.0.0.1:99999", "nowhere"]
)
async def test_a_listener_that_cannot_bind_says_so_in_a_plain_sentence(address):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = address.format(port=taken.getsockname()[1])
        plane = plane_on(address)
        with pytest.raises(SidecarError, match=f"^cannot listen on {address}: .+"):
            await plane.start()
        await plane.stop()


async def test_listens_on_ipv6_too():
    plane = plane_on("[::1]:0")
    await plane.start()
    (port,) = plane.ports
    _, writer = await asyncio.open_connection("::1", port)
    await eventually(lambda: plane.consumers == 1)
    writer.close()
    await writer.wait_closed()
    await eventually(lambda: plane.consumers == 0)
    await plane.stop()
    assert plane.ports == [0]


async def test_fc_77_a_drain_serves_and_accepts_until_consumers_are_quiet(worlds):
    world = await worlds(drain=Drain(grace=Duration(5.0), idle=Duration(0.3)))
    provider = await world.provider()
    consumer = await world.serve(provider)
    started = time.monotonic()
    (port,) = world.plane.ports
    drain = asyncio.ensure_future(world.plane.drain())
    for _ in range(10):
        assert (await consumer.call()).status == 20
        await asyncio.sleep(0.05)
    late = await world.consumer()
    assert (await late.call()).status == 20, "new consumers are served"
    quiet = time.monotonic()
    await drain
    assert 0.25 <= time.monotonic() - quiet < 1.5
    assert time.monotonic() - started < 4.0
    await consumer.gone()
    await late.gone()
    with pytest.raises(ConnectionRefusedError):
        await connect(port)


@pytest.mark.parametrize("is_hurried", [False, True])
async def test_fc_77_quiet_consumers_are_told_before_the_end(h2_worlds, is_hurried):
    world = await h2_worlds(drain=Drain(grace=Duration(5.0), idle=Duration(0.1)))
    consumer = await world.h2_serve(await world.h2_provider())
    await consumer.call()
    if is_hurried:
        world.plane.hurry()
    await world.plane.drain()
    await world.plane.stop()
    await consumer.gone()
    assert [code for _, code in consumer.goaways] == [0, 0]


async def test_fc_77_consumers_that_connect_for_each_call_are_not_quiet(worlds):
    world = await worlds(drain=Drain(grace=Duration(20.0), idle=Duration(0.3)))
    provider = await world.provider()
    world.services.publish(provider.port)
    drain = asyncio.ensure_future(world.plane.drain())
    for _ in range(20):
        consumer = await world.consumer()
        assert (await consumer.call()).status == 20
        consumer.transport.close()
        await consumer.gone()
        await asyncio.sleep(0.04)
    assert not drain.done()
    async with asyncio.timeout(5.0):
        await drain


async def test_fc_77_the_grace_ends_it_with_what_is_in_flight_finished(worlds):
    world = await worlds(drain=Drain(grace=Duration(0.3), idle=Duration(10.0)))
    provider = await world.provider(delay=0.5)
    consumer = await world.serve(provider)
    idle = await world.consumer()
    call = asyncio.ensure_future(consumer.call())
    await eventually(lambda: provider.calls)
    drain = asyncio.ensure_future(world.plane.drain())
    await idle.gone()
    consumer.send(request(1))
    refused = await consumer.reply_to(1)
    assert (refused.status, refused.message.split()[0]) == (100, "SHUTTING_DOWN")
    assert (await call).status == 20
    await consumer.gone()
    await drain


async def test_fc_77_a_second_signal_cuts_the_serving_short(worlds):
    world = await worlds(drain=Drain(grace=Duration(20.0), idle=Duration(20.0)))
    provider = await world.provider(delay=0.2)
    consumer = await world.serve(provider)
    call = asyncio.ensure_future(consumer.call())
    await eventually(lambda: provider.calls)
    drain = asyncio.ensure_future(world.plane.drain())
    await asyncio.sleep(0.02)
    started = time.monotonic()
    world.plane.hurry()
    assert (await call).status == 20
    await drain
    assert time.monotonic() - started < 1.0


async def test_a_hurry_before_the_drain_is_not_forgotten(worlds):
    world = await worlds(drain=Drain(grace=Duration(20.0), idle=Duration(20.0)))
    world.plane.hurry()
    async with asyncio.timeout(2.0):
        await world.plane.drain()


async def test_a_stop_ends_everything_and_counts_open_calls(worlds):
    world = await worlds()
    silent = await world.provider(is_silent=True)
    gone = await world.provider()
    gone.refuse()
    consumer = await world.serve(silent, gone)
    consumer.send(*[request(number) for number in range(8)])
    consumer.send(request(99, service="com.x.Never"))
    await eventually(lambda: len(silent.calls) == 8)
    await world.plane.stop()
    await consumer.gone()
    await eventually(lambda: not silent.open_links and world.plane.consumers == 0)
    assert world.plane.inflight == 0
    assert world.plane.waiting == 0
    assert world.plane.connections() == dict.fromkeys(world.plane.connections(), 0)
    assert world.counters.methods["dubbo", SERVICE, "hi"].outcomes[9] == 8


async def test_a_stop_while_connecting_leaves_no_task(worlds):
    world = await worlds(timeouts=Timeouts(connect=Duration(30.0)))
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        world.services.publish(port)
        consumer = await world.consumer()
        consumer.send(request(1))
        await eventually(lambda: world.plane.connections()["connecting"] == 1)
        await world.plane.stop()
        for filler in fillers:
            filler.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [task for task in others if "_connect" in repr(task)]


async def test_a_connect_that_takes_too_long_fails(worlds):
    world = await worlds(timeouts=Timeouts(connect=Duration(0.1)))
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        alive = await world.provider("alive")
        world.services.publish(port, alive.port)
        consumer = await world.consumer()
        for _ in range(10):
            assert (await consumer.call()).value == "alive"
        assert world.plane.unavailable(DUBBO) == {f"127.0.0.1:{port}": 2}
        assert world.count("sidecar_connect_failures_total") >= 1
        assert world.plane.connect_error(f"127.0.0.1:{port}") == "timed out"
        assert world.plane.connect_error("127.0.0.1:1") == ""
        for filler in fillers:
            filler.close()


async def test_whatever_goes_wrong_while_connecting_the_address_is_not_lost(world, monkeypatch):
    provider = await world.provider()
    consumer = await world.serve(provider)
    with monkeypatch.context() as patch:
        patch.setattr(world.plane._dubbo._connector, "_loop", _BrokenLoop())
        failed = await consumer.call()
    assert (failed.status, failed.message.split()[0]) == (80, "CONNECT_FAILED")
    assert "out of handles" in world.plane.connect_error(provider.address)
    await eventually(lambda: not world.plane.unavailable(DUBBO))
    assert (await consumer.call()).status == 20


async def test_housekeeping_goes_on_after_a_defect(worlds, monkeypatch):
    world = await worlds(upstream=Upstream(idle_close=Duration(0.2)))
    provider = await world.provider()
    consumer = await world.serve(provider)
    assert (await consumer.call()).status == 20
    errors = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    with monkeypatch.context() as patch:
        patch.setattr(world.plane._dubbo, "_pool", None)
        await eventually(lambda: errors)
    loop.set_exception_handler(None)
    await eventually(lambda: not provider.open_links)


async def test_a_clock_that_is_set_forward_is_followed(worlds, monkeypatch):
    world = await worlds(upstream=Upstream(idle_close=Duration(0.1)))
    engine = world.plane._dubbo
    surroundings = engine.walk.surroundings
    before = surroundings.wall_offset_ms
    ahead = engine._tools._replace(wall=lambda: time.time() + 3600.0)
    monkeypatch.setattr(engine, "_tools", ahead)
    await eventually(lambda: surroundings.wall_offset_ms > before + 3_599_000)


async def test_warm_connections_stand_before_the_first_call(worlds):
    world = await worlds(upstream=Upstream(warm=2, idle_close=Duration(0.1)))
    provider = await world.provider()
    instances = world.services.publish(provider.port)
    world.plane.addresses_changed((), instances)
    await eventually(lambda: len(provider.open_links) == 2)
    await asyncio.sleep(0.3)
    assert len(provider.open_links) == 2
    provider.links[0].close()
    await eventually(lambda: len(provider.links) == 3)


async def test_an_address_that_leaves_and_returns(world):
    provider = await world.provider()
    consumer = await world.serve(provider)
    assert (await consumer.call()).status == 20
    world.services.publish()
    world.plane.addresses_changed([provider.address])
    assert (await consumer.call()).message.startswith("EMPTY_REGISTRY")
    await eventually(lambda: not provider.open_links)
    instances = world.services.publish(provider.port)
    world.plane.addresses_changed((), instances)
    assert (await consumer.call()).status == 20
    assert len(provider.links) == 2


async def test_a_stalled_consumer_is_closed_in_time(worlds):
    world = await worlds(limits=Limits(consumer_stall=Duration(0.2)))
    provider = await world.provider("x" * 1000)
    slow = await world.serve(provider)
    slow.transport.pause_reading()
    for number in range(100):
        slow.send(*[request(number * 100 + n) for n in range(100)])
        await asyncio.sleep(0)
    await eventually(lambda: world.count("sidecar_consumers_closed_total", "stalled") == 1)
    slow.transport.abort()
    await world.settled()


async def test_default_services_are_read_in_any_form(worlds):
    provider = None
    listener = Listener(address="127.0.0.1:0", default_service="com.x.Demo:0.0.0")
    world = await worlds(listeners=[listener])
    provider = await world.provider(is_silent=True)
    world.services.publish(provider.port, service="com.x.Demo")
    consumer = await world.consumer()
    consumer.send(bytes.fromhex("dabbdd00000000000000002b00000007") + b'{"a":1}')
    await eventually(lambda: provider.calls)
    assert provider.calls[0].body == b'{"a":1}'


async def test_dialling_one_s_own_end_is_no_connection(world, monkeypatch):
    from sidecar.proxy import connector

    monkeypatch.setattr(connector, "_is_own_end", lambda transport: True)
    provider = await world.provider()
    consumer = await world.serve(provider)
    assert (await consumer.call()).status == 80
    assert world.plane.unavailable(DUBBO) == {provider.address: 2}


def test_instances_of_a_test_are_plain():
    assert instance(1, ServiceKey.parse(SERVICE)).address == "127.0.0.1:1"
