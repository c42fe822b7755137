"""A call and the two connections it joins: bodies, windows, and what is kept to send it again."""

from __future__ import annotations

import pytest

from sidecar.settings.schema import Http2
from sidecar.settings.units import Size
from tests.fixtures.http2_ends import WINDOW
from tests.fixtures.triple_rig import Rig, connected

KIB = 1024


def test_a_body_goes_on_piece_by_piece():
    rig, consumer, (provider,) = connected(20880)
    asked = consumer.ask(body=b"one", end=False)
    rig.settle()
    stream = provider.request()
    assert (stream.body, stream.is_ended) == (b"one", False)
    consumer.data(asked, b"two")
    rig.settle()
    assert (stream.body, stream.is_ended) == (b"onetwo", False)
    consumer.data(asked, b"", end=True)
    rig.settle()
    assert (stream.body, stream.is_ended) == (b"onetwo", True)
    provider.answer(stream, b"three")
    rig.settle()
    assert asked.body == b"three"
    rig.assert_empty()


def test_trailers_of_a_request_go_on():
    rig, consumer, (provider,) = connected(20880)
    asked = consumer.ask(body=b"one", end=False)
    rig.settle()
    consumer.trailers(asked, [(b"x-sum", b"7")])
    rig.settle()
    stream = provider.request()
    assert stream.trailers == ((b"x-sum", b"7"),)
    assert stream.is_ended
    provider.answer(stream)
    rig.settle()
    assert asked.status == 0
    rig.assert_empty()


def test_pieces_and_trailers_that_come_after_the_end_of_a_call_are_dropped():
    rig, consumer, (provider,) = connected(20880)
    asked = consumer.ask(body=b"one", end=False, grpc_timeout="50m")
    rig.settle()
    consumer.data(asked, b"two")
    rig.loop.advance(0.1)
    consumer.push()
    consumer.trailers(asked, [(b"x-sum", b"7")])
    consumer.push()
    rig.settle()
    assert asked.status == 4
    assert provider.request().trailers is None
    rig.assert_empty()


# Waiting for a connection


def test_a_call_that_waits_for_a_connection_keeps_what_comes_and_no_window_is_returned():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    asked = consumer.ask(body=b"a" * 50_000, end=False)
    rig.settle()
    consumer.data(asked, b"b" * 150_000)
    rig.settle()
    assert rig.ledgers[0].owed == WINDOW
    provider = rig.open()
    stream = provider.request()
    assert stream.body == b"a" * 50_000 + b"b" * 150_000
    assert rig.ledgers[0].owed == 0
    consumer.data(asked, b"c", end=True)
    rig.settle()
    assert stream.body.endswith(b"bc")
    provider.answer(stream)
    rig.settle()
    rig.assert_empty()


@pytest.mark.parametrize("ended_by", ["nothing", "data", "trailers"])
def test_the_end_of_a_request_that_came_meanwhile_is_sent_with_it(ended_by):
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    asked = consumer.ask(body=b"" if ended_by == "nothing" else b"x", end=ended_by == "nothing")
    rig.settle()
    if ended_by == "data":
        consumer.data(asked, b"yz", end=True)
    elif ended_by == "trailers":
        consumer.trailers(asked, [(b"x-sum", b"7")])
    rig.settle()
    stream = rig.open().request()
    assert stream.is_ended
    assert stream.body == {"nothing": b"", "data": b"xyz", "trailers": b"x"}[ended_by]
    assert stream.trailers == (((b"x-sum", b"7"),) if ended_by == "trailers" else None)


def test_a_call_without_a_body_is_one_frame():
    rig, consumer, (provider,) = connected(20880)
    consumer.ask()
    rig.settle()
    assert [flags & 1 for _, flags, _ in provider.frames_of(provider.request())] == [1]


# Windows


def test_window_is_returned_to_a_consumer_when_the_providers_transport_took_the_bytes():
    rig, consumer, (provider,) = connected(20880)
    ledger = rig.ledgers[0]
    provider.reads = False
    asked = consumer.ask(body=b"a" * 200_000, end=False)
    rig.settle()
    assert ledger.owed == 2 * WINDOW, "the first window was taken, the second is twice as large"
    provider.read(provider.request())
    rig.settle()
    assert ledger.owed == 200_000 - 2 * WINDOW
    consumer.reset(asked)
    rig.settle()
    assert ledger.owed == 0, "nobody takes the rest any more"
    rig.assert_empty()


