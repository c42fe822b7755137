"""The walk of a call, without sockets."""

from __future__ import annotations

import pytest

from sidecar.model import outcome
from sidecar.model.service import ServiceKey
from sidecar.proxy.walk import MAX_ATTEMPTS
from sidecar.settings.schema import Consumer, Limits, ServiceOverride, Services, Upstream
from sidecar.settings.units import Duration, Size
from tests.fixtures.dubbo_frames import FASTJSON2, error, frame, heartbeat, reply, request
from tests.fixtures.proxy_rig import Rig
from tests.fixtures.services import instance
from tests.fixtures.stage import EPOCH

SERVICE = "com.x.Demo:1.0.0"


def connected(*ports, **sections):
    """A consumer and providers with an open connection each."""
    rig = Rig(**sections)
    rig.services.publish(*ports)
    consumer = rig.consumer()
    providers = {}
    for number in range(100):
        if len(providers) == len(ports):
            break
        consumer.send(request(10_000 + number))
        if rig.connects:
            port = rig.connects[0].port
            providers[port] = rig.open()
    for port, provider in providers.items():
        for each in provider.frames():
            provider.send(reply(each.number, str(port)))
    consumer.frames()
    for stats in rig.counters.methods.values():
        stats.outcomes[:] = [0] * outcome.COUNT
        stats.duration_sum = 0.0
    return rig, consumer, [providers[port] for port in ports]


def test_a_call_goes_out_under_a_new_id_and_comes_back_under_its_own():
    rig = Rig()
    rig.services.publish(20880)
    consumer = rig.consumer()
    raw = request(-1, timeout="1000")
    consumer.send(raw)
    provider = rig.open(20880)
    forwarded = provider.frame()
    assert forwarded.raw[:4] == raw[:4]
    assert forwarded.raw[12:] == raw[12:], "nothing but the id changes"
    provider.send(reply(forwarded.number))
    answer = consumer.frame()
    assert answer.raw == reply(-1)
    assert rig.outcomes() == {"ok": 1}
    rig.assert_empty()


def test_same_ids_of_two_consumers_do_not_mix():
    rig, one, (provider,) = connected(20880)
    two = rig.consumer()
    one.send(request(7, argument="one"))
    two.send(request(7, argument="two"))
    first, second = provider.frames()
    assert first.number != second.number
    provider.send(reply(second.number, "for two"), reply(first.number, "for one"))
    assert one.frame().value == "for one"
    assert two.frame().value == "for two"
    rig.assert_empty()


def test_calls_of_one_turn_leave_in_one_write():
    rig, consumer, (provider,) = connected(20880)
    other = rig.consumer()
    consumer.deliver(request(1), request(2))
    other.deliver(request(1))
    rig.loop.turn()
    assert len(provider.transport.writes) == 1
    frames = provider.frames()
    assert len(frames) == 3
    provider.send(*[reply(each.number) for each in frames])
    assert [len(end.transport.writes) for end in (consumer, other)] == [1, 1]


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
        (lambda n: reply(n), "ok"),
        (lambda n: frame(0x02, 20, n, b"\x93\x4eHZ"), "business_error"),
        (lambda n: error(n, 70, "no provider"), "provider_error"),
        (lambda n: error(n, 100, "pool"), "provider_error"),
        (lambda n: error(n, 31, "slow"), "timeout"),
    ],
)
def test_outcomes_are_counted_once(sent, counted):
    rig, consumer, (provider,) = connected(20880)
    consumer.send(request(5))
    provider.send(sent(provider.frame().number))
    assert consumer.frame().raw == sent(5)
    assert rig.outcomes() == {counted: 1}
    rig.assert_empty()


def test_durations_are_measured_from_arrival_to_reply():
    rig, consumer, (provider,) = connected(20880)
    consumer.send(request(5))
    number = provider.frame().number
    rig.loop.advance(0.2)
    provider.send(reply(number))
    stats = rig.counters.methods["dubbo", SERVICE, "hi"]
    assert stats.duration_sum == pytest.approx(0.2)


