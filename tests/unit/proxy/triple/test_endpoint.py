"""A provider address: how many connections it has, which of them a call gets, when they end."""

from __future__ import annotations

import pytest

from sidecar.balance.pool import BACKING_OFF
from sidecar.proxy.endpoint import MAX_PARKED
from sidecar.proxy.triple.upstream import STILL
from sidecar.settings.schema import Http2, Limits, Upstream
from sidecar.settings.units import Duration, Size
from tests.fixtures.triple_rig import SERVICE, Rig, connected

ADDRESS = "127.0.0.1:20880"
CLOSED = "sidecar_upstream_closed_total"


def alone(**sections):
    """A consumer, and one registered provider to whom nobody is connected."""
    rig = Rig(**sections)
    rig.publish(20880)
    return rig, rig.consumer()


def endpoint(rig):
    return rig.pool.endpoints[ADDRESS]


def answer_all(rig, *providers):
    for _ in range(5):
        for provider in providers:
            for each in provider.requests():
                provider.answer(each)
        rig.settle()


# The first connection


def test_the_first_call_opens_a_connection_and_others_wait_with_it():
    rig, consumer = alone()
    streams = [consumer.ask() for _ in range(3)]
    rig.settle()
    assert len(rig.connects) == 1
    assert endpoint(rig).parked == 3
    provider = rig.open()
    answer_all(rig, provider)
    assert [stream.status for stream in streams] == [0, 0, 0]
    assert len(rig.links) == 1
    rig.assert_empty()


def test_calls_that_wait_are_sent_in_their_order():
    rig, consumer = alone()
    for n in range(5):
        consumer.ask(body=b"%d" % n)
        rig.settle()
    provider = rig.open()
    assert [each.body for each in provider.requests()] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_call_given_up_while_it_waits_is_not_sent():
    rig, consumer = alone()
    late, gone, patient = consumer.ask(grpc_timeout="100m"), consumer.ask(), consumer.ask()
    rig.settle()
    consumer.reset(gone)
    rig.advance(0.2)
    assert late.status == 4
    provider = rig.open()
    answer_all(rig, provider)
    assert patient.status == 0
    assert len(provider.streams) == 1
    assert rig.outcomes() == {"timeout": 1, "cancelled": 1, "ok": 1}
    rig.assert_empty()


def test_a_refused_connection_sends_the_calls_that_wait_elsewhere():
    rig = Rig()
    rig.publish(20880, 20881)
    consumer = rig.consumer()
    stream = consumer.ask(body=b"x" * 100)
    rig.settle()
    rig.refuse()
    second = rig.open()
    answer_all(rig, second)
    assert stream.status == 0
    assert list(rig.engine.unavailable.values()) == [BACKING_OFF]
    rig.assert_empty()


def test_without_any_connection_a_call_is_unavailable():
    rig, consumer = alone()
    stream = consumer.ask()
    rig.settle()
    rig.refuse()
    assert stream.status == 14
    assert stream.message.startswith(f"CONNECT_FAILED {SERVICE}: no connection to {ADDRESS}")
    assert rig.outcomes() == {"connect_error": 1}
    rig.assert_empty()


def test_a_connection_that_is_lost_before_its_calls_are_written_is_opened_again():
    rig, consumer = alone()
    stream = consumer.ask()
    rig.settle()
    rig.open(greets=False).lose()
    rig.settle()
    provider = rig.open()
    answer_all(rig, provider)
    assert stream.status == 0
    rig.assert_empty()


# Caps


def test_too_many_waiting_calls_are_refused_and_those_given_up_do_not_count():
    rig, consumer = alone()
    other = rig.consumer()
    for _ in range(MAX_PARKED):
        consumer.ask(grpc_timeout="100m")
    rig.settle()
    assert endpoint(rig).parked == MAX_PARKED
    refused = other.ask()
    rig.settle()
    assert refused.status == 8
    assert refused.message.startswith(f"OVERLOADED {SERVICE}: too many calls wait for {ADDRESS}")
    rig.advance(0.2)
    waits = other.ask()
    rig.settle()
    assert waits.status == -1
    assert endpoint(rig).parked == 1
    answer_all(rig, rig.open())
    assert waits.status == 0
    assert rig.outcomes() == {"timeout": MAX_PARKED, "rejected": 1, "ok": 1}
    rig.assert_empty()


