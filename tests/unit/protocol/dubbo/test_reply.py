"""Replies and heartbeats made here."""

from __future__ import annotations

import pytest

from sidecar.model import outcome
from sidecar.protocol.dubbo.frame import Frame, FrameReader
from sidecar.protocol.dubbo.message import HEARTBEAT, event_kind, reply_outcome
from sidecar.protocol.dubbo.reply import (
    LIMIT_EXCEEDED,
    MAX_EVENT_SIZE,
    MAX_TEXT,
    NO_INVOKER,
    clean_text,
    error_reply,
    exception_reply,
    heartbeat_reply,
    heartbeat_request,
)
from sidecar.protocol.hessian.read import read_string
from tests.vectors.loader import messages

FRAMES = messages("dubbo/frames.txt")
ID7 = bytes.fromhex("0000000000000007")


def frame_of(raw: bytes) -> Frame:
    (frame,) = FrameReader(1024 * 1024).feed(raw)
    return frame


def event(body: bytes, flags: int = 0xE2) -> Frame:
    return frame_of(b"\xda\xbb" + bytes([flags, 0]) + ID7 + len(body).to_bytes(4, "big") + body)


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("error-31", 31, "sidecar: timed out"),
        ("error-40", 40, "bad request"),
        ("error-50", 50, "bad response"),
        ("error-60", 60, "service not found"),
        ("error-70", 70, "no provider"),
        ("error-80", 80, "upstream reset"),
        ("error-90", 90, "client error"),
        ("error-100", 100, "overloaded"),
        ("error-40-characters", 80, "x" * 40),
        ("error-1100-characters", 80, "x" * 1100),
    ],
)
def test_errors(name: str, status: int, text: str) -> None:
    assert error_reply(ID7, status, text) == FRAMES[name]


@pytest.mark.parametrize("id8", [bytes(8), b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\0" * 7 + b"\x2a"])
def test_fc_53_local_replies_have_the_id_of_the_call(id8: bytes) -> None:
    raw = error_reply(id8, 60, "EMPTY_REGISTRY t.Echo")
    assert raw == b"\xda\xbb\x02\x3c" + id8 + b"\0\0\0\x16\x15EMPTY_REGISTRY t.Echo"
    assert frame_of(exception_reply(id8, 2, LIMIT_EXCEEDED, "x")).id8 == id8
    assert frame_of(heartbeat_request(id8)).id8 == id8


def test_the_text_is_one_string_of_bounded_size() -> None:
    frame = frame_of(error_reply(ID7, 60, "中" * 1_000_000))
    text, end = read_string(frame.raw, 16)
    assert end == len(frame.raw)
    assert text == "中" * MAX_TEXT


def test_control_characters_are_replaced() -> None:
    assert clean_text("a\r\nb\x1b[2J\0") == "a??b?[2J?"
    assert clean_text("plain text, 中文 😀") == "plain text, 中文 😀"
    assert clean_text("half \ud800 pair") == "half ? pair"
    assert clean_text("") == ""


def test_a_java_exception_that_is_not_retried() -> None:
    raw = exception_reply(ID7, 2, LIMIT_EXCEEDED, "limited")
    known = FRAMES["reply-limited"]
    # The known bytes carry the attachment dubbo=2.0.2; these carry none.
    assert raw[16:-2] == known[16 : known.index(b"H\x05dubbo")]
    assert raw.endswith(b"HZ")
    assert raw[:12] == known[:12]
    assert reply_outcome(frame_of(raw)) == outcome.BUSINESS_ERROR


@pytest.mark.parametrize(("code", "status"), [(LIMIT_EXCEEDED, 100), (NO_INVOKER, 60), (4, 70)])
def test_other_serializations_get_the_nearest_status(code: int, status: int) -> None:
    for serialization in (23, 3, 29):
        assert exception_reply(ID7, serialization, code, "x") == error_reply(ID7, status, "x")


def test_heartbeats() -> None:
    raw = heartbeat_request(bytes.fromhex("0000000000000002"))
    assert raw == FRAMES["heartbeat-request"]
    assert event_kind(frame_of(raw)) == HEARTBEAT


def test_fc_51_the_reply_has_the_one_byte_body() -> None:
    request = bytes.fromhex("dabbe2000000000000000007000000014e")
    reply = bytes.fromhex("dabb22140000000000000007000000014e")
    assert heartbeat_reply(frame_of(request)) == reply
    (split,) = [
        frame
        for reader in [FrameReader(100)]
        for at in range(len(request))
        for frame in reader.feed(request[at : at + 1])
    ]
    assert heartbeat_reply(split) == reply
    glued = FrameReader(1000).feed(FRAMES["hi"] + request)
    assert heartbeat_reply(glued[1]) == reply
    assert heartbeat_reply(frame_of(FRAMES["heartbeat-request"])) == FRAMES["heartbeat-reply"]


def test_fc_51_the_reply_is_null_in_the_serialization_of_the_request() -> None:
    request = frame_of(FRAMES["fastjson2-heartbeat-request"])
    assert heartbeat_reply(request) == FRAMES["fastjson2-heartbeat-reply"]
    assert heartbeat_reply(event(b"", 0xF7))[16:] == bytes.fromhex("00000001af")
    assert heartbeat_reply(event(b"")) == heartbeat_reply(event(b"N"))


def test_fc_51_another_event_is_acknowledged() -> None:
    assert heartbeat_reply(event(b"\x01X")) == heartbeat_reply(event(b"N"))


def test_fc_60_a_heartbeat_in_an_unknown_serialization() -> None:
    null = b"\x80\x00null"
    raw = heartbeat_reply(event(null, 0xFD))
    assert raw == b"\xda\xbb\x3d\x14" + ID7 + b"\0\0\0\6" + null
    in_hessian = heartbeat_reply(event(b"N"))
    assert heartbeat_reply(event(b"", 0xFD)) == in_hessian
    assert heartbeat_reply(event(b"x" * MAX_EVENT_SIZE, 0xFD))[16:] == b"x" * MAX_EVENT_SIZE
    assert heartbeat_reply(event(b"x" * (MAX_EVENT_SIZE + 1), 0xFD)) == in_hessian
    (oversize,) = FrameReader(1).feed(event(null, 0xFD).raw)
    assert heartbeat_reply(oversize) == in_hessian