# Deadlines


def test_a_deadline_is_answered_31_and_the_late_answer_dropped():
    rig, consumer, (provider,) = connected(20880)
    consumer.send(request(5, timeout="100"))
    number = provider.frame().number
    rig.loop.advance(0.095)
    assert consumer.frames() == []
    rig.loop.advance(0.04)
    answer = consumer.frame()
    assert (answer.status, answer.number) == (31, 5)
    assert answer.message.startswith(f"TIMEOUT {SERVICE}: no answer in 1")
    provider.send(reply(number))
    assert consumer.frames() == []
    assert rig.count("sidecar_late_replies_total", "late") == 1
    assert rig.outcomes() == {"timeout": 1}
    rig.assert_empty()


def test_an_answer_past_the_deadline_is_dropped_although_the_timer_has_not_run():
    rig, consumer, (provider,) = connected(20880)
    consumer.send(request(5, timeout="100"))
    number = provider.frame().number
    rig.loop.now += 0.1005
    provider.send(reply(number))
    answer = consumer.frame()
    assert answer.status == 31
    assert rig.count("sidecar_late_replies_total", "past_deadline") == 1
    rig.loop.advance(1.0)
    assert consumer.frames() == []
    assert rig.outcomes() == {"timeout": 1}
    rig.assert_empty()


def test_a_call_that_nobody_limits_is_not_remembered_for_ever():
    upstream = Upstream(reconnect_after=Duration(3600.0))
    rig, consumer, (provider,) = connected(20880, upstream=upstream)
    consumer.send(request(5), request(6))
    number, _ = [each.number for each in provider.frames()]
    rig.loop.advance(595.0)
    provider.send(reply(number))
    assert consumer.frame().status == 20, "patient consumers get their answers"
    rig.loop.advance(6.0)
    answer = consumer.frame()
    assert (answer.number, answer.status) == (6, 31)
    rig.assert_empty()


def test_the_provider_s_method_timeout_applies_when_the_consumer_has_none():
    rig = Rig()
    rig.services.publish(20880, timeout_ms=5000, method_timeouts={"hi": 200})
    consumer = rig.consumer()
    consumer.send(request(5))
    rig.open()
    rig.loop.advance(0.25)
    assert consumer.frame().status == 31
    rig.assert_empty()


def test_time_spent_connecting_counts():
    rig = Rig()
    rig.services.publish(20880)
    consumer = rig.consumer()
    consumer.send(request(5, timeout="100"))
    rig.loop.advance(0.14)
    assert consumer.frame().status == 31
    provider = rig.open()
    assert provider.frames() == [], "a call that is over is not sent"
    rig.assert_empty()


# One-way calls


def test_fc_61_one_way_call_is_forwarded_and_forgotten():
    rig, consumer, (provider,) = connected(20880)
    consumer.send(request(5, two_way=False, timeout="100"))
    forwarded = provider.frame()
    assert forwarded.flags == 0x82
    rig.assert_empty()
    provider.send(reply(forwarded.number))
    rig.loop.advance(5.0)
    assert consumer.frames() == []
    assert rig.count("sidecar_oneway_sent_total") == 1
    assert rig.outcomes() == {}, "not in the success rate"


@pytest.mark.parametrize(
    ("raw", "token"),
    [
        (request(5, two_way=False, service="com.x.Empty", version=""), "EMPTY_REGISTRY"),
        (request(5, two_way=False, sys_callback_ARG0="1"), "UNSUPPORTED"),
        (frame(0x9D, 0, 5, b"{}"), "UNSUPPORTED"),
        (frame(0x82, 0, 5, b"\x05"), "BAD_REQUEST"),
        (frame(0x82, 0, 5, b"x" * 3000), "PAYLOAD_TOO_LARGE"),
    ],
)
def test_fc_61_one_way_call_never_gets_a_reply(raw, token):
    rig, consumer, _ = connected(20880, limits=Limits(max_payload=Size(2000)))
    rig.services.publish(service="com.x.Empty")
    consumer.send(raw)
    rig.loop.advance(10.0)
    assert consumer.frames() == []
    assert rig.count("sidecar_oneway_dropped_total", token) == 1
    rig.assert_empty()


