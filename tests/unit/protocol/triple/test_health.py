"""The health service."""

from __future__ import annotations

import pytest

from sidecar.model.errors import CodecError
from sidecar.protocol.triple.health import (
    MAX_MESSAGE,
    NOT_SERVING,
    SERVICE_UNKNOWN,
    SERVING,
    MessageReader,
    read_request,
    response,
)
from tests.vectors.loader import messages

VECTORS = messages("triple/messages.txt")
WRAPPED = ["wrapped-request-bob", "wrapped-response-hi-bob"]


def message(body: bytes) -> bytes:
    return b"\0" + len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("name", [*WRAPPED, "health-serving"])
def test_a_message_at_once_and_byte_by_byte(name: str) -> None:
    data = VECTORS[name]
    assert MessageReader().feed(data) == data[5:]
    reader = MessageReader()
    fed = [reader.feed(data[at : at + 1]) for at in range(len(data))]
    assert fed == [None] * (len(data) - 1) + [data[5:]]


def test_an_empty_message() -> None:
    reader = MessageReader()
    assert reader.feed(b"") is None
    assert reader.feed(b"\0\0\0\0") is None
    assert reader.feed(b"\0") == b""


def test_what_follows_the_first_message_is_ignored() -> None:
    reader = MessageReader()
    assert reader.feed(message(b"ab") + message(b"cd")) == b"ab"
    assert reader.feed(message(b"ef")) is None
    assert reader.feed(b"\xff") is None


@pytest.mark.parametrize("flag", [b"\x01", b"\x02", b"\xff"])
def test_compressed_messages(flag: bytes) -> None:
    reader = MessageReader()
    with pytest.raises(CodecError, match="compressed message"):
        reader.feed(flag + b"\0\0\0\x01a")


def test_the_limit() -> None:
    whole = b"x" * MAX_MESSAGE
    assert MessageReader().feed(message(whole) + b"more") == whole
    reader = MessageReader()
    with pytest.raises(CodecError, match="longer than 4096 bytes"):
        reader.feed(message(whole + b"x")[:5])
    with pytest.raises(CodecError):
        reader.feed(b"x")
    assert MessageReader(2).feed(message(b"ab")) == b"ab"
    with pytest.raises(CodecError, match="longer than 2 bytes"):
        MessageReader(2).feed(message(b"abc"))


@pytest.mark.parametrize(
    ("state", "data"),
    [
        (SERVING, VECTORS["health-serving"]),
        (NOT_SERVING, bytes.fromhex("00 00000002 0802")),
        (SERVICE_UNKNOWN, bytes.fromhex("00 00000002 0803")),
    ],
)
def test_responses(state: int, data: bytes) -> None:
    assert response(state) == data


@pytest.mark.parametrize("name", WRAPPED)
def test_fields_behind_the_service_are_skipped(name: str) -> None:
    assert read_request(VECTORS[name][5:]) == "hessian4"


@pytest.mark.parametrize(
    ("body", "service"),
    [
        ("", ""),
        ("0a00", ""),
        ("0a03612e42", "a.B"),
        ("0a04 47c3b6c3", None),  # cut inside a character
        ("0a0161 0a0162", "b"),  # the last one counts
        ("8a0001 61", "a"),  # the tag in two bytes
        ("0a8100 61", "a"),  # the length in two bytes
        ("10ff01 0a0161", "a"),  # a number
        ("110102030405060708 0a0161", "a"),  # eight bytes
        ("1501020304 0a0161", "a"),  # four bytes
        ("1a026162 0a0161", "a"),  # a string
        ("0801 0a0161", "a"),  # field 1, but a number
        ("0b 0a0162 0c 0a0161", "a"),  # field 1, but a group
        ("1b 1001 1c 0a0161", "a"),  # a group
        ("1b 1b 23 24 1c 1c 0a0161", "a"),  # groups in a group
        ("1b" * 16 + "1c" * 16, ""),
        ("f8ffffff0f01", ""),  # the greatest field number
    ],
)
def test_requests(body: str, service: str | None) -> None:
    data = bytes.fromhex(body)
    if service is None:
        with pytest.raises(CodecError, match="not UTF-8"):
            read_request(data)
    else:
        assert read_request(data) == service


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("0a", "ends inside"),
        ("0a0161 0a", "ends inside"),
        ("0a0261", "ends inside"),
        ("80", "ends inside"),
        ("10", "ends inside"),
        ("1101020304050607", "ends inside"),
        ("15010203", "ends inside"),
        ("0affffffffffffffffff0161", "ends inside"),
        ("10ffffffffffffffffffff01", "number too long"),
        ("00", "bad field number"),
        ("0200", "bad field number"),
        ("808080801001", "bad field number"),
        ("0e", "bad wire type"),
        ("0f", "bad wire type"),
        ("0c", "bad wire type"),  # the end of a group that did not begin
        ("1b", "ends inside"),
        ("1b 1001", "ends inside"),
        ("1b 24", "group ends as another one"),
        ("1b 00", "bad field number"),
        ("1b" * 17 + "1c" * 17, "groups too deep"),
    ],
)
def test_garbage(body: str, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        read_request(bytes.fromhex(body))
