"""The Triple side, put together."""

from __future__ import annotations

import pytest

from sidecar.proxy.triple.engine import NEVER, session_limits
from sidecar.settings.schema import Http2, Limits, Settings, Upstream
from sidecar.settings.units import Duration, Size
from tests.fixtures.triple_rig import Rig, connected

ADDRESS = "127.0.0.1:20880"


def test_limits_come_from_the_settings():
    http2 = Http2(
        header_size=Size(1000), header_count=20, continuations=3, resets=4, control_frames=50,
        stream_window=Size(6000), connection_window=Size(7000),
    )  # fmt: skip
    limits = session_limits(Settings(http2=http2, limits=Limits(max_inflight_per_consumer=8)))
    assert (limits.header_size, limits.header_count, limits.continuations) == (1000, 20, 3)
    assert (limits.resets, limits.control_frames, limits.max_streams) == (4, 50, 8)
    assert (limits.stream_window, limits.connection_window) == (6000, 7000)


def test_the_last_request_is_remembered_when_its_consumer_has_gone():
    rig = Rig()
    assert rig.engine.last_request == 0.0
    rig.publish(20880)
    one, two = rig.consumer(), rig.consumer()
    assert rig.engine.last_request == 0.0
    rig.advance(5)
    one.ask()
    rig.settle()
    at = rig.loop.now
    assert rig.engine.last_request == at
    rig.advance(5)
    one.finish()
    two.finish()
    assert rig.engine.last_request == at


def test_facts():
    rig, consumer, (provider,) = connected(20880)
    consumer.ask()
    rig.settle()
    assert (rig.engine.inflight, rig.engine.waiting, len(rig.engine.consumers)) == (1, 0, 1)
    assert rig.engine.connections()["ready"] == 1
    assert rig.engine.connect_error(ADDRESS) == ""
    provider.answer(provider.request())
    rig.settle()
    assert rig.engine.inflight == 0


@pytest.mark.parametrize("authority", ["keep", "instance"])
def test_the_authority_is_as_configured(authority):
    rig, consumer, (provider,) = connected(20880, upstream=Upstream(authority=authority))
    consumer.ask()
    rig.settle()
    expected = {"keep": b"127.0.0.1:50051", "instance": ADDRESS.encode()}[authority]
    assert provider.request().field(b":authority") == expected


def test_connections_have_an_age_only_when_one_is_configured():
    rig, _, _ = connected(20880)
    assert rig.links[0].expires == NEVER
    rig, _, _ = connected(20880, upstream=Upstream(max_age=Duration(100.0)))
    assert rig.loop.now + 89 < rig.links[0].expires < rig.loop.now + 111


async def test_the_end_of_the_engine_ends_the_calls_of_consumers():
    rig, consumer, (provider,) = connected(20880)
    consumer.ask(grpc_timeout="10S")
    rig.settle()
    rig.advance(1)
    await rig.engine.stop()
    rig.settle()
    assert consumer.transport.is_aborted
    assert provider.transport.is_aborted
    assert rig.outcomes() == {"cancelled": 1}
    assert rig.engine.consumers == set()
    assert rig.loop.armed == 0
    rig.assert_empty()


async def test_a_call_that_is_lost_with_the_engine_is_not_moved():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    consumer.ask()
    rig.settle()
    await rig.engine.stop()
    rig.settle()
    assert rig.outcomes() == {"cancelled": 1}
    rig.assert_empty()