def test_waiting_calls_that_hold_too_many_bytes_are_refused():
    rig = Rig(limits=Limits(upstream_buffer=Size(1000)))
    consumer = rig.consumer()
    waits, refused = consumer.ask(body=b"x" * 600), consumer.ask(body=b"x" * 600)
    rig.settle()
    assert rig.engine.waiting == 2
    rig.publish(20880)
    rig.wake(SERVICE)
    assert (waits.status, refused.status) == (-1, 8)
    answer_all(rig, rig.open())
    assert waits.status == 0
    rig.assert_empty()


# Streams


def test_one_connection_carries_many_streams():
    rig, consumer, (provider,) = connected(20880)
    for _ in range(50):
        consumer.ask()
    rig.settle()
    assert len(provider.requests()) == 50
    assert rig.connects == []


def test_a_provider_with_one_stream_a_connection_gets_more_connections_then_calls_wait():
    rig, consumer = alone(upstream=Upstream(max_connections=3))
    first = consumer.ask(body=b"0")
    rig.settle()
    providers = [rig.open(max_streams=1)]
    for n in range(1, 6):
        consumer.ask(body=b"%d" % n)
        rig.settle()
        if rig.connects:
            providers.append(rig.open(max_streams=1))
    assert len(providers) == 3
    assert rig.connects == []
    assert [each.request().body for each in providers] == [b"0", b"1", b"2"]
    assert endpoint(rig).parked == 3
    providers[1].answer(next(iter(providers[1].streams.values())))
    rig.settle()
    assert providers[1].request().body == b"3"
    providers[0].answer(next(iter(providers[0].streams.values())))
    rig.settle()
    assert providers[0].request().body == b"4"
    assert first.status == 0
    assert endpoint(rig).parked == 1


def test_calls_that_crossed_the_limit_of_streams_are_refused_and_wait():
    rig, consumer = alone(upstream=Upstream(max_connections=1))
    streams = [consumer.ask(body=b"%d" % n) for n in range(4)]
    rig.settle()
    provider = rig.open(max_streams=1)
    for _ in range(4):
        answer_all(rig, provider)
    assert [stream.status for stream in streams] == [0] * 4
    assert rig.outcomes() == {"ok": 4}
    assert rig.count("sidecar_retries_total", "refused") <= 3
    rig.assert_empty()


def test_a_raised_limit_of_streams_lets_calls_go():
    rig, consumer = alone(upstream=Upstream(max_connections=1))
    consumer.ask()
    rig.settle()
    provider = rig.open(max_streams=1)
    consumer.ask()
    rig.settle()
    assert endpoint(rig).parked == 1
    provider.connection.update_settings({3: 2})
    rig.settle()
    assert endpoint(rig).parked == 0
    assert len(provider.requests()) == 2


def test_a_further_connection_that_is_refused_leaves_the_calls_waiting_for_a_stream():
    rig, consumer = alone()
    consumer.ask()
    rig.settle()
    provider = rig.open(max_streams=1)
    waits = consumer.ask()
    rig.settle()
    rig.refuse()
    also = consumer.ask()
    rig.settle()
    assert rig.connects == [], "not with each call"
    assert endpoint(rig).parked == 2
    assert rig.engine.unavailable == {}
    assert rig.engine.connect_error(ADDRESS) == "refused"
    answer_all(rig, provider)
    assert (waits.status, also.status) == (0, 0)
    assert rig.outcomes() == {"ok": 3}
    rig.assert_empty()


def test_calls_do_not_wait_behind_a_connection_that_stands_still():
    rig, consumer = alone()
    rig.publish(20880, 20881)
    stream = consumer.ask()
    rig.settle()
    first = rig.open()
    first.transport.is_stuck = True
    first.protocol.pause_writing()
    rig.advance(STILL)
    waits = []
    while first.port not in [each.port for each in rig.connects]:
        waits.append(consumer.ask())
        rig.settle()
    rig.refuse(first.port)
    second = rig.open()
    answer_all(rig, second)
    assert [each.status for each in waits] == [0] * len(waits)
    assert stream.status == -1


# Several connections


def test_configured_connections_are_shared_by_load():
    rig, consumer = alone(upstream=Upstream(connections=2))
    consumer.ask()
    rig.settle()
    one = rig.open()
    consumer.ask()
    rig.settle()
    two = rig.open()
    for _ in range(4):
        consumer.ask()
    rig.settle()
    assert (len(one.requests()), len(two.requests())) == (3, 3)
    assert rig.connects == []


