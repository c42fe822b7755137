"""Dubbo calls in TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl

import pytest

from sidecar.model.errors import SidecarError
from sidecar.proxy.plane import DataPlane
from sidecar.settings.schema import Http2, Limits, Listener, ListenerTls, Settings
from sidecar.settings.units import Duration, Size
from sidecar.telemetry.counters import Counters
from tests.fixtures.dubbo_frames import request
from tests.fixtures.dubbo_peer import eventually, together
from tests.fixtures.services import Services

BIG = "x" * 60_000


@pytest.fixture
def secure(certificates):
    tls = ListenerTls(certificate=certificates.server.chain, key=certificates.server.key)
    return [Listener(address="127.0.0.1:0", tls=tls)]


async def test_calls_of_a_consumer_in_tls(worlds, certificates, secure):
    world = await worlds(listeners=secure)
    provider = await world.provider(BIG)
    world.services.publish(provider.port)
    consumer = await world.consumer(certificates.client_context())
    replies = await together(*[consumer.call() for _ in range(200)])
    assert all(BIG.encode() in each.body for each in replies)
    assert world.plane.consumers == 1
    await world.settled()


async def test_a_consumer_in_tls_that_does_not_read_is_ended(worlds, certificates, secure):
    limits = Limits(consumer_stall=Duration(0.3), consumer_buffer=Size(10**9))
    world = await worlds(listeners=secure, limits=limits)
    provider = await world.provider(BIG)
    world.services.publish(provider.port)
    context = certificates.client_context()

    def call() -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", world.plane.ports[0]))
        consumer = context.wrap_socket(plain, server_hostname="127.0.0.1")
        consumer.sendall(b"".join(request(number) for number in range(400)))
        return consumer

    with await asyncio.to_thread(call):
        await eventually(lambda: world.count("sidecar_consumers_closed_total", "stalled") == 1)
        await eventually(lambda: world.plane.consumers == 0)


async def test_the_end_of_a_consumer_in_tls_is_the_end_of_its_calls(
    worlds, certificates, secure, caplog
):
    caplog.set_level(logging.INFO)
    world = await worlds(listeners=secure)
    provider = await world.provider(is_silent=True)
    world.services.publish(provider.port)
    consumer = await world.consumer(certificates.client_context())
    call = asyncio.ensure_future(consumer.call())
    await eventually(lambda: provider.calls)
    call.cancel()
    consumer.close()  # says goodbye as TLS does
    await eventually(lambda: world.plane.consumers == 0)
    await world.settled()
    assert "eof_received" not in caplog.text


async def test_a_consumer_without_tls_is_ended(worlds, secure):
    world = await worlds(listeners=secure)
    consumer = await world.consumer()
    consumer.send(request(1))
    await consumer.gone()
    await eventually(lambda: world.count("sidecar_consumers_closed_total", "tls") == 1)
    await eventually(lambda: world.plane.consumers == 0)


async def test_handshakes_count_as_consumers(worlds, certificates, secure):
    world = await worlds(listeners=secure, limits=Limits(max_consumers=2))
    silent = [await world.consumer() for _ in range(2)]
    await eventually(lambda: world.plane.consumers == 2)
    refused = await world.consumer()
    await refused.gone()
    assert world.count("sidecar_consumers_closed_total", "too_many") == 1
    silent[0].close()
    await eventually(lambda: world.plane.consumers == 1)
    await world.consumer(certificates.client_context())


async def test_the_end_comes_during_a_handshake(worlds, secure):
    world = await worlds(listeners=secure)
    consumer = await world.consumer()
    await eventually(lambda: world.plane.consumers == 1)
    world.plane.hurry()
    await world.plane.drain()
    await consumer.gone()
    await eventually(lambda: world.plane.consumers == 0)


async def test_a_slow_handshake_is_ended_by_the_housekeeping(worlds, secure):
    world = await worlds(listeners=secure, http2=Http2(slow_header=Duration(0.1)))
    consumer = await world.consumer()
    await consumer.gone()
    assert world.count("sidecar_consumers_closed_total", "slow_handshake") == 1
    await eventually(lambda: world.plane.consumers == 0)


async def test_a_file_that_cannot_be_used_is_told_at_the_start(certificates, tmp_path):
    key = str(tmp_path / "none")
    tls = ListenerTls(certificate=certificates.server.chain, key=key)
    settings = Settings(listeners=[Listener(tls=tls)])
    counters = Counters()
    directory = Services(settings, counters).directory
    with pytest.raises(SidecarError) as caught:
        DataPlane(settings, directory, None, counters, asyncio.get_running_loop())
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:20880: {key}: No such file or directory"
    )
