"""One HTTP/2 connection: two sessions against each other, and frames made by hand."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import ngh2
import pytest

from sidecar.protocol.http2 import codes
from sidecar.protocol.http2.session import UNTOLD_STREAMS, Session
from tests.fixtures.http2_peers import (
    ACK,
    BLOCK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PUSH_PROMISE,
    REQUEST,
    RESPONSE,
    RST_STREAM,
    SETTINGS,
    TRAILERS,
    WINDOW_UPDATE,
    End,
    Pair,
    frame,
    frames_of,
    open_stream,
)
from tests.vectors.loader import messages

VECTORS = messages("http2/frames.txt")
HELLO = PREFACE + VECTORS["empty-settings"] + VECTORS["settings-ack"]


def server(**changes: int) -> End:
    """A provider's end after the handshake, whose client is made by hand."""
    end = End(True, **changes)
    end.output()
    end.feed(HELLO)
    end.output()
    end.told()
    return end


def client(**changes: int) -> End:
    """A consumer's end after the handshake, whose server is made by hand."""
    end = End(False, **changes)
    end.output()
    end.feed(VECTORS["empty-settings"] + VECTORS["settings-ack"])
    end.output()
    end.told()
    return end


def goodbye(end: End) -> tuple[int, int]:
    """Return last stream id and code of the GOAWAY that ends a broken connection."""
    (*_, (kind, _, _, payload)) = frames_of(end.session.farewell())
    assert kind == GOAWAY
    assert end.session.farewell() == b""
    return int.from_bytes(payload[:4], "big"), int.from_bytes(payload[4:8], "big")


def reply_to(end: End, stream_id: int, body: bytes = b"hi bob") -> None:
    assert end.session.respond(stream_id, RESPONSE, False)
    assert end.session.data(stream_id, body, False)
    assert end.session.trailers(stream_id, TRAILERS)


# Exchanges


@pytest.mark.parametrize("size", [1 << 24, 1, 10])
def test_an_exchange(size: int) -> None:
    pair = Pair()
    stream_id = pair.client.session.request(REQUEST, False)
    assert stream_id == 1
    assert pair.client.session.data(1, b"bob", True)
    pair.pump(size)
    assert pair.server.told() == [("headers", 1, REQUEST, False), ("data", 1, b"bob", True)]
    reply_to(pair.server, 1)
    pair.pump(size)
    assert pair.server.told() == [("closed", 1, 0)]
    assert pair.client.told() == [
        ("headers", 1, RESPONSE, False),
        ("data", 1, b"hi bob", False),
        ("trailers", 1, TRAILERS),
        ("closed", 1, 0),
    ]
    assert not pair.client.session.has_output
    assert not pair.server.session.has_output


def test_a_stream_ends_for_the_server_when_its_end_was_taken() -> None:
    pair = Pair()
    pair.client.session.request(REQUEST, True)
    pair.pump()
    assert pair.server.told() == [("headers", 1, REQUEST, True)]
    assert pair.server.session.respond(1, RESPONSE, True)
    assert pair.server.session.has_output
    assert pair.server.session.take(1000)
    assert pair.server.told() == []
    pair.server.session.deliver(1.0, pair.server)
    assert pair.server.told() == [("closed", 1, 0)]


def test_a_head_alone_can_be_the_whole_response() -> None:
    pair = Pair()
    pair.client.session.request(REQUEST, True)
    pair.pump()
    head = (*RESPONSE, (b"grpc-status", b"14"))
    assert pair.server.session.respond(1, head, True)
    pair.pump()
    assert pair.client.told() == [("headers", 1, head, True), ("closed", 1, 0)]


def test_informational_heads_and_request_trailers() -> None:
    pair = Pair()
    pair.client.session.request(REQUEST, False)
    pair.pump()
    early = ((b":status", b"103"), (b"link", b"x"))
    assert pair.server.session.inform(1, early)
    assert pair.server.session.inform(1, ((b":status", b"100"),))
    pair.pump()
    assert pair.client.told() == [
        ("informational", 1, early),
        ("informational", 1, ((b":status", b"100"),)),
    ]
    assert pair.client.session.trailers(1, ((b"checksum", b"7"),))
    pair.pump()
    assert pair.server.told()[1:] == [("trailers", 1, ((b"checksum", b"7"),))]
    assert pair.server.session.respond(1, RESPONSE, False)
    assert not pair.server.session.inform(1, early)
    assert pair.server.session.end(1)
    pair.pump()
    assert pair.client.told() == [
        ("headers", 1, RESPONSE, False),
        ("data", 1, b"", True),
        ("closed", 1, 0),
    ]


