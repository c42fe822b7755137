import asyncio

import pytest

from sidecar.protocol.detect import DUBBO, HTTP1, HTTP2
from sidecar.protocol.http2.frames import PREFACE
from sidecar.proxy.detect import SILENCE, Entrance, Lobby
from sidecar.settings.schema import Listener
from sidecar.telemetry.counters import Counters
from tests.fixtures.proxy_rig import FakeTransport

SLOW = 10.0
REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
FRAME = b"\xda\xbb\xc2\0" + bytes(12)


class Owner(asyncio.Protocol):
    """Stands for a connection whose protocol is known."""

    def __init__(self, word, listener):
        self.word = word
        self.listener = listener
        self.transport = None
        self.reads = []

    def connection_made(self, transport):
        assert transport.protocol is self
        self.transport = transport

    def data_received(self, data):
        assert self.transport is not None
        self.reads.append(data)


class Transport(FakeTransport):
    """A connection that knows whose it is."""

    def __init__(self, protocol):
        super().__init__()
        self.protocol = protocol

    def set_protocol(self, protocol):
        self.protocol = protocol


class Rig:
    """A lobby, one listener and a clock that is moved by hand."""

    def __init__(self, *words):
        self.now = 1000.0
        self.counters = Counters()
        self.owners = []
        self.lobby = Lobby(None, lambda: self.now, self.counters, SLOW)
        self.listener = Listener()
        makers = {word: self._maker(word) for word in words}
        self.entrance = Entrance(self.listener, makers, None)

    def _maker(self, word):
        def make(listener):
            self.owners.append(Owner(word, listener))
            return self.owners[-1]

        return make

    def connect(self):
        protocol = self.entrance.accept(self.lobby)
        transport = Transport(protocol)
        protocol.connection_made(transport)
        return transport

    def closed(self):
        return {label: count for (_, label), count in self.counters.named.items()}


@pytest.fixture
def rig():
    return Rig(DUBBO, HTTP2, HTTP1)


@pytest.mark.parametrize(
    ("data", "word"), [(FRAME, DUBBO), (PREFACE + b"\0\0", HTTP2), (REQUEST, HTTP1)]
)
def test_a_split_anywhere_changes_nothing(data, word):
    for cut in range(1, len(data)):
        rig = Rig(DUBBO, HTTP2, HTTP1)
        transport = rig.connect()
        for part in (data[:cut], data[cut:]):
            transport.protocol.data_received(part)
        (owner,) = rig.owners
        assert (owner.word, owner.listener) == (word, rig.listener)
        assert b"".join(owner.reads) == data
        assert len(rig.lobby) == 0
        assert not transport.is_closing


def test_byte_by_byte(rig):
    transport = rig.connect()
    for byte in PREFACE + b"xyz":
        transport.protocol.data_received(bytes([byte]))
    (owner,) = rig.owners
    assert owner.word == HTTP2
    assert owner.reads == [PREFACE, b"x", b"y", b"z"]


def test_those_that_wait_are_counted(rig):
    transports = [rig.connect() for _ in range(3)]
    assert len(rig.lobby) == 3
    transports[0].protocol.data_received(REQUEST)
    transports[1].protocol.connection_lost(None)
    assert len(rig.lobby) == 1
    assert rig.closed() == {}


def test_what_is_not_known_is_ended_and_counted(rig, caplog):
    transport = rig.connect()
    transport.protocol.data_received(b"\x16\x03\x01")
    assert transport.is_aborted
    assert rig.closed() == {"unknown_protocol": 1}
    assert len(rig.lobby) == 0
    transport.protocol.data_received(b"more")
    transport.protocol.connection_lost(None)
    rig.lobby.check(rig.now + 1000)
    assert rig.closed() == {"unknown_protocol": 1}
    (record,) = caplog.records
    assert record.getMessage() == (
        "a consumer's connection to 127.0.0.1:20880 was ended: unknown_protocol"
        " (it begins with 16 03 01)"
    )


def test_dubbo_is_not_spoken_where_it_is_not():
    rig = Rig(HTTP2, HTTP1)
    transport = rig.connect()
    transport.protocol.data_received(FRAME)
    assert transport.is_aborted
    assert rig.closed() == {"unknown_protocol": 1}


def test_a_listener_of_one_protocol_asks_for_no_bytes():
    rig = Rig(DUBBO)
    transport = rig.connect()
    assert transport.protocol is rig.owners[0]
    assert len(rig.lobby) == 0


def test_a_consumer_that_says_nothing_is_ended_in_time():
    rig = Rig(HTTP2, HTTP1)
    transport = rig.connect()
    transport.protocol.data_received(PREFACE[:3])
    rig.now += SLOW - 0.01
    rig.lobby.check(rig.now)
    assert not transport.is_closing
    rig.now += 0.01
    rig.lobby.check(rig.now)
    assert transport.is_aborted
    assert rig.closed() == {"slow_handshake": 1}


def test_more_bytes_do_not_win_time(rig):
    transport = rig.connect()
    for byte in PREFACE[:3]:
        rig.lobby.check(rig.now)
        assert not transport.is_closing
        transport.protocol.data_received(bytes([byte]))
        rig.now += SLOW / 3
    rig.lobby.check(rig.now)
    assert transport.is_aborted


def test_an_idle_dubbo_consumer_may_be_silent_for_three_heartbeats(rig):
    transport = rig.connect()
    rig.now += SILENCE - 0.01
    rig.lobby.check(rig.now)
    assert not transport.is_closing
    rig.now += 0.01
    rig.lobby.check(rig.now)
    assert transport.is_aborted
    assert rig.closed() == {"slow_handshake": 1}


def test_a_late_beginning_has_less_than_the_usual_time(rig):
    transport = rig.connect()
    rig.now += SILENCE - 1
    transport.protocol.data_received(PREFACE[:1])
    rig.now += 1
    rig.lobby.check(rig.now)
    assert transport.is_aborted


async def test_the_end_of_the_lobby_is_the_end_of_all_that_wait(rig):
    transports = [rig.connect() for _ in range(2)]
    transports[0].protocol.data_received(FRAME)
    rig.lobby.close()
    await rig.lobby.stop()
    assert [each.is_aborted for each in transports] == [False, True]
    assert rig.closed() == {}
