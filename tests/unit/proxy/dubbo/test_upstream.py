"""A provider's connection."""

from __future__ import annotations

import pytest

from sidecar.proxy.dubbo.upstream import MAX_QUEUED_PARTS
from sidecar.proxy.link import LARGE_READ
from sidecar.settings.schema import Limits, ServiceOverride, Services, Upstream
from sidecar.settings.units import Duration, Size
from tests.fixtures.dubbo_frames import (
    error,
    frame,
    heartbeat,
    heartbeat_reply,
    readonly,
    reply,
    request,
    writeable,
)
from tests.fixtures.proxy_rig import Rig

SERVICE = "com.x.Demo:1.0.0"


def served(*ports, **sections):
    """A consumer, and each provider with one call in flight."""
    rig = Rig(**sections)
    rig.services.publish(*ports)
    consumer = rig.consumer()
    providers = {}
    while len(providers) < len(ports):
        consumer.send(request(0))
        if rig.connects:
            port = rig.connects[0].port
            providers[port] = rig.open()
    for provider in providers.values():
        provider.send(*[reply(each.number) for each in provider.frames()])
    consumer.frames()
    return rig, consumer, [providers[port] for port in ports]


def one_call():
    rig, consumer, (provider,) = served(20880)
    consumer.send(request(5))
    return rig, consumer, provider, provider.frame().number


def test_heartbeats_of_a_provider_are_answered():
    _rig, consumer, (provider,) = served(20880)
    provider.send(heartbeat(77))
    assert provider.frame().raw == heartbeat_reply(77)
    assert consumer.frames() == []


@pytest.mark.parametrize("asked", [heartbeat(77), request(33)])
def test_a_provider_that_asks_and_does_not_read_grows_no_queue(asked):
    limits = Limits(upstream_buffer=Size(10_000))
    _rig, consumer, (provider,) = served(20880, limits=limits)
    provider.protocol.pause_writing()
    for _ in range(100):
        provider.send(asked * 100)
    assert provider.protocol.queued_bytes < 11_000
    assert not provider.is_closed
    provider.protocol.resume_writing()
    assert provider.frames()
    consumer.send(request(5))
    provider.send(reply(provider.frame().number))
    assert consumer.frame().status == 20


@pytest.mark.parametrize(
    "raw",
    [
        heartbeat_reply(1),
        reply(999_999),
        error(0, 40, "fail to decode"),
        frame(0xA2, 0, 9, b"\x01X"),
        frame(0xE2, 0, 9, b"x" * (9 << 20)),
        frame(0x02, 20, 999_999, b"x" * (9 << 20)),
    ],
)
def test_what_nobody_waits_for_is_ignored(raw):
    _rig, consumer, provider, number = one_call()
    provider.send(raw, reply(number))
    assert consumer.frame().status == 20
    assert provider.frames() == []
    assert not provider.is_closed


def test_stray_replies_are_counted_apart_from_late_ones():
    rig, _, provider, number = one_call()
    provider.send(reply(999_999), reply(number), reply(number))
    assert rig.count("sidecar_late_replies_total", "stray") == 1
    assert rig.count("sidecar_late_replies_total", "late") == 1


def test_a_reverse_request_is_refused_with_the_reason():
    rig, consumer, (provider,) = served(20880)
    provider.send(request(33), request(34, two_way=False))
    refusal = provider.frame()
    assert (refusal.status, refusal.number) == (40, 33)
    assert refusal.message.startswith("UNSUPPORTED: ")
    assert consumer.frames() == []
    assert rig.count("sidecar_reverse_requests_total") == 2


def test_a_silent_provider_is_asked_after_a_minute_and_given_up_after_three():
    upstream = Upstream(idle_close=Duration(3600.0))
    rig, consumer, (provider,) = served(20880, upstream=upstream)
    consumer.send(request(5))
    provider.frames()
    sent = {}
    for second in range(1, 181):
        rig.loop.advance(1.0)
        rig.check()
        for each in provider.frames():
            sent[second] = each
    assert [second for second in sent if sent[second].flags == 0xE2] == [60, 120]
    assert {each.body for each in sent.values()} == {b"N"}
    assert provider.transport.is_aborted
    assert consumer.frame().status == 35
    provider.lose()
    assert rig.count("sidecar_upstream_closed_total", "dead") == 1
    consumer.send(request(6))
    assert len(rig.open().frames()) == 1, "it is reconnected"


