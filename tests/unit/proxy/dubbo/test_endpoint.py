"""Provider addresses and the pool of them."""

from __future__ import annotations

import pytest

from sidecar.model.service import ServiceKey
from sidecar.proxy.endpoint import MAX_PARKED
from sidecar.proxy.pool import MAX_WARMED
from sidecar.settings.schema import Limits, Upstream
from sidecar.settings.units import Duration, Size
from tests.fixtures.dubbo_frames import readonly, reply, request
from tests.fixtures.proxy_rig import Rig
from tests.fixtures.services import SERVICE, instance

ADDRESS = "127.0.0.1:20880"


def served(*ports, **sections):
    rig = Rig(**sections)
    rig.services.publish(*ports)
    consumer = rig.consumer()
    consumer.send(request(1))
    return rig, consumer


def test_the_first_call_opens_the_connection_and_the_next_share_it():
    rig, consumer = served(20880)
    consumer.send(request(2))
    assert len(rig.connects) == 1
    provider = rig.open()
    assert len(provider.frames()) == 2
    consumer.send(request(3))
    assert len(provider.frames()) == 1
    assert rig.connects == []


def test_parked_calls_are_capped_by_bytes():
    rig, consumer = served(20880, limits=Limits(upstream_buffer=Size(1000)))
    consumer.send(*[request(number) for number in range(2, 20)])
    refused = consumer.frames()
    assert refused
    assert all(each.overload for each in refused)
    assert rig.pool.endpoints[ADDRESS].parked == 19 - len(refused)
    assert len(rig.open().frames()) == 19 - len(refused)


def test_parked_calls_are_capped_by_number():
    rig, consumer = served(20880)
    other = rig.consumer()
    for number in range(2, MAX_PARKED + 1):
        consumer.deliver(request(number))
    other.send(request(1), request(2))
    assert rig.pool.endpoints[ADDRESS].parked == MAX_PARKED
    assert [bool(each.overload) for each in other.frames()] == [True, True]
    assert len(rig.open().frames()) == MAX_PARKED


def test_more_connections_are_opened_while_those_there_are_busy():
    rig, consumer = served(20880, upstream=Upstream(connections=3))
    first = rig.open()
    consumer.send(request(2))
    assert len(rig.connects) == 1, "one at a time"
    consumer.send(request(3))
    assert len(rig.connects) == 1
    second = rig.open()
    consumer.send(request(4), request(5))
    third = rig.open()
    consumer.send(*[request(number) for number in range(6, 12)])
    assert rig.connects == []
    counts = [len(each.protocol.session) for each in (first, second, third)]
    assert sum(counts) == 11
    assert max(counts) - min(counts) <= 1, "the one with the fewest pending is chosen"


def test_a_full_connection_is_passed_over_for_another_one():
    rig, consumer = served(
        20880, upstream=Upstream(connections=2), limits=Limits(upstream_buffer=Size(1000))
    )
    stuck = rig.open()
    stuck.send(*[reply(each.number) for each in stuck.frames()])
    consumer.send(*[request(number) for number in range(2, 4)])
    other = rig.open()
    stuck.send(*[reply(each.number) for each in stuck.frames()])
    consumer.frames()
    stuck.protocol.pause_writing()
    for number in range(100, 140):
        consumer.send(request(number))
    assert consumer.frames() == [], "nobody is refused"
    assert stuck.protocol.is_full
    assert len(other.frames()) > 30


def test_an_idle_connection_is_enough():
    rig, consumer = served(20880, upstream=Upstream(connections=3))
    provider = rig.open()
    provider.send(reply(provider.frame().number))
    consumer.send(request(2))
    assert rig.connects == []


def test_a_failed_extra_connection_does_no_harm():
    rig, consumer = served(20880, upstream=Upstream(connections=2))
    provider = rig.open()
    consumer.send(request(2))
    rig.refuse()
    assert rig.pool.unavailable == {}
    assert len(provider.frames()) == 2


def test_a_provider_that_takes_no_more_connections_is_not_asked_at_each_call():
    upstream = Upstream(connections=2, backoff_min=Duration(0.1), backoff_max=Duration(10.0))
    rig, consumer = served(20880, upstream=upstream)
    provider = rig.open()
    attempts = 0
    for number in range(1000):
        consumer.send(request(number))
        if rig.connects:
            rig.refuse()
            attempts += 1
        rig.loop.advance(0.01)
    assert 5 <= attempts <= 8, "0.075 s after the first failure, then twice as long each time"
    assert len(provider.frames()) == 1001
    assert rig.pool.unavailable == {}
    rig.loop.advance(10.0)
    consumer.send(request(1))
    rig.open()
    assert rig.pool.connections()["ready"] == 2


