"""A consumer's connection."""

from __future__ import annotations

import pytest

from sidecar.proxy.link import LARGE_READ
from sidecar.settings.schema import Limits
from sidecar.settings.units import Duration, Size
from tests.fixtures.dubbo_frames import cut, frame, heartbeat, heartbeat_reply, reply, request
from tests.fixtures.proxy_rig import Rig

HEARTBEAT = bytes.fromhex("dabbe2000000000000000007000000014e")
HEARTBEAT_REPLY = bytes.fromhex("dabb22140000000000000007000000014e")


def test_fc_51_heartbeat_is_answered_with_the_one_byte_body_and_no_provider():
    rig = Rig()
    consumer = rig.consumer()
    consumer.send(HEARTBEAT)
    assert consumer.frame().raw == HEARTBEAT_REPLY
    for byte in HEARTBEAT:
        consumer.send(bytes([byte]))
    assert consumer.frame().raw == HEARTBEAT_REPLY
    assert rig.counters.methods.keys() == {("dubbo", "_unknown", "_other")}
    assert rig.outcomes("_unknown", "_other") == {}
    assert rig.connects == []


def test_fc_51_heartbeat_glued_behind_a_request():
    rig = Rig()
    rig.services.publish(20880)
    consumer = rig.consumer()
    consumer.send(request(1) + HEARTBEAT)
    assert consumer.frame().raw == HEARTBEAT_REPLY
    provider = rig.open()
    assert len(provider.frames()) == 1, "the heartbeat is not forwarded"


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (bytes.fromhex("dabbf70000000000000000050000000500000001af"),
         bytes.fromhex("dabb371400000000000000050000000500000001af")),
        (frame(0xE2, 0, 7, b""), HEARTBEAT_REPLY),
        (frame(0xE2, 0, 7, b"\x01X"), HEARTBEAT_REPLY),
        (frame(0xA2, 0, 7, b"N"), None),
        (frame(0xA2, 0, 7, b"\x01X"), None),
        (heartbeat_reply(7), None),
        (frame(0xE2, 0, 7, b"x" * 3000), None),
    ],
)  # fmt: skip
def test_fc_51_events_are_acknowledged_only_when_asked_for(sent, answer):
    rig = Rig(limits=Limits(max_payload=Size(2000)))
    consumer = rig.consumer()
    consumer.send(sent)
    assert [each.raw for each in consumer.frames()] == ([] if answer is None else [answer])
    consumer.send(heartbeat(9))
    assert consumer.frame().number == 9, "the stream stays in step"


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n\r\n", frame(0xC2, 0, 1, b"")[:12] + b"\xff" * 4]
)
def test_a_broken_stream_is_closed_without_a_reply_after_what_came_before(junk):
    rig = Rig()
    consumer = rig.consumer()
    consumer.send(HEARTBEAT + junk)
    assert consumer.is_closed
    assert consumer.frame().raw == HEARTBEAT_REPLY
    consumer.send(HEARTBEAT)
    consumer.lose()
    assert consumer.transport.writes == []
    assert rig.count("sidecar_consumers_closed_total", "broken_stream") == 1


def served(rig):
    rig.services.publish(20880)
    consumer = rig.consumer()
    consumer.send(request(1))
    return consumer, rig.open()


def test_fc_79_half_close_still_gets_its_answers():
    rig = Rig()
    consumer, provider = served(rig)
    consumer.send(request(2))
    consumer.finish()
    assert not consumer.is_closed
    first, second = provider.frames()
    provider.send(reply(first.number))
    assert not consumer.is_closed
    provider.send(reply(second.number))
    assert consumer.is_closed
    assert [each.number for each in cut(b"".join(consumer.transport.writes))[0]] == [1, 2]
    rig.assert_empty()


def test_half_close_with_nothing_in_flight_closes_at_once():
    rig = Rig()
    consumer = rig.consumer()
    consumer.finish()
    assert consumer.is_closed
    assert rig.forwarder.consumers == set()


def test_half_close_ends_with_the_deadline_when_the_provider_is_silent():
    rig = Rig()
    rig.services.publish(20880)
    consumer = rig.consumer()
    consumer.send(request(1, timeout="100"))
    rig.open()
    consumer.finish()
    rig.loop.advance(0.2)
    assert consumer.is_closed
    assert cut(b"".join(consumer.transport.writes))[0][0].status == 31


