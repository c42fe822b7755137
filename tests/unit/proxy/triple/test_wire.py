"""Writing what a session has, and noting whose bytes went."""

from __future__ import annotations

import pytest

from sidecar.protocol.triple.head import HeadReader
from sidecar.proxy.link import FlushQueue, Link
from sidecar.proxy.triple.exchange import ConsumerSide, TripleCall
from sidecar.proxy.triple.paths import Paths
from sidecar.proxy.triple.wire import CHUNK, CONNECTION, Backlog, write_out
from tests.fixtures.http2_peers import REQUEST, RESPONSE, End, Pair
from tests.fixtures.stage import FakeLoop, FakeTransport

KIB = 1024


def call(stream_id: int) -> TripleCall:
    loop = FakeLoop()
    side = ConsumerSide(FlushQueue(loop.call_soon), loop.time, Paths({}, ""))
    head = HeadReader().read(REQUEST)
    return TripleCall(side, stream_id, head, REQUEST, "com.x.Demo", -1, True, loop.now)


class Sent:
    """A server's session with a backlog, whose client reads nothing unless told to."""

    def __init__(self, streams: int, **limits: int) -> None:
        self.pair = Pair(End(False, acknowledges=False, **limits))
        self.calls = {}
        for _ in range(streams):
            stream_id = self.pair.client.session.request(REQUEST, True)
            self.calls[stream_id] = call(stream_id)
        self.pair.pump()
        self.session = self.pair.server.session
        self.backlog = Backlog(self.session)
        for stream_id in self.calls:
            self.session.respond(stream_id, RESPONSE, False)

    def queue(self, stream_id: int, size: int) -> None:
        assert self.session.data(stream_id, b"d" * size, False)
        self.backlog.add(stream_id, self.calls[stream_id], size)

    def write(self, amount: int = 1 << 24, is_all: bool = True) -> dict[int, int]:
        self.pair.client.feed(self.pair.server.output(amount))
        moved = {each.stream_id: each.taken for each in self.backlog.settle(is_all)}
        assert all(size > 0 for size in moved.values())
        return moved

    def read(self, stream_id: int) -> None:
        """The client makes room; which the server has heard of when this returns."""
        self.pair.client.acknowledge(stream_id)
        self.pair.server.feed(self.pair.client.output())


def test_what_was_taken_is_told_once():
    sent = Sent(2)
    one, two = sent.calls
    sent.queue(one, 10)
    sent.queue(two, 20)
    sent.queue(one, 5)
    assert sent.backlog.held == 35
    assert sent.write() == {one: 15, two: 20}
    assert sent.backlog.held == 0
    assert sent.write() == {}


def test_a_write_in_part_goes_on_with_the_next():
    sent = Sent(1)
    (one,) = sent.calls
    sent.queue(one, 50_000)
    first = sent.write(20_000, is_all=False)
    assert 15_000 < first[one] < 35_000
    assert sent.backlog.held == 50_000 - first[one]
    assert sent.write() == {one: 50_000 - first[one]}


def test_nothing_taken_is_nothing_told():
    sent = Sent(1)
    (one,) = sent.calls
    sent.queue(one, 10)
    assert sent.backlog.settle(False) == []
    assert sent.backlog.held == 10
    assert sent.write() == {one: 10}


def test_streams_that_wait_for_their_reader_are_looked_at_when_it_has_read():
    sent = Sent(2, stream_window=10_000, connection_window=1 << 20)
    one, two = sent.calls
    sent.queue(one, 30_000)
    sent.queue(two, 15_000)
    assert sent.write() == {one: 10_000, two: 10_000}
    sent.queue(one, 1)
    assert sent.write() == {}
    sent.read(one)
    assert sent.write() == {}, "nobody has said that it may have moved"
    sent.backlog.unblock(one)
    assert sent.write() == {one: 10_000}
    sent.read(one)
    sent.read(two)
    sent.backlog.unblock(CONNECTION)
    assert sent.write() == {one: 10_000, two: 5_000}
    assert sent.backlog.held == 1


def test_many_words_of_room_cost_one_look():
    sent = Sent(1, stream_window=10_000)
    (one,) = sent.calls
    sent.queue(one, 30_000)
    sent.write()
    for _ in range(1000):
        sent.backlog.unblock(one)
    assert [each.stream_id for each in sent.backlog._movable] == [one]
    assert sent.backlog.settle(False) == []
    assert [each.stream_id for each in sent.backlog._movable] == [one], "not all was written"


def test_room_for_a_stream_without_a_backlog_is_not_remembered():
    sent = Sent(1)
    sent.backlog.unblock(1)
    sent.backlog.unblock(CONNECTION)
    assert sent.backlog.settle(True) == []


def test_a_stream_that_is_over_is_forgotten_with_its_bytes():
    sent = Sent(2)
    one, two = sent.calls
    sent.queue(one, 10)
    sent.queue(two, 20)
    assert sent.backlog.remove(one) == 10
    assert sent.backlog.remove(one) == 0
    assert sent.backlog.held == 20
    assert sent.write() == {two: 20}


def test_streams_that_end_between_two_writes_are_not_looked_at():
    sent = Sent(2, stream_window=10_000)
    one, two = sent.calls
    sent.queue(one, 30_000)
    sent.queue(two, 30_000)
    assert sent.backlog.remove(one) == 30_000
    assert sent.write() == {two: 10_000}
    assert sent.backlog.held == 20_000


def test_bytes_of_a_stream_that_was_reset_count_as_taken():
    sent = Sent(1)
    (one,) = sent.calls
    sent.queue(one, 10)
    sent.session.reset(one, 8)
    assert sent.write() == {one: 10}
    assert sent.backlog.held == 0


# Writing


class Pausing(FakeTransport):
    """Full after so many writes."""

    def __init__(self, link: Link, writes: int) -> None:
        super().__init__()
        self.link = link
        self.left = writes

    def write(self, data: bytes) -> None:
        super().write(data)
        self.left -= 1
        if self.left == 0:
            self.link.pause_writing()


@pytest.fixture
def link():
    return Link(FlushQueue(FakeLoop().call_soon))


def large(streams: int = 10) -> Sent:
    """More than one write: 600,000 bytes."""
    sent = Sent(streams, connection_window=1 << 20)
    for each in sent.calls:
        sent.queue(each, 60_000)
    return sent


def test_what_fits_is_written_at_once(link):
    transport = FakeTransport()
    link.open(transport)
    sent = large(4)
    assert write_out(link, sent.session, sent.backlog.held)
    assert [len(each) > 240_000 for each in transport.writes] == [True]


def test_what_is_more_is_written_in_chunks(link):
    sent = large()
    transport = FakeTransport()
    link.open(transport)
    assert write_out(link, sent.session, sent.backlog.held)
    first, second, last = [len(each) for each in transport.writes]
    assert (first, second) == (CHUNK, CHUNK)
    assert 600_000 < first + second + last < 605_000
    assert write_out(link, sent.session, sent.backlog.held)
    assert len(transport.writes) == 3


def test_writing_stops_when_the_transport_is_full(link):
    sent = large()
    transport = Pausing(link, 2)
    link.open(transport)
    assert not write_out(link, sent.session, sent.backlog.held)
    assert [len(each) for each in transport.writes] == [CHUNK, CHUNK]
    link.resume_writing()
    assert write_out(link, sent.session, sent.backlog.held)


def test_nothing_is_written_without_a_transport(link):
    sent = Sent(1)
    assert not write_out(link, sent.session, sent.backlog.held)
    assert sent.session.has_output