def test_fields_pass_as_they_are() -> None:
    """Repeated names, order, bytes beyond ASCII, and what must never enter a compression table."""
    fields = (
        *REQUEST,
        (b"a-bin", b"AAEC/w"),
        (b"x", b"1"),
        (b"y", b""),
        (b"x", b"\xc3\xa4\xff"),
        ngh2.NeverIndexedHeader(b"authorization", b"secret"),
    )
    pair = Pair()
    pair.client.session.request(list(fields), True)
    pair.pump()
    ((_, _, heard, _),) = pair.server.told()
    assert heard == fields
    assert [type(field) for field in heard] == [type(field) for field in fields]


def test_an_empty_frame_between_others_is_not_told() -> None:
    end = server()
    end.feed(open_stream(1) + frame(DATA, 0, 1) + frame(DATA, 0, 1, b"a"))
    end.feed(frame(DATA, END_STREAM, 1))
    assert end.told()[1:] == [("data", 1, b"a", False), ("data", 1, b"", True)]


@pytest.mark.parametrize("cut", range(1, 40))
def test_frames_in_two_chunks(cut: int) -> None:
    end = server()
    data = open_stream(1) + b"".join(frame(DATA, 0, 1, bytes([at])) for at in range(9))
    data += frame(DATA, END_STREAM, 1)
    end.feed(data[:cut])
    end.feed(data[cut:-cut])
    end.feed(data[-cut:])
    assert end.bodies[1] == bytes(range(9))
    assert end.told()[-1] == ("data", 1, b"", True)


def test_padding_is_not_data_and_returns_its_window() -> None:
    end = server(connection_window=65_535)
    end.feed(open_stream(1))
    for _ in range(300):
        end.feed(frame(DATA, PADDED, 1, b"\xff" + b"x" + bytes(255)))
    assert end.bodies[1] == b"x" * 300
    returned = sum(
        int.from_bytes(payload, "big")
        for kind, _, stream_id, payload in frames_of(end.output())
        if kind == WINDOW_UPDATE and stream_id == 0
    )
    assert returned > 40_000


# What the fleet sends, byte by byte


def test_the_first_bytes_of_a_server() -> None:
    end = End(True, stream_window=1 << 20, connection_window=1 << 24, max_streams=77)
    end.feed(VECTORS["client-preface"] + VECTORS["empty-settings"])
    settings, ack, window = frames_of(end.output())
    values = {
        int.from_bytes(settings[3][at : at + 2], "big"): int.from_bytes(
            settings[3][at + 2 : at + 6], "big"
        )
        for at in range(0, len(settings[3]), 6)
    }
    assert settings[0] == SETTINGS
    assert values == {3: 77, 4: 65_535, 6: 65_536}
    assert window == (WINDOW_UPDATE, 0, 0, ((1 << 24) - 65_535).to_bytes(4, "big"))
    assert ack == (SETTINGS, ACK, 0, b"")


def test_the_first_bytes_of_a_client() -> None:
    end = End(False, stream_window=1 << 40, connection_window=1 << 40)
    output = end.output()
    assert output.startswith(VECTORS["client-preface"])
    settings, window = frames_of(output[len(PREFACE) :])
    assert b"\x00\x02\x00\x00\x00\x00" in settings[3]
    assert b"\x00\x04\x00\x00\xff\xff" in settings[3]
    assert end.session.widest_window == end.session.connection_window == 2**31 - 1
    assert window[3] == (2**31 - 1 - 65_535).to_bytes(4, "big")


def test_a_small_connection_window_needs_no_update() -> None:
    assert [kind for kind, *_ in frames_of(End(True, connection_window=65_535).output())] == [
        SETTINGS
    ]


def test_pings() -> None:
    end = client()
    end.feed(VECTORS["java-graceful-ping"])
    assert end.output() == VECTORS["java-graceful-ping-ack"]
    assert end.session.ping(b"12345678")
    assert end.output() == frame(PING, 0, 0, b"12345678")
    end.feed(frame(PING, ACK, 0, b"12345678"))
    assert end.told() == [("ping_ack",)]


def test_wrapped_messages_and_literal_heads() -> None:
    end = client()
    assert end.session.request(REQUEST, False) == 1
    assert end.session.data(1, VECTORS["wrapped-request"], True)
    sent = frames_of(end.output())
    assert sent[-1] == (DATA, END_STREAM, 1, VECTORS["wrapped-request"])
    response = bytes([0x88])  # :status 200 of the static table
    end.feed(frame(HEADERS, END_HEADERS, 1, response))
    end.feed(frame(DATA, 0, 1, VECTORS["wrapped-response"]) + VECTORS["trailers"])
    assert end.told() == [
        ("headers", 1, ((b":status", b"200"),), False),
        ("data", 1, VECTORS["wrapped-response"], False),
        ("trailers", 1, ((b"grpc-status", b"0"),)),
        ("closed", 1, 0),
    ]