def test_back_off_doubles_is_capped_and_ends_with_success():
    upstream = Upstream(backoff_min=Duration(0.1), backoff_max=Duration(1.0))
    rig, _ = served(20880, upstream=upstream)
    waits = []
    for _ in range(6):
        rig.refuse()
        assert rig.pool.unavailable == {ADDRESS: 2}
        started = rig.loop.now
        while not rig.connects:
            rig.loop.advance(0.01)
        waits.append(round(rig.loop.now - started, 2))
    assert waits == pytest.approx([0.075, 0.15, 0.3, 0.6, 0.75, 0.75], abs=0.02)
    rig.open()
    assert rig.pool.unavailable == {}
    assert rig.loop.armed == 0


def test_an_address_in_back_off_gets_no_calls_while_there_are_others():
    rig, consumer = served(20880, 20881)
    dead = rig.connects[0].port
    rig.refuse()
    alive = rig.open()
    for _ in range(20):
        consumer.send(request(5))
    assert len(alive.frames()) == 21
    assert rig.pool.unavailable == {f"127.0.0.1:{dead}": 2}


def test_a_registration_ends_the_back_off_at_once():
    rig, _ = served(20880)
    for _ in range(5):
        rig.refuse()
        rig.loop.advance(20.0)
    rig.refuse()
    assert rig.connects == []
    rig.pool.add([instance(20880, ServiceKey.parse(SERVICE))], rig.loop.now)
    assert len(rig.connects) == 1
    rig.pool.add([instance(20880, ServiceKey.parse(SERVICE))], rig.loop.now)
    assert len(rig.connects) == 1


def test_an_address_nobody_wants_is_forgotten_and_no_longer_dialled():
    rig, _consumer = served(20880)
    for _ in range(60):
        rig.loop.advance(10.0)
        if rig.connects:
            rig.refuse()
        rig.check()
    assert rig.pool.endpoints == {}
    assert rig.pool.unavailable == {}
    assert rig.loop.armed == 0


def test_an_idle_connection_is_closed():
    rig, consumer = served(20880, upstream=Upstream(idle_close=Duration(30.0)))
    provider = rig.open()
    number = provider.frame().number
    rig.loop.advance(31.0)
    rig.check()
    assert not provider.is_closed, "a call is in flight"
    provider.send(reply(number))
    rig.check()
    assert provider.is_closed
    provider.lose()
    assert rig.count("sidecar_upstream_closed_total", "idle") == 1
    rig.check()
    assert rig.pool.endpoints == {}
    consumer.send(request(2))
    assert len(rig.open().frames()) == 1


def test_idle_means_without_calls_whatever_the_heartbeats():
    upstream = Upstream(idle_close=Duration(100.0), heartbeat=Duration(10.0))
    rig, _ = served(20880, upstream=upstream)
    provider = rig.open()
    provider.send(reply(provider.frame().number))
    for _ in range(11):
        rig.loop.advance(10.0)
        rig.check()
        if not provider.is_closed:
            provider.send(*[reply(each.number) for each in provider.frames()])
    assert provider.is_closed


def test_an_idle_draining_connection_is_closed_and_the_state_with_it():
    rig, _ = served(20880, upstream=Upstream(idle_close=Duration(30.0)))
    provider = rig.open()
    provider.send(reply(provider.frame().number), readonly())
    rig.loop.advance(31.0)
    rig.check()
    assert provider.is_closed
    assert rig.pool.unavailable == {}


def test_warm_connections_are_kept_and_replaced():
    rig, _consumer = served(20880, upstream=Upstream(warm=1, idle_close=Duration(30.0)))
    provider = rig.open()
    provider.send(reply(provider.frame().number))
    rig.loop.advance(31.0)
    rig.check()
    assert not provider.is_closed
    provider.finish()
    rig.check()
    rig.open()
    assert len(rig.pool.endpoints[ADDRESS].links) == 1


def test_warm_connections_open_with_the_registration():
    rig = Rig(upstream=Upstream(warm=1))
    (registered,) = rig.services.publish(20880)
    rig.pool.add([registered], rig.loop.now)
    rig.check()
    rig.open()
    rig.check()
    assert rig.connects == []
    rig.consumer().send(request(1))
    assert rig.connects == []


def test_warm_connections_of_a_large_service_are_opened_a_few_at_a_time():
    rig = Rig(upstream=Upstream(warm=1))
    rig.pool.add(rig.services.publish(*range(20_000, 20_250)), rig.loop.now)
    opened = []
    while True:
        rig.check()
        if not rig.connects:
            break
        opened.append(len(rig.connects))
        while rig.connects:
            rig.open()
    assert opened == [MAX_WARMED, MAX_WARMED, 50]