def test_fc_61_a_one_way_call_whose_service_never_comes_is_dropped():
    rig = Rig()
    consumer = rig.consumer()
    consumer.send(request(5, two_way=False))
    assert rig.resolved == [SERVICE]
    rig.loop.advance(4.0)
    assert consumer.frames() == []
    assert rig.count("sidecar_oneway_dropped_total", "REGISTRY_UNAVAILABLE") == 1
    rig.assert_empty()


# Refusals


@pytest.mark.parametrize("number", [42, 0, -1, 2**63 - 1])
def test_fc_53_local_reply_carries_the_caller_s_id(number):
    rig = Rig()
    rig.services.publish(service="t.Echo:1.0")
    consumer = rig.consumer()
    consumer.send(request(number, service="t.Echo", version="1.0", method="say"))
    answer = consumer.frame()
    assert answer.raw[4:12] == (number % 2**64).to_bytes(8, "big")
    assert answer.status == 60
    assert answer.message.startswith("EMPTY_REGISTRY t.Echo")
    assert rig.counters.no_eligible == {("_unknown", "EMPTY_REGISTRY"): 1}


def test_nothing_eligible_as_an_exception():
    rig = Rig(no_provider_reply="exception")
    rig.services.publish()
    consumer = rig.consumer()
    consumer.send(request(5))
    answer = consumer.frame()
    assert (answer.status, answer.flags, answer.body[0]) == (20, 2, 0x93)
    assert b"org.apache.dubbo.rpc.RpcException" in answer.body


def test_a_call_with_a_forced_tag_that_nobody_has():
    rig = Rig()
    rig.services.publish(20880)
    consumer = rig.consumer()
    consumer.send(request(5, dubbo__tag="gray", dubbo__force__tag="true"))
    assert consumer.frame().message.startswith("TAG_FORCED_EMPTY com.x.Demo:1.0.0: ")
    assert rig.counters.no_eligible == {(SERVICE, "TAG_FORCED_EMPTY"): 1}
    assert rig.outcomes() == {"no_provider": 1}


def test_callback_parameters_are_refused():
    _rig, consumer, _ = connected(20880)
    consumer.send(request(5, sys_callback_ARG0="1"))
    answer = consumer.frame()
    assert answer.status == 40
    assert answer.message.startswith(f"UNSUPPORTED {SERVICE}: callback")


def test_an_undecodable_request_is_refused_and_the_link_stays():
    rig, consumer, (provider,) = connected(20880)
    consumer.send(frame(0xC2, 0, 5, b"\x052.0.2\x03abc"), request(6))
    answer = consumer.frame()
    assert (answer.status, answer.number) == (40, 5)
    assert answer.message.startswith("BAD_REQUEST: ")
    assert not consumer.is_closed
    assert len(provider.frames()) == 1
    assert rig.outcomes("_unknown", "_other") == {"codec_error": 1}


def test_fc_60_unknown_serialization_is_refused_with_its_number():
    rig, consumer, _ = connected(20880)
    consumer.send(bytes.fromhex("dabbdd00000000000000002b00000007") + b'{"a":1}')
    answer = consumer.frame()
    assert (answer.status, answer.number, answer.flags) == (40, 43, 2)
    assert answer.message.startswith("UNSUPPORTED: ")
    assert "29" in answer.message
    assert rig.count("sidecar_unparsed_total", "29") == 1
    assert not consumer.is_closed
    consumer.send(frame(0xFD, 0, 44, b"null"))
    assert consumer.frame().raw == frame(0x3D, 20, 44, b"null")


