"""A consumer's HTTP/2 connection: its limits, its patience, its end."""

from __future__ import annotations

import pytest

from sidecar.proxy.link import LARGE_READ
from sidecar.proxy.triple.downstream import LINGER, NOTICE, STALL
from sidecar.settings.schema import Http2, Limits
from sidecar.settings.units import Duration, Size
from tests.fixtures.http2_ends import WINDOW
from tests.fixtures.http2_peers import (
    BLOCK,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
)
from tests.fixtures.triple_rig import Rig, connected

LAST = (1 << 31) - 1
CLOSED = "sidecar_consumers_closed_total"


def kinds(end):
    return [kind for kind, _, _, _ in end.frames]


# The beginning


def test_a_consumer_is_told_the_limits():
    rig = Rig(
        http2=Http2(stream_window=Size(300_000), connection_window=Size(500_000)),
        limits=Limits(max_inflight_per_consumer=7),
    )
    consumer = rig.consumer()
    told = consumer.connection.remote_settings
    assert (told[3], told[4], told[6]) == (7, 65_535, 65_536)
    assert consumer.connection.remote_window_size == 500_000


def test_a_consumer_that_sends_no_settings_in_time_is_ended():
    rig = Rig(http2=Http2(slow_header=Duration(10.0)))
    consumer = rig.consumer(greets=False)
    consumer.is_silent = True
    rig.advance(9.9)
    rig.check()
    assert not consumer.is_closed
    rig.advance(0.2)
    rig.check()
    assert consumer.is_closed
    assert consumer.goaways == [(0, 11)]
    assert rig.count(CLOSED, "slow_handshake") == 1
    assert rig.engine.consumers == set()


def test_a_header_list_that_does_not_end_in_time_ends_the_connection():
    rig, consumer, _ = connected(20880, http2=Http2(slow_header=Duration(10.0)))
    consumer.raw(frame(HEADERS, 0, 101, BLOCK))
    rig.settle()
    rig.advance(9.9)
    rig.check()
    assert not consumer.is_closed
    rig.advance(0.2)
    rig.check()
    assert consumer.is_closed
    assert rig.count(CLOSED, "slow_header") == 1


def test_a_header_list_that_comes_slowly_and_ends_in_time_is_served():
    rig = Rig()
    rig.publish(20880, service="com.x.Demo")
    consumer = rig.consumer(greets=False)
    consumer.is_silent = True
    raw = PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, BLOCK)
    for n in range(len(raw)):
        rig.advance(0.02)
        rig.check()
        consumer.protocol.data_received(raw[n : n + 1])
    rig.advance(30)
    rig.check()
    assert not consumer.is_closed
    assert consumer.protocol.inflight == 1


# Requests that are refused before they are routed


@pytest.mark.parametrize(
    "fields",
    [{"x_large": "v" * 70_000}, {f"x_{n}": "v" for n in range(600)}],
    ids=["size", "count"],
)
def test_fc_67_a_request_with_too_many_headers_is_refused_and_the_connection_goes_on(fields):
    rig, consumer, (provider,) = connected(20880)
    grpc = consumer.ask(body=b"x" * 1000, **fields)
    rest = consumer.ask(kind="application/json", body=b"x", end=False, **fields)
    rig.settle()
    assert grpc.status == 8
    assert grpc.message.startswith("HEADERS_TOO_LARGE: ")
    assert grpc.message.endswith(" bytes of headers")
    assert (rest.http_status, rest.reset) == (431, 0)
    assert provider.requests() == []
    assert rig.count("sidecar_oversize_total", "headers") == 2
    assert rig.outcomes_of("triple", "_unknown", "_other") == {"rejected": 2}
    after = consumer.ask(x_other="w" * 20_000)
    rig.settle()
    request = provider.request()
    assert request.field(b"x-other") == b"w" * 20_000
    provider.answer(request)
    rig.settle()
    assert after.status == 0
    rig.assert_empty()


