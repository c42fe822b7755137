"""Providers that do not want calls: streams refused, connections that begin with GOAWAY."""

from __future__ import annotations

import ngh2

from sidecar.balance.pool import BACKING_OFF
from sidecar.protocol.http2 import codes
from sidecar.settings.schema import Upstream
from sidecar.settings.units import Duration
from tests.fixtures.http2_ends import ProviderEnd
from tests.fixtures.triple_rig import Rig, connected


def refuse(rig: Rig, provider: ProviderEnd) -> int:
    """Refuse what comes until nothing more comes; return how much came."""
    count = 0
    while streams := provider.requests():
        for stream in streams:
            count += 1
            provider.reset(stream, codes.REFUSED_STREAM)
        rig.settle()
    return count


def test_the_only_instance_is_asked_twice():
    rig, consumer, (provider,) = connected(20880)
    asked = consumer.ask(body=b"hi")
    rig.settle()
    assert refuse(rig, provider) == 2
    assert asked.status == 14
    assert asked.message.startswith("STREAM_RESET")
    rig.assert_empty()


def test_every_instance_is_asked_before_one_is_asked_again():
    rig, consumer, providers = connected(20880, 20881)
    asked = consumer.ask(body=b"hi")
    rig.settle()
    counts = [0, 0]
    for _ in range(5):
        for number, provider in enumerate(providers):
            counts[number] += refuse(rig, provider)
    assert min(counts) >= 1
    assert sum(counts) <= 3
    assert asked.status == 14
    rig.assert_empty()


def test_a_connection_that_begins_with_goaway_is_a_failed_one():
    rig = Rig()
    (instance,) = rig.publish(20880)
    consumer = rig.consumer()
    asked = consumer.ask()
    rig.settle()
    endpoint = rig.connects.pop()
    link = rig.engine._make_link(endpoint)
    provider = ProviderEnd(link, 20880, {})
    provider.goaway(0)
    provider.push()
    endpoint.connected(link, rig.loop.now)
    rig.ends.append(provider)
    rig.settle()
    assert rig.connects == []
    assert rig.pool.unavailable == {instance.address: BACKING_OFF}
    assert asked.status == 14
    assert provider.is_closed
    rig.assert_empty()


def test_a_connection_without_further_stream_ids_is_replaced():
    rig, consumer, (provider,) = connected(20880)
    (link,) = rig.links
    running = consumer.ask()
    rig.settle()
    link._session._connection.send_request = exhausted
    asked = consumer.ask()
    rig.settle()
    assert rig.pool.endpoints["127.0.0.1:20880"].leavers == [link]
    other = rig.open()
    other.answer(other.request())
    provider.answer(provider.request())
    rig.settle()
    assert (asked.status, running.status) == (0, 0)
    rig.check()
    assert provider.is_closed


def exhausted(*_arguments: object, **_words: object) -> int:
    raise ngh2.NGH2Error("no stream ids")


def test_an_address_that_left_the_registry_is_not_dialled_for_the_age_of_its_connection():
    rig = Rig(upstream=Upstream(max_age=Duration(10.0)))
    (instance,) = rig.publish(20880)
    consumer = rig.consumer()
    consumer.ask()
    rig.settle()
    rig.open()
    rig.pool.retire([instance.address], rig.loop.now)
    rig.advance(60.0)
    rig.check()
    assert rig.connects == []