def test_fc_60_default_service_passes_unknown_serialization_through():
    rig = Rig(consumer=Consumer(tag="gray"))
    rig.services.publish(20880, token="secret", path="/other")
    consumer = rig.consumer(default_service=SERVICE)
    raw = frame(0xDD, 0, 43, b'{"a":1}')
    consumer.send(raw)
    provider = rig.open()
    forwarded = provider.frame()
    assert (forwarded.raw[:4], forwarded.body) == (raw[:4], b'{"a":1}'), "nothing is appended"
    provider.send(frame(0x1D, 20, forwarded.number, b"answer"))
    assert consumer.frame().raw == frame(0x1D, 20, 43, b"answer")
    assert rig.outcomes(method="_other") == {"ok": 1}
    assert rig.count("sidecar_unparsed_total", "29") == 0


def test_fastjson2_calls_are_routed():
    body = bytes.fromhex(
        "000000064e322e302e320000000b53636f6d2e782e44656d6f000000064e312e302e30000000054d70696e67"
        "000000014900000021a64d7061746853636f6d2e782e44656d6f52647562626f2e7461674d67726179a5"
    )
    rig = Rig()
    rig.services.publish(20880, tag="gray")
    consumer = rig.consumer()
    consumer.send(frame(0xC0 | FASTJSON2, 0, 12, body))
    assert rig.open().frame().body == body


def test_fc_55_oversize_request_is_refused_by_its_header_and_the_link_stays():
    rig, consumer, (provider,) = connected(20880, limits=Limits(max_payload=Size(8 << 20)))
    header = frame(0xC2, 0, 5, b"")[:12] + (8_388_609).to_bytes(4, "big")
    consumer.send(header)
    answer = consumer.frame()
    assert (answer.status, answer.number) == (40, 5)
    assert answer.message == "PAYLOAD_TOO_LARGE: the request has 8388609 bytes"
    for _ in range(8):
        consumer.send(b"\xda\xbb" * (1 << 19))
    consumer.send(b"x" + request(6))
    assert provider.frame().is_request
    assert consumer.frames() == []
    assert rig.count("sidecar_oversize_total", "request") == 1


def test_what_a_provider_would_not_read_is_not_sent_to_it():
    rig = Rig()
    rig.services.publish(20880, parameters={"payload": "300"})
    consumer = rig.consumer()
    consumer.send(request(5, argument="x" * 400))
    answer = consumer.frame()
    assert (answer.status, answer.number) == (40, 5)
    assert answer.message.startswith(f"PAYLOAD_TOO_LARGE {SERVICE}: the request has ")
    assert answer.message.endswith(" the provider reads 300")
    assert rig.connects == []
    assert rig.count("sidecar_oversize_total", "request") == 1
    consumer.send(request(6))
    assert rig.open().frame().is_request


def test_an_oversize_reply_is_answered_50_and_discarded():
    rig, consumer, (provider,) = connected(20880, limits=Limits(max_payload=Size(2000)))
    consumer.send(request(5), request(6))
    first, second = provider.frames()
    provider.send(frame(0x02, 20, first.number, b"\x91" + b"y" * 5000), reply(second.number))
    refused, good = sorted(consumer.frames(), key=lambda each: each.number)
    assert (refused.status, refused.number) == (50, 5)
    assert refused.message.startswith(f"PAYLOAD_TOO_LARGE {SERVICE}: ")
    assert (good.status, good.number) == (20, 6)
    assert not provider.is_closed
    assert rig.count("sidecar_oversize_total", "response") == 1
    rig.assert_empty()


def test_too_many_calls_of_one_consumer_are_refused():
    _rig, consumer, (provider,) = connected(20880, limits=Limits(max_inflight_per_consumer=2))
    consumer.send(*[request(number) for number in range(5)])
    refused = consumer.frames()
    assert [each.number for each in refused] == [2, 3, 4]
    assert all(each.overload.startswith(f"OVERLOADED {SERVICE}: ") for each in refused)
    provider.send(*[reply(each.number) for each in provider.frames()])
    assert [each.number for each in consumer.frames()] == [0, 1]
    consumer.send(request(9))
    assert len(provider.frames()) == 1


