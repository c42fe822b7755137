"""A provider's HTTP/2 connection: what it refuses, how it leaves, whether it lives."""

from __future__ import annotations

import pytest

from sidecar.proxy.link import LARGE_READ
from sidecar.proxy.triple.upstream import STILL
from sidecar.settings.schema import Http2, Limits, ServiceOverride, Services, Upstream
from sidecar.settings.units import Duration, Size
from tests.fixtures.http2_peers import GOAWAY, PING, frame
from tests.fixtures.triple_rig import SERVICE, Rig, connected

LAST = (1 << 31) - 1
CLOSED = "sidecar_upstream_closed_total"
RETRIES = "sidecar_retries_total"
REFUSED_STREAM = 7
ONCE_MORE = Services(overrides={SERVICE: ServiceOverride(idempotent=["again"])})


def sent(*ports, path="/com.x.Demo/hi", body=b"body", end=True, **sections):
    """A call at its provider: the rig, the consumer and its stream, the provider and its stream."""
    rig, consumer, providers = connected(*ports, **sections)
    stream = consumer.ask(path, body=body, end=end)
    rig.settle()
    (provider,) = [each for each in providers if each.protocol.calls]
    return rig, consumer, stream, provider, provider.request()


def other(rig, provider):
    """The provider of the rig that is not this one."""
    (found,) = [end for end in rig.ends if getattr(end, "port", 0) not in (0, provider.port)]
    return found


# The beginning


@pytest.mark.parametrize(("window", "first"), [(300_000, 65_535), (30_000, 30_000)])
def test_a_provider_is_told_the_limits(window, first):
    rig, _, (provider,) = connected(
        20880, http2=Http2(stream_window=Size(window), connection_window=Size(500_000))
    )
    told = provider.connection.remote_settings
    assert (told[2], told[4], told[6]) == (0, first, 65_536)
    assert 3 not in told or told[3] > 1000
    provider.connection.ping()
    rig.settle()
    assert provider.connection.remote_window_size == 500_000