def test_what_breaks_the_rules_ends_the_connection_with_a_word():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask()
    rig.settle()
    consumer.raw(frame(6, 0, 3, b"12345678"))
    rig.settle()
    assert consumer.goaways == [(stream.id, 1)]
    assert consumer.is_closed
    assert provider.request().reset == 8
    assert rig.count(CLOSED, "protocol") == 1
    assert rig.outcomes() == {"cancelled": 1}
    rig.assert_empty()


def test_a_consumer_that_was_given_up_and_stays_is_cut_off():
    rig, consumer, _ = connected(20880)
    consumer.hangs_up = False
    consumer.raw(frame(PING, 0, 3, b"12345678"))
    rig.settle()
    assert consumer.transport.has_eof
    assert not consumer.transport.is_closing
    consumer.raw(frame(PING, 0, 0, b"12345678"))
    rig.advance(LINGER - 0.1)
    rig.check()
    assert not consumer.transport.is_closing
    rig.advance(0.2)
    rig.check()
    assert consumer.transport.is_aborted
    assert rig.engine.consumers == set()


def test_a_large_read_that_breaks_the_rules_is_followed_by_others():
    rig, consumer, _ = connected(20880)
    consumer.hangs_up = False
    for _ in range(4):
        consumer.ask(body=b"x" * (LARGE_READ // 4))
    consumer.push()
    assert not consumer.transport.is_reading
    rig.engine.consumers.copy().pop()._fail("slow_header")
    assert consumer.transport.is_reading, "what is on its way is read, so that nothing is reset"
    rig.settle()
    assert consumer.goaways == [(9, 11)]


def test_streams_that_nobody_knows_owe_nothing():
    rig, consumer, _ = connected(20880)
    rig.ledgers[0].heard[99] += 3
    consumer.protocol.on_data(99, b"xyz", False)
    consumer.protocol.on_trailers(99, [])
    consumer.protocol.on_informational(99, [])
    consumer.protocol.on_closed(99, 0)
    rig.assert_empty()


def test_a_large_read_lets_the_others_be_read_first():
    rig, consumer, (provider,) = connected(20880)
    for _ in range(4):
        consumer.ask(body=b"x" * (LARGE_READ // 4))
    consumer.push()
    assert not consumer.transport.is_reading
    rig.loop.turn()
    assert consumer.transport.is_reading
    rig.settle()
    assert [len(each.body) for each in provider.requests()] == [LARGE_READ // 4] * 4


# Slow consumers


def test_a_consumer_that_takes_nothing_is_ended_after_long():
    rig, consumer, (provider,) = connected(20880)
    consumer.transport.is_stuck = True
    consumer.connection.set_local_window_size(1 << 20)
    consumer.ask()
    rig.settle()
    request = provider.request()
    provider.head(request)
    provider.data(request, b"x" * 200_000)
    rig.settle()
    assert consumer.protocol.held_bytes > 0
    rig.watch(STALL - 1)
    assert not consumer.is_closed
    rig.watch(2)
    assert consumer.transport.is_aborted
    assert rig.count(CLOSED, "stalled") == 1
    assert request.reset == 8
    rig.assert_empty()


def test_a_consumer_whose_transport_is_full_is_read_all_the_same():
    rig, consumer, (provider,) = connected(20880)
    consumer.transport.is_stuck = True
    consumer.connection.set_local_window_size(1 << 20)
    first, second = consumer.ask(), consumer.ask(end=False)
    rig.settle()
    one, two = provider.requests()
    provider.answer(one, b"x" * 200_000)
    rig.settle()
    consumer.data(second, b"more", end=True)
    rig.settle()
    assert two.body == b"more"
    consumer.transport.is_stuck = False
    provider.answer(two)
    rig.settle()
    assert (len(first.body), first.status, second.status) == (200_000, 0, 0)
    rig.assert_empty()


def test_a_consumer_that_opens_its_window_after_the_settings_gets_the_rest():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer(window=10)
    stream = consumer.ask()
    rig.settle()
    provider = rig.open()
    provider.answer(provider.request(), b"x" * 100)
    consumer.reads = False
    rig.settle()
    assert len(stream.body) == 10
    consumer.connection.update_settings({4: 1000})
    rig.settle()
    assert (len(stream.body), stream.status) == (100, 0)
    consumer.read_all()
    rig.settle()
    rig.assert_empty()


# Idle


def test_an_idle_consumer_is_asked_to_leave():
    rig, consumer, _ = connected(20880, http2=Http2(idle=Duration(60.0)))
    rig.advance(59)
    rig.check()
    assert consumer.goaways == []
    rig.advance(1.5)
    rig.check()
    assert consumer.goaways[0] == (LAST, 0)
    assert consumer.is_closed
    assert rig.count(CLOSED, "idle") == 1


def test_a_consumer_with_a_stream_is_not_idle_and_its_time_counts_from_the_end_of_it():
    rig, consumer, (provider,) = connected(20880, http2=Http2(idle=Duration(60.0)))
    stream = consumer.ask()
    rig.settle()
    consumer.is_silent = True
    rig.advance(120)
    rig.check()
    assert consumer.goaways == []
    provider.answer(provider.request())
    rig.settle()
    assert stream.status == 0
    rig.advance(59)
    rig.check()
    assert consumer.goaways == []
    rig.advance(1.5)
    rig.check()
    assert consumer.goaways == [(LAST, 0)]


# Leaving


def test_a_consumer_is_asked_to_leave_in_two_steps():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask()
    rig.settle()
    consumer.is_silent = True
    consumer.protocol.leave()
    consumer.protocol.leave()
    rig.settle()
    assert kinds(consumer)[-2:] == [GOAWAY, PING]
    assert consumer.goaways == [(LAST, 0)]
    assert consumer.protocol.is_unfinished
    consumer.is_silent = False
    rig.settle()
    assert consumer.goaways == [(LAST, 0), (stream.id, 0)]
    assert not consumer.protocol.is_unfinished
    assert not consumer.is_closed, "a stream is open"
    provider.answer(provider.request())
    rig.settle()
    assert stream.status == 0
    assert consumer.is_closed
    assert rig.counters.named == {}, "nobody was cut off"
    rig.assert_empty()


def test_a_stream_that_crosses_the_first_goaway_is_served():
    rig, consumer, (provider,) = connected(20880)
    consumer.protocol.leave()
    rig.loop.turn()
    crossing = consumer.ask()
    consumer.push()
    rig.settle()
    assert consumer.goaways == [(LAST, 0), (crossing.id, 0)]
    provider.answer(provider.request())
    rig.settle()
    assert crossing.status == 0
    assert consumer.is_closed


def test_a_consumer_that_answers_no_ping_gets_the_second_goaway_after_a_second():
    rig, consumer, (provider,) = connected(20880)
    consumer.ask()
    rig.settle()
    consumer.is_silent = True
    consumer.protocol.leave()
    rig.advance(NOTICE - 0.1)
    rig.check()
    assert len(consumer.goaways) == 1
    rig.advance(0.2)
    rig.check()
    assert len(consumer.goaways) == 2
    consumer.is_silent = False
    rig.settle()
    assert len(consumer.goaways) == 2, "an answer that comes late"
    provider.answer(provider.request())
    rig.settle()
    assert consumer.is_closed


@pytest.mark.parametrize("ended_by", ["answer", "cancellation", "deadline"])
def test_a_connection_in_its_last_phase_ends_with_its_last_stream(ended_by):
    rig, consumer, (provider,) = connected(20880)
    consumer.hangs_up = False
    stream = consumer.ask(grpc_timeout="3S", end=False)
    rig.settle()
    consumer.protocol.leave()
    rig.settle()
    assert len(consumer.goaways) == 2
    assert not consumer.is_closed
    if ended_by == "answer":
        provider.answer(provider.request())
    elif ended_by == "cancellation":
        consumer.reset(stream)
    else:
        rig.advance(3.1)
    rig.settle()
    assert consumer.is_closed
    rig.assert_empty()


def test_a_consumer_without_streams_is_gone_after_both_steps():
    rig, consumer, _ = connected(20880)
    consumer.protocol.leave()
    assert consumer.protocol.is_unfinished
    rig.settle()
    assert consumer.is_closed
    assert not consumer.protocol.is_unfinished
    consumer.protocol.leave()
    rig.check()


def test_a_consumer_that_does_not_leave_is_left():
    rig, consumer, _ = connected(20880)
    consumer.hangs_up = False
    consumer.protocol.leave()
    rig.settle()
    assert not consumer.is_closed
    rig.advance(NOTICE)
    rig.check()
    assert consumer.is_closed


def test_a_consumer_that_leaves_itself_gets_its_answers():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask()
    rig.settle()
    consumer.connection.send_goaway(0)
    rig.settle()
    provider.answer(provider.request(), b"x")
    rig.settle()
    assert (stream.body, stream.status) == (b"x", 0)
    assert rig.count(CLOSED, "protocol") == 0
    rig.assert_empty()


def test_a_connection_that_has_ended_writes_nothing():
    rig, consumer, (provider,) = connected(20880)
    consumer.ask()
    rig.settle()
    request = provider.request()
    provider.head(request)
    provider.data(request, b"x")
    provider.push()
    consumer.protocol.abort()
    rig.settle()
    assert request.reset == 8
    rig.assert_empty()


def test_the_last_words_are_written_although_the_transport_is_full():
    rig, consumer, (provider,) = connected(20880, http2=Http2(control_frames=10))
    consumer.connection.set_local_window_size(1 << 20)
    consumer.transport.is_stuck = True
    stream = consumer.ask()
    rig.settle()
    provider.answer(provider.request(), b"x" * WINDOW)
    rig.settle()
    for _ in range(50):
        consumer.connection.ping()
    rig.settle()
    assert consumer.is_closed
    consumer.transport.is_stuck = False
    rig.settle()
    assert consumer.goaways == [(stream.id, 11)]
    assert rig.count(CLOSED, "limit") == 1, "more answers to PINGs than it ever reads"
    assert rig.outcomes() == {"ok": 1}
    rig.assert_empty()


def test_what_comes_for_a_consumer_that_broke_the_rules_is_dropped():
    rig, consumer, (provider,) = connected(20880)
    consumer.connection.set_local_window_size(1 << 20)
    first, second = consumer.ask(), consumer.ask()
    rig.settle()
    one, two = provider.requests()
    provider.head(two)
    rig.settle()
    consumer.transport.is_stuck = True
    provider.answer(one, b"x" * 200_000)
    rig.settle()
    consumer.raw(frame(6, 0, 3, b"12345678"))
    consumer.push()
    provider.data(two, b"y" * 1000)
    rig.settle()
    assert rig.links[0].unread < 200_000
    consumer.transport.is_stuck = False
    rig.settle()
    assert consumer.is_closed
    assert (first.is_ended, second.body) == (False, b"")
    rig.assert_empty()


def test_an_early_answer_whose_consumer_gives_up_is_reset_once():
    rig, consumer, (provider,) = connected(20880)
    consumer.reads = False
    stream = consumer.ask(end=False, grpc_timeout="100m")
    rig.settle()
    request = provider.request()
    provider.head(request)
    provider.data(request, b"x" * 100_000)
    rig.settle()
    rig.advance(0.2)
    assert stream.reset == 8
    assert [kind for kind, _, _ in consumer.frames_of(stream)].count(RST_STREAM) == 1
    rig.assert_empty()


def test_an_early_answer_that_is_cancelled_is_not_reset():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(end=False)
    rig.settle()
    consumer.transport.is_stuck = True
    provider.answer(provider.request(), b"x" * 65_535)
    rig.settle()
    consumer.reset(stream)
    rig.settle()
    consumer.transport.is_stuck = False
    rig.settle()
    assert RST_STREAM not in [kind for kind, _, _ in consumer.frames_of(stream)]
    assert rig.outcomes() == {"ok": 1}
    rig.assert_empty()