def test_without_warm_a_registration_opens_nothing():
    rig = Rig()
    rig.pool.add(rig.services.publish(20880), rig.loop.now)
    rig.check()
    assert rig.connects == []
    assert rig.pool.endpoints == {}


def test_an_address_that_left_finishes_what_is_in_flight_and_closes():
    rig, consumer = served(20880, 20881)
    rig.connects[:] = rig.connects[:1]
    provider = rig.open()
    number = provider.frame().number
    rig.pool.retire([f"127.0.0.1:{provider.protocol._owner.port}"], rig.loop.now)
    rig.check()
    assert not provider.is_closed
    assert rig.pool.connections()["retired"] == 1
    provider.send(reply(number))
    assert consumer.frame().status == 20
    rig.check()
    assert provider.is_closed
    assert rig.pool.retired == []


def test_calls_parked_for_an_address_that_left_go_elsewhere():
    rig, _consumer = served(20880)
    rig.services.publish(20881)
    rig.pool.retire([ADDRESS, "127.0.0.1:1"], rig.loop.now)
    assert len(rig.open(20881).frames()) == 1
    late = rig.open(20880)
    assert late.frames() == []
    rig.check()
    assert late.is_closed
    assert rig.pool.retired == []


def test_a_failed_attempt_of_an_address_that_left_is_not_repeated():
    rig, consumer = served(20880)
    rig.services.publish()
    rig.pool.retire([ADDRESS], rig.loop.now)
    assert consumer.frame().message.startswith("EMPTY_REGISTRY")
    rig.refuse()
    rig.loop.advance(100.0)
    rig.check()
    assert rig.connects == []
    assert rig.pool.unavailable == {}
    assert rig.pool.retired == []


def test_an_address_that_left_and_came_back_starts_anew():
    rig, consumer = served(20880)
    old = rig.open()
    number = old.frame().number
    old.send(readonly())
    rig.pool.retire([ADDRESS], rig.loop.now)
    assert rig.pool.unavailable == {}
    consumer.send(request(2))
    fresh = rig.open()
    assert len(fresh.frames()) == 1
    old.send(readonly())
    assert rig.pool.unavailable == {}, "the old connection has no say any more"
    old.send(reply(number))
    assert consumer.frame().status == 20


def test_connections_are_counted_by_state():
    rig, consumer = served(20880, 20881, 20882)
    while len(rig.pool.endpoints) < 3:
        consumer.send(request(2))
    assert rig.pool.connections()["connecting"] == 3
    rig.open(20880).send(readonly())
    rig.open(20881)
    rig.refuse(20882)
    assert rig.pool.connections() == {
        "connecting": 0, "ready": 1, "draining": 1, "retired": 0, "backoff": 1,
    }  # fmt: skip


def test_closing_ends_connections_and_timers():
    rig, consumer = served(20880, 20881)
    while len(rig.pool.endpoints) < 2:
        consumer.send(request(2))
    provider = rig.open()
    rig.refuse()
    consumer.frames()
    rig.surroundings.is_closing = True
    rig.pool.close()
    rig.timer.stop()
    assert provider.is_closed
    provider.lose()
    assert rig.loop.armed == 0
    assert rig.pool.endpoints == {}


def test_a_failing_address_masks_only_itself_for_a_call():
    rig, _ = served(20880)
    assert rig.pool.mask(None) is rig.pool.unavailable
    rig.refuse()
    assert rig.pool.mask(["127.0.0.1:20881"]) == {ADDRESS: 2, "127.0.0.1:20881": 2}
    assert rig.pool.unavailable == {ADDRESS: 2}
    assert rig.pool.may_be_tried("127.0.0.1:20881", rig.loop.now)
    assert not rig.pool.may_be_tried(ADDRESS, rig.loop.now)


@pytest.mark.parametrize(
    ("registered", "seconds"),
    [("", 60.0), ("5000", 5.0), ("1", 2.0), ("90000", 60.0), ("-5", 60.0), ("soon", 60.0)],
)
def test_a_provider_may_ask_for_more_heartbeats(registered, seconds):
    rig = Rig()
    (instance,) = rig.services.publish(20880, parameters={"heartbeat": registered})
    assert rig.pool.endpoint(instance).heartbeat == seconds


def test_what_a_provider_registers_anew_counts():
    rig = Rig()
    rig.services.publish(20880)
    rig.consumer().send(request(1))
    endpoint = rig.pool.endpoints["127.0.0.1:20880"]
    rig.pool.add(rig.services.publish(20880, parameters={"heartbeat": "5000"}), rig.loop.now)
    assert endpoint.heartbeat == 5.0
