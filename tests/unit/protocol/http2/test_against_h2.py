"""The session against h2, an implementation that shares no code with nghttp2."""

from __future__ import annotations

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    PingAckReceived,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from sidecar.protocol.http2 import codes
from tests.fixtures.http2_peers import REQUEST, RESPONSE, TRAILERS, End

SIZES = [1 << 24, 1, 13, 5000]


class Peer:
    """An h2 connection that acknowledges what it reads."""

    def __init__(self, is_client: bool) -> None:
        self.connection = H2Connection(H2Configuration(client_side=is_client, header_encoding=None))
        self.connection.initiate_connection()
        self.events: list[Event] = []
        self.bodies: dict[int, bytearray] = {}

    def feed(self, data: bytes) -> None:
        for event in self.connection.receive_data(data):
            self.events.append(event)
            if isinstance(event, DataReceived):
                self.bodies.setdefault(event.stream_id, bytearray()).extend(event.data)
                self.connection.acknowledge_received_data(
                    event.flow_controlled_length, event.stream_id
                )

    def heard(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def pump(end: End, peer: Peer, size: int = 1 << 24) -> None:
    moved = True
    while moved:
        sent, received = end.output(), peer.connection.data_to_send()
        for at in range(0, len(sent), size):
            peer.feed(sent[at : at + size])
        end.feed(received, size)
        moved = bool(sent or received)


def joined(is_server: bool, size: int = 1 << 24, **changes: int) -> tuple[End, Peer]:
    end, peer = End(is_server, **changes), Peer(is_server)
    pump(end, peer, size)
    end.told()
    peer.events.clear()
    return end, peer


@pytest.mark.parametrize("size", SIZES)
def test_a_server_for_h2(size: int) -> None:
    end, peer = joined(True, size)
    body = bytes(range(256)) * 100
    for stream_id in (1, 3):
        peer.connection.send_headers(stream_id, REQUEST)
        for at in range(0, len(body), 16_384):
            peer.connection.send_data(stream_id, body[at : at + 16_384])
    peer.connection.end_stream(1)
    peer.connection.send_headers(3, ((b"checksum", b"7"),), end_stream=True)
    pump(end, peer, size)
    heard = end.told()
    assert [what for what in heard if what[0] == "headers"] == [
        ("headers", 1, REQUEST, False),
        ("headers", 3, REQUEST, False),
    ]
    assert end.bodies == {1: body, 3: body}
    assert heard[-1] == ("trailers", 3, ((b"checksum", b"7"),))
    for stream_id in (3, 1):
        assert end.session.inform(stream_id, ((b":status", b"103"),))
        assert end.session.respond(stream_id, RESPONSE, False)
        assert end.session.data(stream_id, body * 3, False)
        assert end.session.trailers(stream_id, TRAILERS)
    pump(end, peer, size)
    assert peer.bodies == {1: body * 3, 3: body * 3}
    assert len(peer.heard(InformationalResponseReceived)) == 2
    assert [tuple(event.headers) for event in peer.heard(ResponseReceived)] == [RESPONSE] * 2
    assert [tuple(event.headers) for event in peer.heard(TrailersReceived)] == [TRAILERS] * 2
    assert len(peer.heard(StreamEnded)) == 2
    assert end.closed == {1: 0, 3: 0}


@pytest.mark.parametrize("size", SIZES)
def test_a_client_of_h2(size: int) -> None:
    end, peer = joined(False, size, stream_window=65_535, connection_window=65_535)
    body = bytes(range(256)) * 100
    for _ in range(2):
        stream_id = end.session.request(REQUEST, False)
        assert end.session.data(stream_id, body * 3, False)
        assert end.session.trailers(stream_id, ((b"checksum", b"7"),))
    pump(end, peer, size)
    assert [tuple(event.headers) for event in peer.heard(RequestReceived)] == [REQUEST] * 2
    assert peer.bodies == {1: body * 3, 3: body * 3}
    assert len(peer.heard(TrailersReceived)) == 2
    for stream_id in (1, 3):
        peer.connection.send_headers(stream_id, RESPONSE)
        left = body * 3
        while left:
            room = min(peer.connection.local_flow_control_window(stream_id), 16_384)
            peer.connection.send_data(stream_id, left[:room])
            left = left[room:]
            pump(end, peer, size)
        peer.connection.send_headers(stream_id, TRAILERS, end_stream=True)
    pump(end, peer, size)
    assert end.bodies == {1: body * 3, 3: body * 3}
    assert end.closed == {1: 0, 3: 0}
    assert [what for what in end.told() if what[0] == "trailers"] == [
        ("trailers", 1, TRAILERS),
        ("trailers", 3, TRAILERS),
    ]


@pytest.mark.parametrize("is_server", [False, True])
def test_resets_both_ways(is_server: bool) -> None:
    end, peer = joined(is_server)
    for _ in range(2):
        if is_server:
            peer.connection.send_headers(peer.connection.get_next_available_stream_id(), REQUEST)
        else:
            end.session.request(REQUEST, False)
    pump(end, peer)
    end.session.reset(1, codes.REFUSED_STREAM)
    peer.connection.reset_stream(3, ErrorCodes.CANCEL)
    pump(end, peer)
    (event,) = peer.heard(StreamReset)
    assert (event.stream_id, event.error_code) == (1, ErrorCodes.REFUSED_STREAM)
    assert end.closed == {1: codes.REFUSED_STREAM, 3: codes.CANCEL}


@pytest.mark.parametrize("is_server", [False, True])
def test_pings_and_goodbyes(is_server: bool) -> None:
    end, peer = joined(is_server)
    end.session.ping(b"abcdefgh")
    peer.connection.ping(b"12345678")
    pump(end, peer)
    assert end.told() == [("ping_ack",)]
    assert [event.ping_data for event in peer.heard(PingAckReceived)] == [b"12345678"]
    end.session.goaway(codes.NO_ERROR)
    pump(end, peer)
    (event,) = peer.heard(ConnectionTerminated)
    assert (event.error_code, event.last_stream_id) == (ErrorCodes.NO_ERROR, 0)
    assert end.session.broken == "closed"


def test_a_peer_that_says_goodbye() -> None:
    end, peer = joined(False)
    end.session.request(REQUEST, True)
    end.session.request(REQUEST, True)
    pump(end, peer)
    peer.connection.close_connection(ErrorCodes.ENHANCE_YOUR_CALM, last_stream_id=1)
    pump(end, peer)
    assert ("goaway", 1, codes.ENHANCE_YOUR_CALM) in end.told()
    assert end.closed == {3: codes.REFUSED_STREAM}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("word", ["resets", "header_size"])
def test_a_farewell_is_understood(word: str, size: int) -> None:
    end, peer = joined(True)
    peer.connection.send_headers(1, REQUEST)
    pump(end, peer)
    end.session.fail(word)
    farewell = end.session.farewell()
    for at in range(0, len(farewell), size):
        peer.feed(farewell[at : at + size])
    (event,) = peer.heard(ConnectionTerminated)
    assert (event.error_code, event.last_stream_id) == (ErrorCodes.ENHANCE_YOUR_CALM, 1)


@pytest.mark.parametrize("size", SIZES)
def test_garbage_after_a_request(size: int) -> None:
    end, peer = joined(True)
    peer.connection.send_headers(1, REQUEST, end_stream=True)
    end.feed(peer.connection.data_to_send() + b"\xff" * 50, size)
    assert end.told() == [("headers", 1, REQUEST, True)]
    peer.feed(end.output())
    assert [event.error_code for event in peer.heard(ConnectionTerminated)] == [
        ErrorCodes.FRAME_SIZE_ERROR
    ]
    assert end.session.broken == "protocol"