def clogged():
    """A connection whose slow readers hold more than a quarter of its window."""
    rig, consumer, (first,) = connected(20880, http2=Http2(connection_window=Size(1 << 20)))
    consumer.reads = False
    for _ in range(6):
        consumer.ask()
    rig.settle()
    for each in first.requests():
        first.head(each)
        first.data(each, b"x" * 65_000)
    rig.settle()
    assert rig.links[0].is_clogged
    assert not rig.links[0].is_stalled
    return rig, consumer, first


def test_a_connection_clogged_by_slow_readers_is_passed_over():
    rig, _, first = clogged()
    other = rig.consumer()
    stream = other.ask()
    rig.settle()
    assert first.requests() == []
    answer_all(rig, rig.open())
    assert stream.status == 0


def test_of_two_clogged_connections_the_one_with_less_takes_a_call():
    rig, _, first = clogged()
    slow = rig.consumer()
    slow.reads = False
    slow.ask()
    rig.settle()
    second = rig.open()
    for _ in range(6):
        slow.ask()
        rig.settle()
    for each in second.requests():
        second.head(each)
        second.data(each, b"x" * 54_000)
    rig.settle()
    one, two = first.protocol, second.protocol
    assert one.is_clogged
    assert two.is_clogged
    assert two.unread < one.unread
    rig.consumer().ask()
    rig.settle()
    rig.refuse()
    assert first.requests() == []
    assert endpoint(rig).held_bytes >= one.held_bytes


def test_a_clogged_connection_is_used_when_there_is_no_other():
    rig, _, first = clogged()
    other = rig.consumer()
    stream = other.ask()
    rig.settle()
    rig.refuse()
    later = other.ask()
    rig.settle()
    answer_all(rig, first)
    assert later.status == 0
    assert stream.status == 0, "it waited for the other connection"


def clog(rig, consumer, provider, streams):
    """Have a consumer leave so many windows of 64 KiB unread."""
    consumer.reads = False
    consumer.connection.set_local_window_size(1)
    for _ in range(streams):
        consumer.ask()
    rig.settle()
    for request in provider.requests():
        provider.head(request)
        provider.data(request, b"x" * 800_000)
    rig.settle()
    assert provider.protocol.is_clogged


def test_a_call_avoids_a_connection_whose_readers_leave_nothing():
    rig, consumer, (first, second) = connected(
        20880, 20881, http2=Http2(connection_window=Size(1 << 20)),
        upstream=Upstream(max_connections=1),
    )  # fmt: skip
    rig.publish(first.port)
    clog(rig, consumer, first, 9)
    assert first.protocol.is_stalled
    rig.publish(20880, 20881)
    other = rig.consumer()
    streams = [other.ask() for _ in range(10)]
    rig.settle()
    assert first.requests() == []
    assert len(second.requests()) == 10
    assert all(each.status == -1 for each in streams)


def test_a_call_waits_for_readers_when_there_is_no_other_instance():
    rig, consumer, (first,) = connected(
        20880, http2=Http2(connection_window=Size(1 << 20)), upstream=Upstream(max_connections=1)
    )
    clog(rig, consumer, first, 9)
    stream = rig.consumer().ask()
    rig.settle()
    assert endpoint(rig).parked == 1
    consumer.reads = True
    consumer.connection.set_local_window_size(1 << 20)
    consumer.read_all()
    rig.settle()
    assert endpoint(rig).parked == 0
    answer_all(rig, first)
    assert stream.status == 0


# Age


AGED = Upstream(max_age=Duration(100.0), idle_close=Duration(3600.0))


@pytest.mark.parametrize(("draw", "age"), [(0.0, 90), (0.5, 100), (0.999, 110)])
def test_an_old_connection_is_replaced_and_finishes_its_streams(draw, age):
    rig, consumer = alone(upstream=AGED)
    rig.fixed_draw = draw
    stream = consumer.ask()
    rig.settle()
    old = rig.open()
    rig.advance(age - 1)
    rig.check()
    assert rig.connects == []
    rig.advance(1)
    rig.check()
    assert len(rig.connects) == 1
    assert endpoint(rig).open_links == 1
    young = rig.open()
    later = consumer.ask()
    rig.settle()
    answer_all(rig, young)
    assert later.status == 0
    assert not old.is_closed
    answer_all(rig, old)
    assert stream.status == 0
    rig.check()
    assert old.is_closed
    assert old.goaways == [(0, 0)]
    assert rig.count(CLOSED, "left") == 1
    assert not young.is_closed
    rig.assert_empty()


