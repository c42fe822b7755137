"""Batched writes of one connection."""

from __future__ import annotations

import pytest

from sidecar.proxy.link import HIGH_WATER, FlushQueue, Link
from tests.fixtures.stage import FakeLoop, FakeTransport


@pytest.fixture
def loop():
    return FakeLoop()


@pytest.fixture
def queue(loop):
    return FlushQueue(loop.call_soon)


def opened(queue):
    link = Link(queue)
    transport = FakeTransport()
    link.open(transport)
    return link, transport


def test_writes_of_a_turn_leave_together(loop, queue):
    link, transport = opened(queue)
    link.send(b"one")
    link.send(b"two")
    assert transport.writes == []
    assert link.queued_bytes == 6
    loop.turn()
    assert transport.writes == [b"onetwo"]
    assert link.queued_bytes == 0
    assert transport.high_water == HIGH_WATER


def test_all_connections_share_one_callback_a_turn(loop, queue):
    links = [opened(queue) for _ in range(3)]
    for link, _ in links:
        link.send(b"a")
        link.send(b"b")
    assert len(loop.soon) == 1
    loop.turn()
    assert [transport.writes for _, transport in links] == [[b"ab"]] * 3
    links[0][0].send(b"c")
    loop.turn()
    assert links[0][1].writes == [b"ab", b"c"]


def test_a_slow_peer_keeps_parts_here(loop, queue):
    link, transport = opened(queue)
    link.pause_writing()
    link.send(b"one")
    loop.turn()
    link.send(b"two")
    loop.turn()
    assert transport.writes == []
    assert link.queued_bytes == 6
    link.resume_writing()
    loop.turn()
    assert transport.writes == [b"onetwo"]


def test_resuming_with_nothing_queued_writes_nothing(loop, queue):
    link, transport = opened(queue)
    link.pause_writing()
    link.resume_writing()
    loop.turn()
    assert transport.writes == []


def test_resuming_in_the_turn_of_a_send_flushes_once(loop, queue):
    link, transport = opened(queue)
    link.pause_writing()
    link.send(b"one")
    link.resume_writing()
    loop.turn()
    assert transport.writes == [b"one"]


def test_closing_writes_what_is_queued_first(loop, queue):
    link, transport = opened(queue)
    link.pause_writing()
    link.send(b"last words")
    link.close()
    link.close()
    link.send(b"too late")
    loop.turn()
    assert transport.writes == [b"last words"]
    assert transport.is_closing
    assert link.queued_bytes == 0


def test_aborting_drops_what_is_queued(loop, queue):
    link, transport = opened(queue)
    link.send(b"never")
    link.abort()
    loop.turn()
    assert transport.writes == []
    assert transport.is_aborted


def test_a_connection_that_cannot_be_written_to_costs_the_others_nothing(loop, queue, caplog):
    broken, its_transport = opened(queue)
    its_transport.write = lambda data: 1 / 0
    sound, transport = opened(queue)
    for link in (broken, sound):
        link.send(b"one")
    loop.turn()
    assert its_transport.is_aborted
    assert transport.writes == [b"one"]
    assert "cannot be written to" in caplog.text
    sound.send(b"two")
    loop.turn()
    assert transport.writes == [b"one", b"two"]


def test_without_a_transport_nothing_breaks(loop, queue):
    link = Link(queue)
    link.send(b"early")
    loop.turn()
    link.close()
    link.abort()
    assert link.is_closed


def test_giving_way_lasts_until_the_other_connections_had_their_turn(loop, queue):
    link, transport = opened(queue)
    link.give_way()
    link.send(b"one")
    assert not transport.is_reading
    assert len(loop.soon) == 1
    loop.turn()
    assert transport.is_reading
    assert transport.writes == [b"one"]


def test_a_closed_connection_does_not_give_way(loop, queue):
    link, transport = opened(queue)
    link.close()
    link.give_way()
    loop.turn()
    assert transport.is_reading


def test_a_connection_that_gave_way_may_end_in_the_same_turn(loop, queue):
    link, transport = opened(queue)
    link.give_way()
    link.abort()
    loop.turn()
    assert not transport.is_reading