def test_trailers_only() -> None:
    end = client()
    end.session.request(REQUEST, True)
    end.output()
    end.feed(VECTORS["trailers-only"])
    head, closed = end.told()
    assert head[2][2:] == ((b"grpc-status", b"14"), (b"grpc-message", b"no instance"))
    assert head[3]
    assert closed == ("closed", 1, 0)


@pytest.mark.parametrize(("name", "code"), [("reset-cancel", 8), ("reset-refused", 7)])
def test_resets_of_the_peer(name: str, code: int) -> None:
    end = client()
    end.session.request(REQUEST, False)
    end.output()
    end.feed(VECTORS[name])
    assert end.told() == [("closed", 1, code)]
    assert not end.session.data(1, b"x", False)
    assert not end.session.broken


# Streams that are over, and what comes too late


def test_nothing_can_be_done_with_a_stream_that_is_over_or_never_was() -> None:
    pair = Pair()
    pair.client.session.request(REQUEST, True)
    pair.pump()
    pair.server.session.respond(1, RESPONSE, True)
    pair.pump()
    for end in (pair.client, pair.server):
        session = end.session
        for stream_id in (0, 1, 3):
            assert not session.respond(stream_id, RESPONSE, True)
            assert not session.inform(stream_id, RESPONSE)
            assert not session.data(stream_id, b"x", False)
            assert not session.trailers(stream_id, TRAILERS)
            assert not session.end(stream_id)
            assert not session.reset(stream_id, codes.CANCEL)
            assert not session.acknowledge(stream_id, 5)
            assert session.queued(stream_id) == 0
        assert not session.has_output


def test_what_a_stream_does_not_allow() -> None:
    pair = Pair()
    client_session, server_session = pair.client.session, pair.server.session
    assert client_session.request(REQUEST, False) == 1
    assert client_session.request(REQUEST, True) == 3
    assert not client_session.data(3, b"after the end", False)
    assert not client_session.trailers(3, TRAILERS)
    assert not client_session.respond(1, RESPONSE, False)
    assert not client_session.inform(1, RESPONSE)
    assert not client_session.shutdown_notice()
    pair.pump()
    assert not server_session.data(1, b"before the head", False)
    assert server_session.respond(1, RESPONSE, False)
    assert not server_session.respond(1, RESPONSE, False)
    assert server_session.end(1)
    assert not server_session.data(1, b"after the end", False)
    assert server_session.request(REQUEST, True) == 0
    pair.pump()
    assert pair.client.bodies == {1: b""}


def test_a_reset_reaches_the_peer_and_forgets_what_is_queued() -> None:
    pair = Pair()
    pair.client.session.request(REQUEST, False)
    pair.pump()
    reply_to(pair.server, 1)
    assert pair.server.session.queued(1) == 6
    assert pair.server.session.reset(1, codes.CANCEL)
    assert pair.server.session.reset(1, codes.CANCEL)
    pair.pump()
    assert pair.server.closed == {1: codes.CANCEL}
    assert pair.client.closed == {1: codes.CANCEL}
    assert pair.client.bodies == {}
    assert pair.server.session.queued(1) == 0


def test_a_reset_after_take_lets_the_rest_arrive() -> None:
    pair = Pair()
    pair.client.session.request(REQUEST, False)
    pair.pump()
    reply_to(pair.server, 1)
    output = pair.server.output()
    pair.server.session.reset(1, codes.NO_ERROR)
    pair.client.feed(output + pair.server.output())
    assert pair.client.told()[-2:] == [("trailers", 1, TRAILERS), ("closed", 1, 0)]


def test_a_request_that_never_left_is_reset() -> None:
    pair = Pair()
    assert pair.client.session.request(REQUEST, False) == 1
    assert pair.client.session.reset(1, codes.CANCEL)
    pair.pump()
    assert pair.client.told() == [("closed", 1, codes.CANCEL)]
    assert pair.server.told() == []
    assert not pair.server.session.broken


def test_a_lost_connection_is_passed_on_as_an_internal_error() -> None:
    pair = Pair()
    pair.client.session.request(REQUEST, False)
    pair.pump()
    assert pair.server.session.reset(1, codes.CONNECTION_LOST)
    pair.pump()
    assert pair.client.closed == {1: codes.INTERNAL_ERROR}


def test_a_head_too_large_to_send_ends_its_stream_alone() -> None:
    pair = Pair(server=End(True, header_size=1000))
    pair.client.session.request(REQUEST, True)
    pair.client.session.request(REQUEST, True)
    pair.pump()
    assert pair.server.session.respond(1, (*RESPONSE, (b"x", b"y" * 10_000)), False)
    assert pair.server.session.respond(3, RESPONSE, True)
    pair.pump()
    assert pair.server.closed == {1: codes.INTERNAL_ERROR, 3: codes.NO_ERROR}
    assert pair.client.closed == pair.server.closed