def test_an_old_connection_that_cannot_be_replaced_stays_in_use():
    rig, consumer = alone(upstream=AGED)
    consumer.ask()
    rig.settle()
    old = rig.open()
    answer_all(rig, old)
    rig.advance(120)
    rig.check()
    rig.refuse()
    stream = consumer.ask()
    rig.settle()
    answer_all(rig, old)
    assert stream.status == 0


def test_a_connection_is_never_old_without_a_limit():
    rig, _, (provider,) = connected(20880, upstream=Upstream(idle_close=Duration(1e6)))
    rig.watch(5000)
    assert rig.connects == []
    assert not provider.is_closed


def test_a_connection_that_the_provider_leaves_at_once_is_not_in_use():
    rig, consumer = alone()
    stream = consumer.ask()
    rig.settle()
    provider = rig.open(greets=False)
    provider.goaway(0)
    rig.settle()
    assert provider.is_closed
    answer_all(rig, rig.open())
    assert stream.status == 0


def test_word_of_a_connection_that_is_not_in_use_changes_nothing():
    rig, _, (provider,) = connected(20880)
    link = provider.protocol
    provider.lose()
    endpoint(rig).leaving(link, rig.loop.now)
    endpoint(rig).lost(link, rig.loop.now)
    assert rig.links == []


def test_a_leaving_connection_is_kept_alive_and_given_up_when_it_is_dead():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask()
    rig.settle()
    provider.goaway((1 << 31) - 1)
    rig.settle()
    provider.is_silent = True
    rig.watch(179)
    assert stream.status == -1
    rig.watch(2)
    assert stream.status == 14
    assert rig.count(CLOSED, "dead") == 1
    rig.assert_empty()


# The end


def test_an_idle_connection_is_closed_with_a_word():
    rig, _, (provider,) = connected(20880)
    rig.watch(299)
    assert not provider.is_closed
    rig.watch(2)
    assert provider.is_closed
    assert provider.goaways == [(0, 0)]
    assert rig.count(CLOSED, "idle") == 1


def test_a_long_stream_is_not_idle_time():
    rig, consumer, (provider,) = connected(20880)
    consumer.ask()
    rig.settle()
    rig.watch(1000)
    answer_all(rig, provider)
    rig.watch(290)
    assert not provider.is_closed
    rig.watch(20)
    assert provider.is_closed


def test_an_address_nobody_wants_any_more_is_forgotten():
    rig, _, _ = connected(20880)
    rig.watch(310)
    rig.check()
    assert rig.pool.endpoints == {}


def test_an_address_that_left_the_registry_finishes_its_streams():
    rig, consumer, (provider,) = connected(20880, upstream=Upstream(max_age=Duration(100.0)))
    stream = consumer.ask()
    rig.settle()
    rig.engine.addresses_changed([ADDRESS], [], rig.loop.now)
    rig.watch(150)
    assert not provider.is_closed
    assert rig.connects == [], "an old connection of a retired address is not replaced"
    answer_all(rig, provider)
    assert stream.status == 0
    rig.check()
    assert provider.is_closed
    assert rig.pool.retired == []
    rig.assert_empty()


def test_calls_that_wait_at_an_address_which_leaves_go_elsewhere():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    stream = consumer.ask(body=b"x")
    rig.settle()
    rig.publish(20881)
    rig.engine.addresses_changed([ADDRESS], [], rig.loop.now)
    rig.settle()
    rig.refuse(20880)
    answer_all(rig, rig.open(20881))
    assert stream.status == 0
    rig.assert_empty()


async def test_the_end_of_the_engine_ends_every_connection():
    rig, consumer, (provider,) = connected(20880)
    leaver_stream = consumer.ask()
    rig.settle()
    provider.goaway((1 << 31) - 1)
    rig.settle()
    consumer.ask()
    rig.settle()
    second = rig.open()
    await rig.engine.stop()
    rig.settle()
    assert provider.is_closed
    assert second.is_closed
    assert consumer.is_closed
    assert leaver_stream.status == -1
    assert rig.outcomes() == {"cancelled": 2}
    assert rig.loop.armed == 0
    rig.assert_empty()


def test_what_a_registration_says_of_its_connections():
    rig = Rig()
    tri = rig.publish(1, parameters={"heartbeat": "5000"})
    tls = rig.publish(2, parameters={"ssl-enabled": "TRUE"})
    grpc = rig.publish(3, protocol="grpc")
    found = [rig.pool.endpoint(each) for (each,) in (tri, tls, grpc)]
    assert [(each.is_grpc, each.is_tls, each.heartbeat) for each in found] == [
        (False, False, 5.0),
        (False, True, 60.0),
        (True, False, 300.0),
    ]
