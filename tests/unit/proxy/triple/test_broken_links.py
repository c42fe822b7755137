"""What a peer breaks ends once, with a last word, on both sides."""

from __future__ import annotations

import pytest

from sidecar.protocol.http2 import frames
from sidecar.protocol.http2.limits import SessionLimits
from sidecar.protocol.http2.session import Session
from sidecar.proxy.link import FlushQueue
from sidecar.proxy.timer import DeadlineTimer
from sidecar.proxy.triple.downstream import LINGER, Downstream, Patience, RequestHandler
from sidecar.proxy.triple.paths import Paths
from sidecar.proxy.triple.settlement import TripleSettlement
from sidecar.proxy.triple.upstream import Manner, Upstream, UpstreamOwner
from sidecar.resilience.liveness import Liveness
from sidecar.telemetry.counters import Counters
from tests.fixtures.http2_peers import GOAWAY, frames_of
from tests.fixtures.stage import FakeLoop, FakeTransport

LIMITS = SessionLimits(
    header_size=65536, header_count=512, continuations=16, resets=200, control_frames=1000,
    stream_window=1 << 20, connection_window=1 << 24, max_streams=100,
)  # fmt: skip
SETTINGS = bytes(3) + b"\x04" + bytes(5)
# WINDOW_UPDATE of the connection by zero: an error of the whole connection (RFC 9113 6.9).
BROKEN = (4).to_bytes(3, "big") + b"\x08" + bytes(5) + bytes(4)


class Handler(RequestHandler):
    def __init__(self):
        self.lost = 0

    def consumer_lost(self, consumer, now):
        self.lost += 1


class Owner(UpstreamOwner):
    def __init__(self):
        self.lost_links = []

    def lost(self, link, now):
        self.lost_links.append(link)


@pytest.fixture
def loop():
    return FakeLoop()


@pytest.fixture
def transport():
    return FakeTransport()


def kinds(data):
    return [kind for kind, *_ in frames_of(data)]


def clock():
    return 1.0


def downstream(loop, transport, handler):
    queue = FlushQueue(loop.call_soon)
    link = Downstream(
        handler, queue, clock, Session(True, LIMITS), Patience(10.0, 3600.0, 65536), Paths({}, "")
    )
    link.connection_made(transport)
    loop.turn()
    return link


def test_a_consumer_that_breaks_the_rules_is_closed_once(loop, transport):
    handler = Handler()
    link = downstream(loop, transport, handler)
    link.data_received(frames.PREFACE + SETTINGS + BROKEN)
    loop.turn()
    assert link.is_closed
    assert kinds(transport.writes[-1])[-1] == GOAWAY
    written = len(transport.writes)
    loop.turn()
    link.connection_lost(None)
    assert len(transport.writes) == written
    assert handler.lost == 1


def test_a_consumer_that_breaks_the_rules_is_read_for_a_while(loop, transport):
    """Else the last word could be lost on its way."""
    link = downstream(loop, transport, Handler())
    link.data_received(frames.PREFACE + SETTINGS + BROKEN)
    link.give_way()
    loop.turn()
    link.data_received(SETTINGS)
    loop.turn()
    assert transport.has_eof
    assert transport.is_reading
    assert not transport.is_closing
    link.check(clock() + LINGER - 0.1, 0.0)
    assert not transport.is_closing
    link.check(clock() + LINGER, 0.0)
    assert transport.is_aborted


def test_a_consumer_that_is_let_go_is_closed_once(loop, transport):
    link = downstream(loop, transport, Handler())
    link.data_received(frames.PREFACE + SETTINGS)
    link.leave()
    loop.turn()
    link.on_ping_ack()
    loop.turn()
    assert link.is_closed
    assert kinds(transport.writes[-1])[-1] == GOAWAY


def upstream(loop, transport, owner):
    timer = DeadlineTimer(lambda *_: None, clock)
    link = Upstream(
        owner, "192.0.2.1:50051", FlushQueue(loop.call_soon), clock,
        TripleSettlement(timer, Counters(), clock), Session(False, LIMITS),
        Liveness(60.0, 180.0, 1.0), True, Manner("", False, 1 << 23, 65536), 1e9,
    )  # fmt: skip
    link.connection_made(transport)
    loop.turn()
    return link


def test_a_provider_that_breaks_the_rules_is_closed_once(loop, transport):
    owner = Owner()
    link = upstream(loop, transport, owner)
    link.data_received(SETTINGS + BROKEN)
    loop.turn()
    assert link.is_closed
    assert kinds(transport.writes[-1])[-1] == GOAWAY
    assert owner.lost_links == [link]


def test_a_quiet_provider_connection_closes_with_a_word(loop, transport):
    link = upstream(loop, transport, Owner())
    link.data_received(SETTINGS)
    loop.turn()
    link.close()
    assert link.is_closed
    assert kinds(transport.writes[-1])[-1] == GOAWAY