def test_data_after_our_reset_returns_its_window() -> None:
    """The peer did not know yet: nobody hears of the data, but the connection goes on."""
    end = server(connection_window=65_535)
    for stream_id in range(1, 41, 2):
        end.feed(open_stream(stream_id))
        assert end.session.reset(stream_id, codes.CANCEL)
        late = frame(DATA, 0, stream_id, bytes(6000))
        end.feed(late[:5000])
        end.output()
        end.feed(late[5000:])
    assert not end.bodies
    end.feed(open_stream(41) + frame(DATA, 0, 41, bytes(9000)))
    assert len(end.bodies[41]) == 9000
    assert not end.session.broken


def test_a_frame_of_a_stream_that_ends_meanwhile_returns_its_window() -> None:
    """Half a DATA frame is here when the stream is reset: all of it counts as read."""
    end = server(connection_window=65_535)
    for stream_id in range(1, 81, 2):
        late = frame(DATA, 0, stream_id, bytes(6000))
        end.feed(open_stream(stream_id) + late[:5000])
        assert end.session.reset(stream_id, codes.CANCEL)
        end.output()
        end.feed(late[5000:])
    assert not end.session.broken
    assert end.session._connection.local_window_size > 65_535 // 2


@pytest.mark.parametrize("size", [1 << 24, 1, 1000])
def test_a_body_longer_than_its_announced_length_returns_its_window(size: int) -> None:
    end = server(connection_window=65_535)
    for stream_id in range(1, 81, 2):
        end.feed(frame(HEADERS, END_HEADERS, stream_id, BLOCK + b"\x00\x0econtent-length\x011"))
        end.feed(frame(DATA, 0, stream_id, bytes(6000)), size)
        end.output()
    assert set(end.closed.values()) == {codes.PROTOCOL_ERROR}
    assert not end.bodies
    assert not end.session.broken
    assert end.session._connection.local_window_size > 65_535 // 2


# How many streams


def test_streams_up_to_the_limit_of_the_peer() -> None:
    pair = Pair(server=End(True, max_streams=3))
    session = pair.client.session
    assert session.max_streams == 3
    assert [session.request(REQUEST, True) for _ in range(5)] == [1, 3, 5, 0, 0]
    assert not session.is_leaving
    pair.pump()
    pair.server.session.respond(3, RESPONSE, True)
    pair.pump()
    assert session.request(REQUEST, True) == 7
    pair.pump()
    assert len(pair.server.told()) == 5


def test_the_limit_of_the_peer_comes_with_its_settings() -> None:
    end = End(False)
    assert end.session.max_streams == UNTOLD_STREAMS
    assert [end.session.request(REQUEST, True) > 0 for _ in range(101)] == [True] * 100 + [False]
    end.feed(frame(SETTINGS))
    assert end.session.max_streams == 2**32 - 1
    end.feed(frame(SETTINGS, 0, 0, bytes([0, 3, 0, 0, 0, 8])))
    assert end.session.max_streams == 8
    end.feed(frame(SETTINGS, 0, 0, bytes([0, 4, 0, 1, 0, 0])))
    assert end.session.max_streams == 8
    assert end.heard == [("settings", 2**32 - 1), ("settings", 8), ("settings", 8)]


def test_a_client_beyond_our_limit_is_refused() -> None:
    end = server(max_streams=2)
    end.feed(open_stream(1) + open_stream(3) + open_stream(5))
    end.output()
    assert [what[1] for what in end.told() if what[0] == "headers"] == [1, 3]
    assert end.session.broken == "streams"


def test_a_connection_without_stream_ids_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Mock()
    made.send_request.side_effect = ngh2.NoAvailableStreamIDError
    monkeypatch.setattr(ngh2, "Connection", lambda role, configuration: made)
    session = End(False).session
    assert session.request(REQUEST, True) == 0
    assert session.is_leaving


# GOAWAY


def test_a_provider_that_leaves() -> None:
    """First a notice, then the last stream it knows: streams above it were not processed."""
    end = client()
    assert [end.session.request(REQUEST, True) for _ in range(3)] == [1, 3, 5]
    end.output()
    end.feed(VECTORS["first-goaway"])
    assert end.told() == [("goaway", 2**31 - 1, 0)]
    assert end.session.is_leaving
    assert end.session.request(REQUEST, True) == 0
    end.feed(frame(GOAWAY, 0, 0, bytes([0, 0, 0, 3, 0, 0, 0, 0])))
    assert set(end.told()) == {("goaway", 3, 0), ("closed", 5, codes.REFUSED_STREAM)}
    head = bytes([0x88])
    end.feed(frame(HEADERS, END_HEADERS | END_STREAM, 1, head))
    assert not end.session.broken
    end.feed(frame(HEADERS, END_HEADERS | END_STREAM, 3, head))
    assert end.closed == {5: codes.REFUSED_STREAM, 1: 0, 3: 0}
    assert end.session.broken == "closed"
    assert end.session.farewell() == b""