def test_a_consumer_that_does_not_read_is_not_read_from():
    rig = Rig()
    consumer, _ = served(rig)
    consumer.protocol.pause_writing()
    assert not consumer.transport.is_reading
    consumer.protocol.resume_writing()
    assert consumer.transport.is_reading


def test_a_consumer_that_does_not_read_is_closed_at_the_cap_and_stalls_no_one():
    rig = Rig(limits=Limits(consumer_buffer=Size(1000)))
    slow, provider = served(rig)
    other = rig.consumer()
    slow.send(*[request(number) for number in range(2, 12)])
    slow.protocol.pause_writing()
    other.send(request(1))
    frames = provider.frames()
    provider.send(*[reply(each.number, "x" * 300) for each in frames])
    assert slow.transport.is_aborted
    assert len(other.frames()) == 1
    slow.lose()
    assert rig.count("sidecar_consumers_closed_total", "buffer") == 1
    rig.assert_empty()


def test_replies_above_the_cap_are_fine_while_the_consumer_reads():
    rig = Rig(limits=Limits(consumer_buffer=Size(1000)))
    consumer, provider = served(rig)
    consumer.send(*[request(number) for number in range(2, 12)])
    provider.send(*[reply(each.number, "x" * 300) for each in provider.frames()])
    assert len(consumer.frames()) == 11


def test_a_consumer_that_stalls_too_long_is_closed():
    rig = Rig(limits=Limits(consumer_stall=Duration(30.0)))
    consumer, _ = served(rig)
    consumer.protocol.pause_writing()
    rig.loop.advance(29.0)
    rig.check()
    assert not consumer.is_closed
    rig.loop.advance(1.0)
    rig.check()
    assert consumer.transport.is_aborted
    consumer.lose()
    assert rig.count("sidecar_consumers_closed_total", "stalled") == 1


def test_a_consumer_that_reads_again_in_time_is_kept():
    rig = Rig(limits=Limits(consumer_stall=Duration(30.0)))
    consumer, _ = served(rig)
    consumer.protocol.pause_writing()
    rig.loop.advance(29.0)
    consumer.protocol.resume_writing()
    rig.loop.advance(29.0)
    consumer.protocol.pause_writing()
    rig.loop.advance(29.0)
    rig.check()
    assert not consumer.is_closed


def test_a_consumer_that_reads_slowly_is_kept_until_it_stops():
    rig = Rig(limits=Limits(consumer_stall=Duration(30.0)))
    consumer, _ = served(rig)
    consumer.protocol.pause_writing()
    for unread in range(8_000_000, 0, -100_000):
        consumer.transport.unread = unread
        rig.loop.advance(20.0)
        rig.check()
    assert not consumer.is_closed
    rig.loop.advance(31.0)
    rig.check()
    assert consumer.transport.is_aborted


def test_a_closing_connection_that_never_drains_is_ended():
    rig = Rig(limits=Limits(consumer_stall=Duration(30.0)))
    consumer = rig.consumer()
    consumer.protocol.pause_writing()
    rig.loop.advance(1.0)
    consumer.protocol.leave()
    consumer.protocol.resume_writing()
    assert consumer.is_closed
    assert not consumer.transport.is_aborted
    rig.loop.advance(30.0)
    rig.check()
    assert consumer.transport.is_aborted


def test_replies_to_a_closed_connection_are_dropped():
    rig = Rig()
    consumer, provider = served(rig)
    frames = provider.frames()
    consumer.lose()
    provider.send(reply(frames[0].number))
    assert consumer.transport.writes == []
    rig.assert_empty()


def test_a_consumer_that_sends_a_lot_waits_for_the_others():
    rig = Rig()
    consumer = rig.consumer()
    consumer.deliver(frame(0xA2, 0, 7, b"x" * LARGE_READ))
    assert not consumer.transport.is_reading
    rig.loop.turn()
    assert consumer.transport.is_reading


def test_a_consumer_that_sends_a_lot_and_does_not_read_is_not_read_from():
    rig = Rig()
    consumer = rig.consumer()
    consumer.deliver(frame(0xA2, 0, 7, b"x" * LARGE_READ))
    consumer.protocol.pause_writing()
    rig.loop.turn()
    assert not consumer.transport.is_reading
    consumer.protocol.resume_writing()
    assert consumer.transport.is_reading