# Waiting for the registry


def test_the_first_call_asks_for_its_service_and_waits():
    rig = Rig()
    consumer = rig.consumer()
    consumer.send(request(1), request(2))
    rig.consumer().send(request(1))
    assert rig.resolved == [SERVICE], "concurrent calls share one subscription"
    assert len(rig.walk.waiting) == 3
    rig.services.publish(20880)
    rig.wake(SERVICE)
    assert len(rig.open().frames()) == 3
    assert len(rig.walk.waiting) == 0


def test_a_service_that_is_known_by_the_end_of_the_question_does_not_wait():
    rig = Rig()
    rig.on_resolve = lambda service: rig.services.publish(20880)
    rig.consumer().send(request(1))
    assert len(rig.open().frames()) == 1


def test_a_failed_service_is_refused_at_once_and_its_waiters_when_it_fails():
    rig = Rig()
    consumer = rig.consumer()
    consumer.send(request(1))
    rig.services.fail("UNKNOWN_SERVICE")
    rig.wake(SERVICE)
    assert consumer.frame().message.startswith(f"UNKNOWN_SERVICE {SERVICE}: ")
    consumer.send(request(2))
    assert consumer.frame().status == 60
    assert rig.counters.no_eligible == {("_unknown", "UNKNOWN_SERVICE"): 2}
    rig.assert_empty()


def test_a_spurious_wake_lets_the_calls_wait_on():
    rig = Rig()
    consumer = rig.consumer()
    consumer.send(request(1))
    rig.loop.advance(2.0)
    rig.wake(SERVICE)
    assert len(rig.walk.waiting) == 1
    rig.loop.advance(1.1)
    assert consumer.frame().status == 60, "the time before the wake counts"
    rig.assert_empty()


def test_waiting_ends_with_services_wait():
    rig = Rig(services=Services(wait=Duration(0.5)))
    rig.services.watch()
    consumer = rig.consumer()
    consumer.send(request(1, timeout="5000"))
    rig.loop.advance(0.49)
    assert consumer.frames() == []
    rig.loop.advance(0.05)
    assert consumer.frame().message.startswith(f"REGISTRY_UNAVAILABLE {SERVICE}: ")
    rig.assert_empty()


def test_waiting_ends_with_the_consumer_s_own_deadline():
    rig = Rig()
    consumer = rig.consumer()
    consumer.send(request(1, timeout="200"))
    rig.loop.advance(0.25)
    assert consumer.frame().status == 31
    rig.assert_empty()


def test_time_spent_waiting_counts_for_the_deadline():
    rig = Rig()
    consumer = rig.consumer()
    consumer.send(request(1, timeout="1000"))
    rig.loop.advance(0.8)
    rig.services.publish(20880)
    rig.wake(SERVICE)
    rig.open()
    rig.loop.advance(0.19)
    assert consumer.frames() == []
    rig.loop.advance(0.05)
    assert consumer.frame().status == 31
    rig.assert_empty()


def test_too_many_waiting_calls_are_refused():
    rig = Rig(services=Services(max_waiting=2))
    consumer = rig.consumer()
    consumer.send(*[request(number) for number in range(4)])
    assert [each.number for each in consumer.frames() if each.overload] == [2, 3]


def test_a_service_that_may_not_be_watched_is_refused_at_once():
    rig = Rig(services=Services(max_services=1))
    rig.services.publish(20880)
    consumer = rig.consumer()
    consumer.send(request(1, service="com.x.Surplus", version=""))
    answer = consumer.frame()
    assert (answer.status, answer.number) == (60, 1)
    assert answer.message == "UNKNOWN_SERVICE com.x.Surplus: the service is not watched"
    assert rig.resolved == ["com.x.Surplus"]
    rig.assert_empty()


def test_without_on_demand_an_unlisted_service_is_unknown():
    rig = Rig(services=Services(on_demand=False))
    consumer = rig.consumer()
    consumer.send(request(1))
    assert consumer.frame().message.startswith(f"UNKNOWN_SERVICE {SERVICE}: ")
    assert rig.resolved == []