def test_a_provider_that_leaves_with_a_complaint() -> None:
    end = client()
    end.feed(frame(GOAWAY, 0, 0, bytes([0, 0, 0, 0, 0, 0, 0, 11]) + b"too_many_pings"))
    assert end.told() == [("goaway", 0, codes.ENHANCE_YOUR_CALM)]
    assert end.session.broken == "closed"


def test_leaving_a_consumer_in_two_steps() -> None:
    pair = Pair()
    pair.client.session.request(REQUEST, False)
    pair.pump()
    assert pair.server.session.shutdown_notice()
    notice = pair.server.output()
    assert frames_of(notice) == [(GOAWAY, 0, 0, bytes.fromhex("7fffffff00000000"))]
    assert pair.client.session.request(REQUEST, True) == 3  # it crossed the notice
    crossing = pair.client.output()
    pair.client.feed(notice)
    pair.server.feed(crossing)
    pair.pump()
    assert pair.client.session.request(REQUEST, True) == 0
    assert pair.server.session.goaway(codes.NO_ERROR)
    pair.pump()
    assert ("goaway", 3, 0) in pair.client.told()
    for stream_id in (1, 3):
        assert not pair.server.session.broken
        pair.server.session.respond(stream_id, RESPONSE, True)
        pair.client.session.end(stream_id)
        pair.pump()
    for end in (pair.client, pair.server):
        assert end.closed == {1: 0, 3: 0}
        assert end.session.broken == "closed"
        assert end.session.farewell() == b""


def test_a_notice_to_an_idle_consumer_ends_nothing_yet() -> None:
    pair = Pair()
    pair.server.session.shutdown_notice()
    pair.server.output()
    assert pair.server.session.broken == ""
    pair.client.session.request(REQUEST, True)
    pair.pump()
    assert ("headers", 1, REQUEST, True) in pair.server.told()


def test_nothing_is_said_on_a_connection_that_is_closed() -> None:
    pair = Pair()
    pair.server.session.goaway(codes.NO_ERROR)
    pair.pump()
    for end in (pair.client, pair.server):
        assert end.session.broken == "closed"
        assert not end.session.ping(bytes(8))
        assert not end.session.goaway(codes.NO_ERROR)
        assert not end.session.shutdown_notice()
        assert end.session.request(REQUEST, True) == 0
        assert not end.session.respond(1, RESPONSE, False)
        assert not end.session.data(1, b"x", False)
        assert not end.session.trailers(1, RESPONSE)
        assert end.session.take(100) == b""


# Connections that break


@pytest.mark.parametrize("size", [1 << 20, 1])
@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xda\xbb\xc2", b"PRI *\r"]
)
def test_garbage_instead_of_a_preface(garbage: bytes, size: int) -> None:
    end = End(True)
    end.output()
    end.feed(garbage, size)
    assert end.session.broken == "protocol"
    assert end.output() == b""
    assert not end.session.has_output
    assert goodbye(end) == (0, codes.PROTOCOL_ERROR)


@pytest.mark.parametrize("size", [1 << 20, 1])
def test_garbage_after_an_exchange(size: int) -> None:
    """nghttp2 answers with a GOAWAY of its own, so there is no other one."""
    pair = Pair()
    pair.client.session.request(REQUEST, True)
    pair.pump()
    pair.server.feed(b"\xff" * 100, size)
    output = frames_of(pair.server.output())
    assert [(kind, payload[:8].hex()) for kind, _, _, payload in output] == [
        (GOAWAY, "0000000100000006")
    ]
    assert pair.server.session.broken == "protocol"
    assert pair.server.session.farewell() == b""


def test_what_came_before_a_failure_is_told_first() -> None:
    """The connection has failed when the receiver hears: whatever it calls returns False."""
    end = End(True, header_size=1000)
    end.output()
    said: list[object] = []

    def try_everything(what: tuple[object, ...]) -> None:
        session = end.session
        said.extend(
            [
                session.respond(1, RESPONSE, False),
                session.inform(1, RESPONSE),
                session.data(1, b"x", False),
                session.trailers(1, TRAILERS),
                session.reset(1, codes.CANCEL),
                session.acknowledge(1, 1),
                session.ping(bytes(8)),
                session.goaway(codes.NO_ERROR),
                session.request(REQUEST, True),
                session.queued(1),
                session.has_output,
            ]
        )

    end.acknowledges = False
    end.feed(HELLO + open_stream(1) + frame(DATA, 0, 1, b"abc"))
    end.heard.clear()
    end.react = try_everything
    end.feed(
        frame(SETTINGS, 0, 0, bytes([0, 3, 0, 0, 0, 8]))
        + frame(DATA, 0, 1, b"def")
        + frame(HEADERS, END_HEADERS, 3, BLOCK + b"\x00\x01x\x01y" * 200)
    )
    assert end.heard == [("settings", 8), ("data", 1, b"def", False)]
    assert said
    assert not any(said)
    assert end.session.broken == "limit"
    assert goodbye(end) == (1, codes.ENHANCE_YOUR_CALM)