def test_a_heartbeat_reply_keeps_the_connection():
    rig, _, (provider,) = served(20880, upstream=Upstream(idle_close=Duration(3600.0)))
    for _ in range(10):
        rig.loop.advance(60.0)
        rig.check()
        provider.send(heartbeat_reply(provider.frame().number))
    assert not provider.is_closed


def test_ordinary_traffic_suppresses_heartbeats():
    rig, consumer, (provider,) = served(20880)
    for _ in range(10):
        rig.loop.advance(30.0)
        rig.check()
        consumer.send(request(5))
        provider.send(reply(provider.frame().number))
    assert len(consumer.frames()) == 10


def test_a_broken_stream_ends_the_connection_after_the_replies_before():
    rig, consumer, provider, number = one_call()
    consumer.send(request(6))
    provider.frames()
    provider.send(reply(number) + b"HTTP/1.1 400 Bad Request")
    first, second = consumer.frames()
    assert (first.number, first.status) == (5, 20)
    assert (second.number, second.status) == (6, 35)
    assert provider.transport.is_aborted
    provider.lose()
    assert rig.count("sidecar_upstream_closed_total", "broken_stream") == 1
    rig.assert_empty()


def test_lost_in_flight_is_35_and_never_sent_again():
    rig, consumer, (one, two) = served(20880, 20881)
    consumer.send(request(5))
    hit, other = (one, two) if one.transport.writes else (two, one)
    hit.frames()
    hit.lose()
    answer = consumer.frame()
    assert (answer.status, answer.number) == (35, 5)
    assert answer.message.startswith(f"CONNECTION_LOST {SERVICE}: ")
    assert other.frames() == []
    assert rig.count("sidecar_upstream_closed_total", "peer") == 1
    rig.assert_empty()


def test_queued_but_not_written_goes_elsewhere_when_the_connection_is_lost():
    rig, consumer, (one, two) = served(20880, 20881)
    one.protocol.pause_writing()
    two.protocol.pause_writing()
    consumer.send(*[request(number) for number in range(10, 16)])
    queued = len(one.protocol.parts)
    assert 0 < queued < 6
    one.lose()
    assert consumer.frames() == []
    two.protocol.resume_writing()
    frames = two.frames()
    assert len(frames) == 6
    two.send(*[reply(each.number) for each in frames])
    assert len(consumer.frames()) == 6
    rig.assert_empty()


def test_fc_79_a_connection_with_fin_seen_is_never_used_again():
    rig, consumer, (provider,) = served(20880)
    provider.finish()
    consumer.send(request(5))
    assert provider.transport.writes == []
    assert len(rig.open().frames()) == 1


def test_fc_79_replies_that_came_before_the_fin_are_delivered():
    rig, consumer, provider, number = one_call()
    provider.deliver(reply(number))
    provider.finish()
    assert consumer.frame().status == 20
    rig.assert_empty()


def test_fc_79_what_was_queued_in_the_turn_of_the_fin_is_sent_elsewhere():
    rig, consumer, (provider,) = served(20880)
    consumer.deliver(request(5))
    provider.finish()
    assert provider.transport.writes == []
    assert len(rig.open().frames()) == 1
    assert consumer.frames() == []


def test_requests_kept_for_a_second_try_are_capped_by_bytes():
    overrides = {SERVICE: ServiceOverride(idempotent=["hi"])}
    rig, consumer, (provider,) = served(
        20880,
        services=Services(overrides=overrides),
        limits=Limits(upstream_buffer=Size(200_000)),
    )
    kept = []
    for number in range(100):
        consumer.send(request(number, argument="x" * 50_000))
        kept = [call for call in consumer.protocol.session.calls if call.frame is not None]
    assert len(kept) == 3
    consumer.send(request(100))
    kept = [call for call in consumer.protocol.session.calls if call.frame is not None]
    assert len(kept) == 4, "small ones are kept still"
    assert len(provider.frames()) == 101
    provider.lose()
    assert len(rig.open().frames()) == 4
    assert {each.status for each in consumer.frames()} == {35}


def test_ordinary_requests_are_let_go_once_written():
    rig, consumer, (_provider,) = served(20880)
    consumer.deliver(request(5))
    (call,) = consumer.protocol.session.calls
    assert call.frame is not None
    rig.loop.turn()
    assert call.frame is None