def test_a_transport_that_is_full_keeps_the_consumers_window():
    rig, consumer, (provider,) = connected(20880)
    provider.transport.is_stuck = True
    provider.connection.set_local_window_size(4 << 20)
    provider.connection.update_settings({4: 4 << 20})
    rig.settle()
    asked = consumer.ask(body=b"a" * 500_000)
    rig.settle()
    taken = provider.transport.unread
    assert 64 * KIB < taken < 300 * KIB, "one write, then the transport was full"
    assert rig.ledgers[0].owed == 2 * WINDOW
    provider.transport.is_stuck = False
    rig.settle()
    stream = provider.request()
    assert len(stream.body) == 500_000
    provider.answer(stream)
    rig.settle()
    assert asked.status == 0
    rig.assert_empty()


def test_fc_72_a_consumer_that_does_not_read_stops_the_provider_and_nobody_else():
    rig, consumer, (provider,) = connected(20880)
    consumer.reads = False
    consumer.connection.set_local_window_size(1 << 20)
    slow, quick = consumer.ask(), consumer.ask()
    rig.settle()
    first, second = provider.requests()
    provider.head(first)
    sent = 0
    for _ in range(100):
        provider.data(first, b"d" * 100_000)
        sent += 100_000
        rig.settle()
    left = provider.connection.queued_body_size(first.id)
    assert sent - left == 3 * WINDOW, "what was taken, and a window twice as large"
    held = 2 * WINDOW
    assert rig.links[0].unread == held
    assert consumer.protocol.held_bytes == held
    provider.answer(second, b"quick")
    rig.settle()
    assert quick.body == b"quick"
    assert quick.status == 0
    consumer.reads = True
    consumer.read_all()
    provider.trailers(first)
    rig.settle()
    assert len(slow.body) == sent
    assert slow.status == 0
    rig.assert_empty()


def test_fc_71_a_reply_larger_than_all_windows_comes_through():
    rig, consumer, (provider,) = connected(
        20880, http2=Http2(stream_window=Size(WINDOW), connection_window=Size(WINDOW))
    )
    asked = consumer.ask()
    rig.settle()
    provider.answer(provider.request(), b"r" * 94_491)
    rig.settle()
    assert (len(asked.body), asked.status) == (94_491, 0)
    rig.assert_empty()


@pytest.mark.parametrize("size", [3_000_000, 20_000_000])
def test_a_request_larger_than_all_windows_comes_through(size):
    rig, consumer, (provider,) = connected(20880)
    asked = consumer.ask(body=b"r" * size)
    rig.settle()
    stream = provider.request()
    assert (len(stream.body), stream.is_ended) == (size, True)
    provider.answer(stream)
    rig.settle()
    assert asked.status == 0
    rig.assert_empty()


def test_window_is_returned_for_bytes_of_streams_that_have_ended_meanwhile():
    rig, consumer, (provider,) = connected(20880)
    for each in range(2):
        consumer.ask(end=False)
        rig.settle()
        (call,) = consumer.protocol.calls.values()
        request = provider.request()
        provider.answer(request)
        rig.settle()
        sender, taker = rig.ledgers if each else rig.ledgers[::-1]
        stream_id = call.stream_id if each else call.upstream_id
        sender.heard[stream_id] += 3
        if each:
            call.is_done = False
            call.unread = 3
            provider.protocol.body(call, b"xyz", False)
            provider.protocol.body(call, b"", False)
            assert call.unread == 0
        else:
            provider.protocol.unread += 3
            consumer.protocol.body(call, b"xyz", False)
            consumer.protocol.body(call, b"", False)
        assert sender.owed == 0
        assert taker.owed == 0
    rig.assert_empty()


# Kept to be sent again


def test_a_large_request_that_has_not_left_goes_elsewhere_whole():
    rig, consumer, providers = connected(20880, 20881)
    consumer.ask(body=b"a" * 100_000)
    consumer.push()
    taker = next(each for each in providers if each.protocol.calls)
    (other,) = [each for each in providers if each is not taker]
    taker.lose()
    rig.settle()
    stream = other.request()
    assert (len(stream.body), stream.is_ended) == (100_000, True)


def test_a_large_request_that_waited_goes_elsewhere_whole():
    rig = Rig()
    rig.publish(20880, 20881)
    consumer = rig.consumer()
    asked = consumer.ask(body=b"a" * 100_000)
    rig.settle()
    rig.open(greets=False).lose()
    rig.settle()
    provider = rig.open()
    stream = provider.request()
    assert (len(stream.body), stream.is_ended) == (100_000, True)
    provider.answer(stream)
    rig.settle()
    assert asked.status == 0
    assert rig.outcomes() == {"ok": 1}
    rig.assert_empty()