def test_a_receiver_may_break_the_connection() -> None:
    end = server()
    end.react = lambda _: end.session.fail("header_size")
    end.feed(open_stream(1) + open_stream(3))
    assert [what[1] for what in end.told()] == [1]
    assert end.session.broken == "header_size"
    end.session.fail("another")
    assert end.session.broken == "header_size"
    end.feed(open_stream(5))
    assert end.told() == []
    assert goodbye(end) == (3, codes.ENHANCE_YOUR_CALM)


def test_a_farewell_comes_after_the_frame_that_was_cut() -> None:
    pair = Pair()
    pair.client.session.request(REQUEST, True)
    pair.pump()
    pair.server.session.respond(1, RESPONSE, False)
    pair.server.session.data(1, bytes(40_000), False)
    cut = pair.server.output(20_000)
    assert len(cut) == 20_000
    pair.server.session.fail("control")
    assert not pair.server.session.has_output
    assert pair.server.output() == b""
    rest = pair.server.session.farewell()
    sent = frames_of(cut + rest)
    assert sent[-1][0] == GOAWAY
    assert all(kind in (HEADERS, DATA) for kind, *_ in sent[:-1])


def test_no_farewell_into_the_middle_of_a_lost_frame() -> None:
    end = server(header_size=1000)
    end.feed(open_stream(1))
    end.session.respond(1, RESPONSE, False)
    end.session.data(1, bytes(1000), False)
    assert len(end.output(200)) == 200
    end.feed(frame(HEADERS, END_HEADERS, 3, BLOCK + b"\x00\x01x\x01y" * 200))
    assert end.session.broken == "limit"
    assert end.session.farewell() == b""


@pytest.mark.parametrize("write", [lambda session: session.take(100), Session.take_all])
def test_a_failure_while_writing(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[Session], bytes]
) -> None:
    made = Mock()
    made.data_to_send.side_effect = ngh2.InternalError
    monkeypatch.setattr(ngh2, "Connection", lambda role, configuration: made)
    session = End(True).session
    assert write(session) == b""
    assert session.broken == "protocol"
    assert write(session) == b""


def test_the_streams_of_a_lost_connection_end_once() -> None:
    pair = Pair()
    for _ in range(3):
        pair.client.session.request(REQUEST, True)
    pair.pump()
    pair.server.session.respond(3, RESPONSE, True)
    pair.pump()
    for end in (pair.client, pair.server):
        end.told()
        end.session.close_all(end)
        assert sorted(end.told()) == [
            ("closed", 1, codes.CONNECTION_LOST),
            ("closed", 5, codes.CONNECTION_LOST),
        ]
        end.session.close_all(end)
        assert end.told() == []
        assert end.session.broken == "closed"
        assert end.session.farewell() == b""


def test_streams_of_a_broken_connection_end_with_the_code_of_the_caller() -> None:
    end = server()
    end.feed(open_stream(1) + b"\x00\x00\x08\x06\x00\x00\x00\x00\x01" + bytes(8))
    end.output()
    assert end.session.broken == "protocol"
    end.session.close_all(end, codes.CANCEL)
    assert end.closed == {1: codes.CANCEL}


# Peers that break the rules of a stream


def test_a_malformed_request_is_not_heard_of() -> None:
    end = server()
    end.feed(frame(HEADERS, END_HEADERS, 1, b"\x00\x01x\x01y") + open_stream(3))
    assert frames_of(end.output())[0] == (RST_STREAM, 0, 1, b"\x00\x00\x00\x01")
    assert [what[:2] for what in end.told()] == [("headers", 3)]
    assert not end.session.broken


def test_a_malformed_response_ends_its_stream() -> None:
    end = client()
    end.session.request(REQUEST, True)
    end.output()
    end.feed(frame(HEADERS, END_HEADERS, 1, b"\x00\x01x\x01y"))
    end.output()
    assert end.told() == [("closed", 1, codes.PROTOCOL_ERROR)]