def test_without_on_demand_a_listed_service_is_waited_for():
    rig = Rig(services=Services(on_demand=False))
    rig.services.watch()
    rig.consumer().send(request(1))
    assert len(rig.walk.waiting) == 1


# Consumers that go away


def test_calls_of_a_consumer_that_went_away_are_given_up():
    rig, consumer, (provider,) = connected(20880)
    consumer.send(request(1), request(2, timeout="1000"))
    frames = provider.frames()
    waiting = request(3, service="com.x.Later")
    consumer.send(waiting)
    consumer.lose()
    assert rig.outcomes() == {"cancelled": 2}
    rig.assert_empty()
    provider.send(*[reply(each.number) for each in frames])
    assert rig.count("sidecar_late_replies_total", "late") == 2
    assert rig.forwarder.consumers == set()


def test_a_parked_call_of_a_consumer_that_went_away_is_not_sent():
    rig = Rig()
    rig.services.publish(20880)
    consumer = rig.consumer()
    consumer.send(request(1))
    consumer.lose()
    assert rig.open().frames() == []
    rig.assert_empty()


def test_a_queued_call_of_a_consumer_that_went_away_is_left_out():
    rig, consumer, (provider,) = connected(20880)
    other = rig.consumer()
    consumer.deliver(request(1))
    other.deliver(request(2))
    consumer.protocol.connection_lost(None)
    assert len(provider.frames()) == 1


def test_a_turn_in_which_all_queued_calls_were_given_up_writes_nothing():
    rig, consumer, (provider,) = connected(20880)
    consumer.deliver(request(1))
    consumer.protocol.connection_lost(None)
    rig.loop.turn()
    assert provider.transport.writes == []


# Stopping


def test_a_closing_forwarder_refuses_new_calls():
    rig, consumer, (provider,) = connected(20880)
    consumer.send(request(1))
    rig.surroundings.is_closing = True
    consumer.send(request(2), heartbeat(3))
    refused, alive = consumer.frames()
    assert refused.status == 100
    assert refused.message.startswith(f"SHUTTING_DOWN {SERVICE}: ")
    assert alive.is_event
    provider.send(reply(provider.frame().number))
    assert consumer.frame().status == 20


# The time of day


def test_warm_up_follows_a_clock_that_is_set_forward_and_not_one_that_is_set_back():
    rig = Rig()
    now_ms = int(EPOCH * 1000)
    key = ServiceKey.parse(SERVICE)
    old = instance(20880, key, started_ms=now_ms - 86_400_000, warmup_ms=600_000)
    young = instance(20881, key, started_ms=now_ms + 3_000_000, warmup_ms=600_000)
    rig.services.publish_instances([old, young])
    consumer = rig.consumer()

    def share_of_young(calls=200):
        consumer.send(*[request(number) for number in range(calls)])
        while rig.connects:
            providers.append(rig.open())
        return len([each for end in providers[1:] for each in end.frames()]) / calls

    providers = []
    assert share_of_young() < 0.05, "it seems to start in the future"
    rig.surroundings.set_wall_offset(EPOCH + 3600.0 - rig.loop.now)
    assert share_of_young() > 0.4
    rig.surroundings.set_wall_offset(EPOCH - rig.loop.now)
    assert share_of_young() > 0.4


# Last resorts


def test_when_every_address_refuses_the_call_gets_80():
    rig = Rig()
    rig.services.publish(20880, 20881)
    consumer = rig.consumer()
    consumer.send(request(1))
    rig.refuse()
    assert consumer.frames() == [], "tried on the other instance silently"
    rig.refuse()
    answer = consumer.frame()
    assert answer.status == 80
    assert answer.message.startswith(f"CONNECT_FAILED {SERVICE}: ")
    assert rig.outcomes() == {"connect_error": 1}
    rig.assert_empty()