def test_a_large_read_lets_the_others_be_read_first():
    rig, consumer, (provider,) = connected(20880)
    consumer.connection.set_local_window_size(1 << 20)
    streams = [consumer.ask() for _ in range(3)]
    rig.settle()
    for request in provider.requests():
        provider.head(request)
        provider.data(request, b"x" * (LARGE_READ // 3 + 1))
    provider.push()
    assert not provider.transport.is_reading
    rig.loop.turn()
    assert provider.transport.is_reading
    rig.settle()
    assert sum(len(stream.body) for stream in streams) > LARGE_READ


# Refused streams


@pytest.mark.parametrize("body", [b"", b"x" * 60_000])
def test_a_refused_stream_goes_to_another_instance(body):
    rig, _, stream, provider, request = sent(20880, 20881, body=body)
    provider.reset(request, REFUSED_STREAM)
    rig.settle()
    second = other(rig, provider).request()
    assert (second.body, second.is_ended) == (body, True)
    other(rig, provider).answer(second, b"here")
    rig.settle()
    assert (stream.body, stream.status) == (b"here", 0)
    assert rig.outcomes() == {"ok": 1}
    assert rig.count(RETRIES, "refused") == 1
    rig.assert_empty()


def test_a_refused_stream_goes_on_where_it_goes_with_what_comes_later():
    rig, consumer, stream, provider, request = sent(20880, 20881, body=b"one", end=False)
    provider.reset(request, REFUSED_STREAM)
    rig.settle()
    second = other(rig, provider).request()
    consumer.data(stream, b"two")
    consumer.trailers(stream, [(b"x-sum", b"7")])
    rig.settle()
    assert (second.body, second.is_ended) == (b"onetwo", True)
    assert second.trailers == ((b"x-sum", b"7"),)
    assert rig.ledgers[0].owed == 0


def test_a_refused_stream_that_waits_again_keeps_all_that_comes():
    rig, consumer, stream, provider, _ = sent(
        20880, body=b"x" * 100, end=False, http2=Http2(replay=Size(1000))
    )
    provider.goaway(0)
    rig.settle()
    for _ in range(5):
        consumer.data(stream, b"y" * 300)
        rig.settle()
    assert rig.pool.endpoints["127.0.0.1:20880"].parked == 1
    second = rig.open().request()
    assert second.body == b"x" * 100 + b"y" * 1500


def test_request_trailers_are_sent_again():
    rig, consumer, stream, provider, request = sent(20880, 20881, body=b"one", end=False)
    consumer.trailers(stream, [(b"x-sum", b"7")])
    rig.settle()
    provider.reset(request, REFUSED_STREAM)
    rig.settle()
    second = other(rig, provider).request()
    assert (second.body, second.trailers) == (b"one", ((b"x-sum", b"7"),))


def test_a_refused_stream_whose_request_is_too_large_to_keep_is_unavailable():
    rig, _, stream, provider, request = sent(20880, 20881, body=b"x" * 66_000)
    provider.reset(request, REFUSED_STREAM)
    rig.settle()
    assert stream.status == 14
    assert stream.message.endswith("the provider reset the stream with code 7")
    assert other(rig, provider).requests() == []
    rig.assert_empty()


def test_what_is_kept_is_limited_for_a_request_that_comes_in_pieces():
    rig, consumer, stream, provider, request = sent(
        20880, 20881, body=b"x" * 100, end=False, http2=Http2(replay=Size(1000))
    )
    for _ in range(10):
        consumer.data(stream, b"x" * 100)
        rig.settle()
    provider.reset(request, REFUSED_STREAM)
    rig.settle()
    assert stream.status == 14
    rig.assert_empty()


def test_a_stream_is_not_refused_after_its_head_was_seen():
    rig, _, stream, provider, request = sent(20880, 20881)
    provider.head(request)
    rig.settle()
    provider.reset(request, REFUSED_STREAM)
    rig.settle()
    assert stream.status == 14
    assert other(rig, provider).requests() == []
    rig.assert_empty()


def test_a_stream_that_is_refused_everywhere_is_unavailable():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask()
    for _ in range(100):
        rig.settle()
        for each in provider.requests():
            provider.reset(each, REFUSED_STREAM)
    assert stream.status == 14
    assert rig.outcomes() == {"provider_error": 1}
    rig.assert_empty()


def test_window_is_returned_once_for_what_is_sent_twice():
    rig, consumer, stream, provider, request = sent(20880, 20881, body=b"x" * 1000, end=False)
    assert rig.ledgers[0].owed == 0
    provider.reset(request, REFUSED_STREAM)
    rig.settle()
    consumer.data(stream, b"y" * 500, end=True)
    rig.settle()
    second = other(rig, provider).request()
    assert second.body == b"x" * 1000 + b"y" * 500
    other(rig, provider).answer(second)
    rig.settle()
    assert stream.status == 0
    rig.assert_empty()


def test_window_is_returned_once_when_the_first_provider_took_a_part():
    rig, consumer, (one, two) = connected(20880, 20881, http2=Http2(replay=Size(1 << 20)))
    one.reads = two.reads = False
    stream = consumer.ask(body=b"x" * 100_000, end=False)
    rig.settle()
    provider = one if one.streams and list(one.streams.values())[-1].body else two
    ledger = rig.ledgers[0]
    assert ledger.owed == 100_000 - 65_535
    provider.reset(provider.request(), REFUSED_STREAM)
    rig.settle()
    assert ledger.owed == 100_000 - 65_535, "the other one has taken as much, and no more"
    second = other(rig, provider)
    request = second.request()
    second.read(request)
    rig.settle()
    assert ledger.owed == 0
    assert request.body == b"x" * 100_000
    second.answer(request)
    rig.settle()
    assert stream.status == 0
    rig.assert_empty()


# Lost connections


def test_a_call_that_has_not_left_goes_elsewhere_when_the_connection_is_lost():
    rig, consumer, providers = connected(20880, 20881)
    stream = consumer.ask(body=b"x")
    consumer.push()
    (provider,) = [each for each in providers if each.protocol.calls]
    provider.lose()
    rig.settle()
    second = other(rig, provider)
    request = second.request()
    assert request.body == b"x"
    second.answer(request)
    rig.settle()
    assert stream.status == 0
    assert rig.outcomes() == {"ok": 1}
    rig.assert_empty()


def test_a_call_that_has_left_is_lost_with_its_connection():
    rig, _, stream, provider, _ = sent(20880, 20881)
    provider.lose()
    rig.settle()
    assert stream.status == 14
    assert stream.message.startswith("CONNECTION_LOST")
    assert other(rig, provider).requests() == []
    assert rig.outcomes() == {"connection_lost": 1}
    assert rig.count(CLOSED, "peer") == 1
    rig.assert_empty()


def test_an_idempotent_call_is_sent_once_more_and_no_more():
    rig, _, stream, provider, _ = sent(20880, 20881, path="/com.x.Demo/again", services=ONCE_MORE)
    provider.lose()
    rig.settle()
    second = other(rig, provider)
    assert second.request().body == b"body"
    assert rig.count(RETRIES, "idempotent") == 1
    second.lose()
    rig.settle()
    assert stream.status == 14
    assert rig.outcomes(method="again") == {"connection_lost": 1}
    rig.assert_empty()


def test_an_idempotent_call_is_not_sent_again_after_its_head_was_seen():
    rig, _, stream, provider, request = sent(
        20880, 20881, path="/com.x.Demo/again", services=ONCE_MORE
    )
    provider.head(request)
    rig.settle()
    provider.lose()
    rig.settle()
    assert stream.status == 14
    assert other(rig, provider).requests() == []
    rig.assert_empty()


def test_an_idempotent_call_is_not_sent_again_when_it_was_too_large_to_keep():
    rig, _, stream, provider, _ = sent(
        20880, 20881, path="/com.x.Demo/again", services=ONCE_MORE, body=b"x" * 70_000
    )
    provider.lose()
    rig.settle()
    assert stream.status == 14
    assert rig.count(RETRIES, "idempotent") == 0
    rig.assert_empty()


def test_an_answered_call_is_not_touched_when_the_connection_is_lost():
    rig, consumer, stream, provider, request = sent(20880)
    consumer.reads = False
    provider.answer(request, b"x" * 100_000)
    rig.settle()
    provider.lose()
    rig.settle()
    consumer.reads = True
    consumer.read_all()
    rig.settle()
    assert (len(stream.body), stream.status) == (100_000, 0)
    assert rig.outcomes() == {"ok": 1}
    rig.assert_empty()


# GOAWAY


def test_fc_68_a_two_phase_goaway_loses_no_stream():
    rig, consumer, providers = connected(20880)
    (first,) = providers
    streams = [consumer.ask(body=b"%d" % n) for n in range(3)]
    rig.settle()
    one, three, five = first.requests()
    first.goaway(LAST)
    first.connection.ping()
    rig.settle()
    later = consumer.ask(body=b"later")
    rig.settle()
    assert first.requests() == []
    second = rig.open()
    assert second.request().body == b"later"
    first.goaway(three.id)
    rig.settle()
    again = second.request()
    assert again.body == five.body == b"2"
    for provider, request in ((first, one), (first, three), (second, again)):
        provider.answer(request)
    rig.settle()
    assert [stream.status for stream in streams] == [0, 0, 0]
    assert later.status == -1
    assert first.is_closed
    assert rig.count(CLOSED, "left") == 1
    assert rig.count(RETRIES, "refused") == 1
    for each in list(second.streams.values()):
        if not each.closed and each is not again:
            second.answer(each)
    rig.settle()
    rig.assert_empty()


def test_fc_68_a_stream_above_the_last_id_whose_request_was_not_kept_is_unavailable():
    rig, consumer, (first,) = connected(20880)
    small, large = consumer.ask(), consumer.ask(body=b"x" * 70_000)
    rig.settle()
    one, _ = first.requests()
    first.goaway(one.id)
    rig.settle()
    assert large.status == 14
    first.answer(one)
    rig.settle()
    assert small.status == 0
    rig.assert_empty()


def test_calls_that_wait_for_a_stream_get_another_connection_when_the_provider_leaves():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    streams = [consumer.ask() for _ in range(2)]
    rig.settle()
    first = rig.open(max_streams=1)
    rig.settle()
    first.goaway(LAST)
    rig.settle()
    second = rig.open()
    (waited,) = second.requests()
    second.answer(waited)
    for each in first.requests():
        if each.closed is None:
            first.answer(each)
    rig.settle()
    assert [stream.status for stream in streams] == [0, 0]
    rig.assert_empty()


def test_a_connection_that_the_provider_leaves_is_closed_when_its_last_stream_is_over():
    rig, _, stream, provider, request = sent(20880)
    provider.goaway(LAST)
    rig.settle()
    provider.answer(request)
    rig.settle()
    assert stream.status == 0
    assert provider.is_closed
    assert rig.count(CLOSED, "left") == 1
    assert rig.links == []
    rig.assert_empty()


# What a provider breaks


def test_a_provider_that_breaks_the_rules_is_given_up():
    rig, _, stream, provider, _ = sent(20880)
    provider.raw(frame(PING, 0, 3, b"12345678"))
    rig.settle()
    assert provider.is_closed
    assert stream.status == 14
    assert provider.goaways == [(0, 1)]
    assert rig.count(CLOSED, "protocol") == 1
    rig.assert_empty()


def test_a_provider_that_is_too_noisy_is_given_up_with_a_word():
    rig, _, stream, provider, _ = sent(20880, http2=Http2(control_frames=10))
    for _ in range(30):
        provider.raw(frame(PING, 0, 0, b"12345678"))
    rig.settle()
    assert provider.is_closed
    assert stream.status == 14
    assert [code for _, code in provider.goaways] == [11]
    assert rig.count(CLOSED, "control") == 1
    rig.assert_empty()


def test_a_refused_stream_of_a_connection_that_is_just_breaking_is_not_lost():
    rig, _, stream, provider, request = sent(20880)
    provider.reset(request, REFUSED_STREAM)
    data = provider.connection.data_to_send()
    provider.raw(data + frame(PING, 0, 3, b"12345678"))
    rig.settle()
    second = rig.open()
    second.answer(second.request())
    rig.settle()
    assert stream.status == 0
    rig.assert_empty()


def test_streams_that_nobody_knows_owe_nothing():
    rig, _, (provider,) = connected(20880)
    rig.ledgers[1].heard[99] += 3
    provider.protocol.on_headers(99, [], False)
    provider.protocol.on_informational(99, [])
    provider.protocol.on_data(99, b"xyz", False)
    provider.protocol.on_trailers(99, [])
    provider.protocol.on_closed(99, 0)
    rig.assert_empty()


def test_what_follows_an_answer_that_is_none_is_dropped():
    rig, _, stream, provider, request = sent(20880)
    provider.head(request, ((b":status", b"503"),))
    provider.data(request, b"x")
    provider.trailers(request, [(b"grpc-status", b"0")])
    rig.settle()
    assert stream.status == 14
    rig.assert_empty()


def test_what_a_consumer_sends_to_a_provider_that_broke_the_rules_is_dropped():
    rig, consumer, stream, provider, _ = sent(20880, body=b"x" * 300_000, end=False)
    provider.transport.is_stuck = True
    consumer.data(stream, b"x" * 300_000)
    rig.settle()
    provider.raw(frame(PING, 0, 3, b"12345678"))
    provider.push()
    consumer.data(stream, b"y" * 1000)
    consumer.push()
    provider.transport.is_stuck = False
    rig.settle()
    assert provider.is_closed
    assert stream.status == 14
    rig.assert_empty()


def test_a_call_that_meets_a_connection_which_is_breaking_waits_for_the_next():
    rig, consumer, (provider,) = connected(20880)
    provider.raw(frame(PING, 0, 3, b"12345678"))
    provider.push()
    stream = consumer.ask(body=b"x")
    rig.settle()
    second = rig.open()
    assert second.request().body == b"x"
    assert stream.status == -1


def test_a_waiting_call_that_meets_a_breaking_connection_and_is_too_large_to_wait_is_refused():
    rig, consumer, (provider,) = connected(
        20880, upstream=Upstream(max_connections=1), limits=Limits(upstream_buffer=Size(900))
    )
    provider.connection.update_settings({3: 1})
    rig.settle()
    consumer.ask()
    rig.settle()
    waits = consumer.ask(end=False)
    rig.settle()
    consumer.data(waits, b"x" * 600)
    rig.settle()
    assert rig.pool.endpoints["127.0.0.1:20880"].parked == 1
    provider.answer(provider.request())
    provider.raw(provider.connection.data_to_send() + frame(PING, 0, 3, b"12345678"))
    rig.settle()
    assert waits.status == 8
    rig.assert_empty()


# Liveness


def seconds_of_pings(rig, provider, seconds):
    found = []
    for second in range(1, seconds + 1):
        before = [kind for kind, *_ in provider.frames].count(PING)
        rig.advance(1.0)
        rig.check()
        if [kind for kind, *_ in provider.frames].count(PING) > before:
            found.append(second)
    return found


QUIET = Upstream(idle_close=Duration(3600.0))


def test_a_silent_triple_provider_is_asked_after_a_minute_and_given_up_after_three():
    rig, _, stream, provider, _ = sent(20880, upstream=QUIET)
    provider.is_silent = True
    assert seconds_of_pings(rig, provider, 179) == [60, 120]
    assert not provider.is_closed
    rig.advance(1.0)
    rig.check()
    assert provider.is_closed
    assert rig.count(CLOSED, "dead") == 1
    assert stream.status == 14
    assert (GOAWAY, 0, 0) in [frame[:3] for frame in provider.frames]


def test_a_triple_provider_is_asked_while_nothing_is_called():
    rig, _, (provider,) = connected(20880, upstream=QUIET)
    assert seconds_of_pings(rig, provider, 130) == [60, 120]
    assert not provider.is_closed


def test_a_grpc_provider_is_not_asked_while_nothing_is_called_and_never_often():
    rig = Rig(upstream=QUIET)
    rig.publish(20880, protocol="grpc", parameters={"heartbeat": "10000"})
    consumer = rig.consumer()
    first = consumer.ask()
    rig.settle()
    provider = rig.open()
    provider.answer(provider.request())
    rig.settle()
    assert first.status == 0
    assert seconds_of_pings(rig, provider, 700) == []
    consumer.ask()
    rig.settle()
    provider.is_silent = True
    assert seconds_of_pings(rig, provider, 419) == [300]
    assert not provider.is_closed
    rig.advance(1.0)
    rig.check()
    assert provider.is_closed
    assert rig.count(CLOSED, "dead") == 1


def test_an_answered_ping_is_a_sign_of_life():
    rig, _, _, provider, _ = sent(20880, upstream=QUIET)
    assert len(seconds_of_pings(rig, provider, 400)) == 6
    assert not provider.is_closed


# Pressure


def test_a_provider_whose_transport_is_full_gets_no_new_call_and_later_those_that_wait():
    rig, consumer, (provider,) = connected(20880, upstream=Upstream(max_connections=1))
    provider.connection.set_local_window_size(1 << 20)
    provider.connection.update_settings({4: 1 << 20})
    rig.settle()
    provider.transport.is_stuck = True
    consumer.ask(body=b"x" * 600_000)
    rig.settle()
    assert rig.links[0].held_bytes > 0
    waiting = consumer.ask()
    rig.settle()
    assert rig.pool.endpoints["127.0.0.1:20880"].parked == 1
    provider.transport.is_stuck = False
    rig.settle()
    assert rig.pool.endpoints["127.0.0.1:20880"].parked == 0
    for each in provider.requests():
        provider.answer(each)
    rig.settle()
    assert waiting.status == 0
    rig.assert_empty()


def test_a_transport_that_is_full_for_a_moment_costs_no_call():
    rig, consumer, (provider,) = connected(20880, upstream=Upstream(max_connections=1))
    for _ in range(2):
        consumer.ask(body=b"x" * 60_000)
    consumer.push()
    rig.loop.turn()
    assert rig.links[0].is_write_paused
    stream = consumer.ask()
    consumer.push()
    rig.settle()
    for each in provider.requests():
        provider.answer(each)
    rig.settle()
    assert stream.status == 0
    assert rig.outcomes() == {"ok": 3}
    rig.assert_empty()


def test_calls_that_wait_for_a_provider_that_stands_still_go_elsewhere():
    rig, consumer, (one, two) = connected(20880, 20881, upstream=Upstream(max_connections=1))
    one.transport.is_stuck = True
    one.protocol.pause_writing()
    streams = [consumer.ask() for _ in range(6)]
    rig.settle()
    address = f"127.0.0.1:{one.port}"
    waiting = rig.pool.endpoints[address].parked
    assert 0 < waiting < 6
    rig.advance(STILL - 0.1)
    rig.check()
    assert rig.pool.endpoints[address].parked == waiting
    rig.advance(0.2)
    rig.check()
    assert rig.pool.endpoints[address].parked == 0
    for each in two.requests():
        two.answer(each)
    rig.settle()
    assert [stream.status for stream in streams] == [0] * 6


def test_calls_wait_for_a_provider_that_stands_still_when_it_is_the_only_one():
    rig, consumer, (provider,) = connected(20880, upstream=Upstream(max_connections=1))
    provider.transport.is_stuck = True
    provider.protocol.pause_writing()
    waits = consumer.ask()
    rig.advance(STILL + 0.1)
    rig.check()
    late = consumer.ask()
    rig.settle()
    assert (waits.status, late.status) == (-1, -1)
    assert rig.pool.endpoints["127.0.0.1:20880"].parked == 2
    provider.transport.is_stuck = False
    provider.protocol.resume_writing()
    rig.settle()
    for each in provider.requests():
        provider.answer(each)
    rig.settle()
    assert (waits.status, late.status) == (0, 0)
    rig.assert_empty()


def test_a_call_that_came_back_from_a_full_transport_has_not_been_sent():
    rig, consumer, (one, two) = connected(20880, 20881)
    for each in (one, two):
        each.transport.is_stuck = True
    stream = consumer.ask(body=b"x")
    consumer.push()
    (provider,) = [each for each in (one, two) if each.protocol.calls]
    provider.protocol.pause_writing()
    rig.loop.turn()
    provider.lose()
    second = other(rig, provider)
    second.transport.is_stuck = False
    rig.settle()
    second.answer(second.request())
    rig.settle()
    assert stream.status == 0
    rig.assert_empty()


def test_a_lower_limit_of_streams_does_not_lose_sight_of_what_waits():
    rig, consumer, (provider,) = connected(20880)
    rig.settle()
    streams = [consumer.ask(body=b"x" * 10) for _ in range(3)]
    consumer.push()
    provider.connection.update_settings({3: 1})
    provider.push()
    rig.settle()
    for _ in range(3):
        for each in provider.requests():
            provider.answer(each)
        rig.settle()
    assert [stream.status for stream in streams] == [0, 0, 0]
    assert rig.outcomes() == {"ok": 3}
    rig.assert_empty()