def test_pushed_streams_are_refused() -> None:
    end = client()
    end.session.request(REQUEST, True)
    end.output()
    end.feed(frame(PUSH_PROMISE, END_HEADERS, 1, b"\x00\x00\x00\x02" + BLOCK))
    end.output()
    assert end.session.broken == "protocol"
    early = End(False)  # the provider cannot know our settings yet
    early.session.request(REQUEST, True)
    early.output()
    early.feed(frame(SETTINGS))
    early.feed(frame(PUSH_PROMISE, END_HEADERS, 1, b"\x00\x00\x00\x02" + BLOCK))
    assert (RST_STREAM, 0, 2, b"\x00\x00\x00\x08") in frames_of(early.output())
    assert early.heard == [("settings", 2**32 - 1)]


def test_resets_that_the_peer_makes_necessary_are_counted() -> None:
    """Trailers without an end are an error of their stream, which we have to reset."""
    end = server(resets=5)
    for stream_id in range(1, 13, 2):
        assert not end.session.broken
        end.feed(open_stream(stream_id))
        end.feed(frame(HEADERS, END_HEADERS, stream_id, b"\x00\x01x\x01y"))
        end.output()
    assert end.closed == dict.fromkeys(range(1, 13, 2), codes.PROTOCOL_ERROR)
    assert end.session.broken == "resets"
    assert goodbye(end) == (11, codes.ENHANCE_YOUR_CALM)


def test_streams_that_never_came_to_be_are_counted() -> None:
    """Refused because the limit was not acknowledged yet, or malformed."""
    end = End(True, resets=5, max_streams=2)
    end.output()
    end.feed(PREFACE + VECTORS["empty-settings"] + b"".join(map(open_stream, range(1, 13, 2))))
    assert [each[0] for each in frames_of(end.output())].count(RST_STREAM) == 4
    bad = BLOCK + b"\0\x01A\x01x"
    end.feed(frame(HEADERS, END_HEADERS, 13, bad))
    assert not end.session.broken
    end.feed(frame(HEADERS, 0, 15, bad))
    assert not end.session.broken
    end.feed(frame(CONTINUATION, END_HEADERS, 15))
    assert end.session.broken == "resets"


def test_streams_after_the_goodbye_are_not_counted() -> None:
    end = server(resets=5)
    end.feed(open_stream(1))
    assert end.session.goaway(codes.NO_ERROR)
    end.output()
    end.feed(b"".join(map(open_stream, range(3, 103, 2))))
    assert not end.session.broken
    assert [what[1] for what in end.told() if what[0] == "headers"] == [1]


def test_padding_alone_is_counted() -> None:
    end = server(control_frames=5)  # of which two are used
    end.feed(open_stream(1))  # for two more
    padding = frame(DATA, PADDED, 1, b"\x02\0\0")
    for _ in range(5):
        end.feed(padding + frame(DATA, PADDED, 1, b"\x02x\0\0"))
    assert not end.session.broken
    end.feed(padding)
    assert end.session.broken == "control"
    assert end.bodies[1] == b"xxxxx"


def test_our_own_resets_are_not_counted() -> None:
    end = server(resets=5)
    for stream_id in range(1, 41, 2):
        end.feed(open_stream(stream_id))
        end.session.reset(stream_id, codes.CANCEL)
        end.output()
    assert len(end.closed) == 20
    assert not end.session.broken


# Field cases


def test_fc_65_a_reset_storm_is_ended() -> None:
    end = server()
    storm = b"".join(
        open_stream(stream_id) + frame(RST_STREAM, 0, stream_id, b"\x00\x00\x00\x08")
        for stream_id in range(1, 40_001, 2)
    )
    end.feed(storm, 65_536)
    assert end.session.broken == "resets"
    heard = {what[1] for what in end.told() if what[0] == "headers"}
    assert len(heard) == 201
    assert goodbye(end)[1] == codes.ENHANCE_YOUR_CALM
    end.session.close_all(end)
    assert end.closed.keys() == heard


def test_fc_65_resets_now_and_then_are_not_punished() -> None:
    end = server()
    for number in range(150):
        end.now += 0.4
        end.feed(open_stream(2 * number + 1))
        end.feed(frame(RST_STREAM, 0, 2 * number + 1, b"\x00\x00\x00\x08"))
    assert not end.session.broken
    assert list(end.closed.values()) == [codes.CANCEL] * 150


def test_fc_66_a_header_list_without_end() -> None:
    end = server()
    end.feed(frame(HEADERS, 0, 1, BLOCK))
    assert end.session.header_since == end.now
    piece = frame(CONTINUATION, 0, 1, (b"\x00\x01x\x7f\x81\x7e" + b"y" * 16_381)[:16_384])
    for _ in range(7):
        end.feed(piece)
        assert not end.session.broken
    end.feed(piece)
    assert end.session.broken == "header_size"
    assert end.told() == []
    assert goodbye(end)[1] == codes.ENHANCE_YOUR_CALM