def test_the_next_call_soon_after_gets_80_without_another_attempt():
    rig = Rig()
    rig.services.publish(20880)
    consumer = rig.consumer()
    consumer.send(request(1))
    rig.refuse()
    consumer.frames()
    consumer.send(request(2))
    assert consumer.frame().status == 80
    assert rig.connects == []


def test_the_only_instance_is_tried_again_by_a_later_call():
    rig = Rig()
    rig.services.publish(20880)
    consumer = rig.consumer()
    consumer.send(request(1))
    for _ in range(8):
        rig.refuse()
        rig.loop.advance(0.3)
        consumer.frames()
        consumer.send(request(2))
        rig.connects[:] = rig.connects[:1]
    assert len(rig.open().frames()) == 1
    consumer.send(request(3))
    assert rig.connects == []


def test_attempts_of_one_call_are_capped():
    rig = Rig()
    rig.services.publish(*range(20880, 20980))
    consumer = rig.consumer()
    consumer.send(request(1))
    refusals = 0
    while rig.connects:
        rig.refuse()
        refusals += 1
    assert refusals == MAX_ATTEMPTS
    answer = consumer.frame()
    assert answer.status == 80
    assert answer.message.startswith(f"CONNECT_FAILED {SERVICE}: no connection to any of 8 inst")
    rig.assert_empty()
    consumer.send(request(2))
    assert f"127.0.0.1:{rig.connects[0].port}" not in rig.pool.unavailable


def test_full_addresses_count_as_attempts():
    rig, consumer, providers = connected(
        *range(20880, 20892), limits=Limits(upstream_buffer=Size(400))
    )
    for provider in providers:
        provider.protocol.pause_writing()
        provider.protocol.queued_bytes = 400
    consumer.send(request(1))
    answer = consumer.frame()
    assert answer.overload.startswith(f"OVERLOADED {SERVICE}: too many calls wait for any of 8 ")
    rig.assert_empty()


def test_a_slow_provider_s_calls_go_elsewhere_and_then_are_refused():
    rig, consumer, (one, two) = connected(20880, 20881, limits=Limits(upstream_buffer=Size(400)))
    for provider in (one, two):
        provider.protocol.pause_writing()
    consumer.send(*[request(number) for number in range(20)])
    refused = consumer.frames()
    assert all(each.overload for each in refused)
    queued = [len(provider.protocol.parts) for provider in (one, two)]
    assert min(queued) >= 2
    assert sum(queued) + len(refused) == 20
    assert all(provider.protocol.queued_bytes < 800 for provider in (one, two))
    for provider in (one, two):
        provider.protocol.resume_writing()
        provider.send(*[reply(each.number) for each in provider.frames()])
    assert len(consumer.frames()) == sum(queued)
    rig.assert_empty()


def test_an_idempotent_method_is_sent_once_more_after_a_lost_connection():
    overrides = {SERVICE: ServiceOverride(idempotent=["hi"])}
    rig, consumer, (one, two) = connected(20880, 20881, services=Services(overrides=overrides))
    consumer.send(request(1))
    first, second = (one, two) if one.transport.writes else (two, one)
    assert len(first.frames()) == 1
    first.lose()
    assert consumer.frames() == []
    assert len(second.frames()) == 1
    second.lose()
    answer = consumer.frame()
    assert answer.status == 35
    assert rig.outcomes() == {"connection_lost": 1}
    rig.assert_empty()


@pytest.mark.parametrize(
    ("attachments", "limit"),
    [({"timeout": "700"}, 700), ({"timeout": "0"}, 600_000), ({}, 600_000)],
)
def test_the_consumer_s_limit_counts_and_one_that_nobody_limits_ends_after_ten_minutes(
    attachments, limit
):
    rig = Rig()
    consumer = rig.consumer()
    rig.services.publish(20880)
    consumer.send(request(1, **attachments))
    rig.open()
    rig.loop.advance((limit - 1) / 1000)
    assert consumer.frames() == []
    rig.loop.advance(0.1)
    assert consumer.frame().status == 31