def test_fc_63_readonly_moves_the_queue_lets_the_rest_finish_and_is_not_answered():
    rig, consumer, (leaving, staying) = served(20880, 20881)
    while len(leaving.protocol.session) < 3:
        consumer.send(request(100))
    in_flight = leaving.frames()
    staying.frames()
    consumer.frames()
    leaving.protocol.pause_writing()
    while len(leaving.protocol.parts) < 2:
        consumer.send(request(200))
    staying.frames()
    leaving.send(bytes.fromhex("dabba2000000000000000009000000020152"))
    assert leaving.transport.writes == [], "no reply to the event"
    assert rig.pool.unavailable == {"127.0.0.1:20880": 1}
    assert len(staying.frames()) == 2, "what was queued goes elsewhere"
    for _ in range(20):
        consumer.send(request(300))
    assert len(leaving.protocol.parts) == 0
    assert len(staying.frames()) == 20
    leaving.protocol.resume_writing()
    leaving.send(*[reply(each.number) for each in in_flight])
    assert [each.status for each in consumer.frames()] == [20, 20, 20]


def test_a_heartbeat_stays_queued_when_the_calls_around_it_move():
    _, consumer, (leaving, staying) = served(20880, 20881)
    leaving.protocol.pause_writing()
    while len(leaving.protocol.parts) < 2:
        consumer.send(request(200))
    leaving.send(heartbeat(77))
    queued = consumer.protocol.session.calls
    next(call for call in queued if call.session is leaving.protocol.session).is_done = True
    staying.frames()
    leaving.send(readonly())
    assert len(staying.frames()) == 1, "what was given up is not moved"
    leaving.protocol.resume_writing()
    assert leaving.frame().raw == heartbeat_reply(77)


def test_fc_63_writeable_makes_it_usable_again():
    rig, consumer, (one, two) = served(20880, 20881)
    one.send(readonly())
    one.send(writeable())
    assert rig.pool.unavailable == {}
    for _ in range(20):
        consumer.send(request(5))
    assert one.transport.writes
    assert two.transport.writes


def test_fc_63_the_only_instance_is_still_used():
    rig, consumer, (provider,) = served(20880)
    provider.send(readonly())
    consumer.send(request(5))
    provider.send(reply(provider.frame().number))
    assert consumer.frame().status == 20
    assert rig.count("sidecar_readonly_override_total") == 1


def test_fc_63_the_only_instance_keeps_what_was_queued_on_it():
    _rig, consumer, (provider,) = served(20880)
    provider.protocol.pause_writing()
    consumer.send(request(5))
    provider.send(readonly())
    provider.protocol.resume_writing()
    assert len(provider.frames()) == 1


def test_fc_63_the_state_is_shared_by_all_services_of_the_address():
    rig, consumer, (leaving, staying) = served(20880, 20881)
    rig.services.publish(20880, 20881, service="com.x.Other")
    leaving.send(readonly())
    for _ in range(10):
        consumer.send(request(5, service="com.x.Other", version=""))
    assert leaving.transport.writes == []
    assert len(staying.frames()) == 10


def test_fc_63_a_new_connection_makes_it_usable_again():
    rig, _consumer, (leaving, _staying) = served(20880, 20881)
    leaving.send(readonly())
    leaving.lose()
    assert rig.pool.unavailable == {"127.0.0.1:20880": 2}, "it said that it would go"
    rig.loop.advance(0.2)
    assert len(rig.connects) == 1
    rig.open()
    assert rig.pool.unavailable == {}


def test_a_writeable_that_was_not_asked_for_changes_nothing():
    rig, _, (provider,) = served(20880)
    provider.send(writeable())
    assert rig.pool.unavailable == {}


def test_a_provider_that_sends_a_lot_waits_for_the_others():
    rig, _consumer, (provider,) = served(20880)
    provider.deliver(frame(0xA2, 0, 7, b"x" * LARGE_READ))
    assert not provider.transport.is_reading
    rig.loop.turn()
    assert provider.transport.is_reading


@pytest.mark.parametrize("question", [heartbeat(77), request(77)])
def test_a_provider_that_asks_and_does_not_read_fills_no_memory(question):
    _rig, _consumer, (provider,) = served(20880)
    provider.protocol.pause_writing()
    for _ in range(20):
        provider.send(*[question] * 1000)
    assert len(provider.protocol.parts) == MAX_QUEUED_PARTS
    provider.protocol.resume_writing()
    assert len(provider.frames()) == MAX_QUEUED_PARTS
    provider.send(question)
    assert provider.frame().number == 77