def test_fc_66_empty_pieces_without_end() -> None:
    end = server()
    end.feed(frame(HEADERS, 0, 1, BLOCK) + frame(CONTINUATION, 0, 1) * 16)
    assert not end.session.broken
    end.feed(frame(CONTINUATION, 0, 1))
    assert end.session.broken == "continuation"
    assert goodbye(end)[1] == codes.ENHANCE_YOUR_CALM


def test_fc_66_a_legal_list_in_three_frames() -> None:
    end = server()
    block = BLOCK + b"".join(
        b"\x00\x05big-" + bytes([97 + number]) + b"\x7f\x81\x4f" + b"y" * 10_240
        for number in range(4)
    )
    assert len(block) > 40_000
    end.feed(frame(HEADERS, END_STREAM, 1, block[:16_384]))
    end.feed(frame(CONTINUATION, 0, 1, block[16_384:32_768]))
    end.feed(frame(CONTINUATION, END_HEADERS, 1, block[32_768:]))
    ((_, _, fields, is_end),) = end.told()
    assert is_end
    assert [len(value) for _, value in fields[6:]] == [10_240] * 4
    assert end.session.header_since == 0.0


@pytest.mark.parametrize("size", [20, 70, 120])
def test_fc_67_large_request_heads_reach_the_caller(size: int) -> None:
    """The limit is the caller's, for each stream: the connection goes on, compression in step."""
    pair = Pair(End(False, header_size=1 << 20))
    large = (*REQUEST, *((b"key-%d" % number, b"v" * 1000) for number in range(size)))
    for fields in (large, REQUEST, large):
        pair.client.session.request(fields, True)
        pair.pump()
    assert [what[2] for what in pair.server.told()] == [large, REQUEST, large]


def test_fc_71_a_message_larger_than_the_windows() -> None:
    """Windows are returned as bytes are taken, not by whole messages."""
    size = 94_491
    pair = Pair(End(False, stream_window=65_535, connection_window=65_535))
    pair.client.session.request(REQUEST, True)
    pair.pump()
    reply_to(pair.server, 1, b"r" * size)
    pair.pump()
    assert pair.client.bodies[1] == b"r" * size
    assert pair.client.closed == {1: 0}


# Windows


def test_data_that_nobody_takes_stops_the_peer() -> None:
    pair = Pair(server=End(True, False, stream_window=50_000, connection_window=75_000))
    session = pair.client.session
    for stream_id in (1, 3):
        session.request(REQUEST, False)
        session.data(stream_id, bytes(300_000), True)
    pair.pump()
    assert sorted(map(len, pair.server.bodies.values())) == [25_000, 50_000]
    assert session.queued(1) + session.queued(3) >= 525_000 - 2 * 16_384
    assert not session.has_output
    while any(len(pair.server.bodies[stream_id]) < 300_000 for stream_id in (1, 3)):
        before = sum(map(len, pair.server.bodies.values()))
        for stream_id in (1, 3):
            pair.server.acknowledge(stream_id)
        pair.pump()
        assert sum(map(len, pair.server.bodies.values())) > before
    assert session.queued(1) == session.queued(3) == 0


def test_returned_windows_are_told() -> None:
    """Zero stands for the connection."""
    end = server()
    end.feed(frame(WINDOW_UPDATE, 0, 0, b"\x00\x00\x00\x01") + open_stream(1))
    end.feed(frame(WINDOW_UPDATE, 0, 1, b"\x00\x00\x00\x01"))
    assert end.windows == [0, 1]


def test_a_stream_may_be_given_a_wider_window() -> None:
    pair = Pair(server=End(True, False))
    session = pair.client.session
    session.request(REQUEST, False)
    session.data(1, bytes(500_000), True)
    pair.pump()
    assert len(pair.server.bodies[1]) == 65_535
    assert pair.server.session.widen(1, 300_000)
    pair.pump()
    assert len(pair.server.bodies[1]) == 300_000
    assert not pair.server.session.widen(3, 300_000)
    session.reset(1, codes.CANCEL)
    pair.pump()
    assert not pair.server.session.widen(1, 400_000)


def test_data_of_a_stream_that_is_over_is_still_acknowledged() -> None:
    pair = Pair(server=End(True, False, connection_window=65_535))
    for _ in range(20):
        stream_id = pair.client.session.request(REQUEST, False)
        pair.client.session.data(stream_id, bytes(20_000), False)
        pair.pump()
        pair.client.session.reset(stream_id, codes.CANCEL)
        pair.pump()
        assert stream_id in pair.server.closed
        assert len(pair.server.bodies[stream_id]) == 20_000
        pair.server.acknowledge(stream_id)
    assert not pair.server.session.acknowledge(1, 1)
