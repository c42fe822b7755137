"""Answers made here."""

from __future__ import annotations

import json
from urllib.parse import unquote

import hpack
import pytest

from sidecar.model import reason
from sidecar.protocol.triple import reply
from sidecar.protocol.triple.head import HeadReader, TripleHead
from sidecar.protocol.triple.reply import (
    MAX_MESSAGE,
    grpc_status_of_http,
    grpc_status_of_reset,
    http_reply,
    http_status_of_grpc,
    percent_encode,
    trailers,
    trailers_only,
)
from tests.vectors.loader import messages

VECTORS = messages("triple/messages.txt")
FRAME_HEADER_SIZE = 9


def head_of(content_type: bytes) -> TripleHead:
    return HeadReader().read([(b":path", b"/a.B/c"), (b"content-type", content_type)])


def fields(name: str) -> list[tuple[bytes, bytes]]:
    return [tuple(pair) for pair in hpack.Decoder().decode(VECTORS[name][FRAME_HEADER_SIZE:], True)]


def test_trailers_only_as_in_the_vector() -> None:
    made = trailers_only(head_of(b"application/grpc+proto"), reply.UNAVAILABLE, "no instance")
    assert made == fields("trailers-only-unavailable")


def test_trailers_as_in_the_vector() -> None:
    assert trailers(reply.OK, "") == fields("trailers-ok")


def test_trailers_with_a_text() -> None:
    assert trailers(reply.DEADLINE_EXCEEDED, "TIMEOUT a.B: 5 ms") == [
        (b"grpc-status", b"4"),
        (b"grpc-message", b"TIMEOUT a.B: 5 ms"),
    ]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (b"application/grpc", b"application/grpc"),
        (b"application/grpc+json", b"application/grpc+json"),
        (b"application/json", b"application/grpc"),
        (b"", b"application/grpc"),
    ],
)
def test_the_content_type_is_one_of_grpc(asked: bytes, answered: bytes) -> None:
    assert trailers_only(head_of(asked), 14, "x")[1] == (b"content-type", answered)


def test_fc_69_local_errors_are_one_header_list_in_ascii() -> None:
    text = f"{reason.EMPTY_REGISTRY} a.Größe: 100 %\n"
    assert trailers_only(head_of(b"application/grpc"), reply.UNAVAILABLE, text) == [
        (b":status", b"200"),
        (b"content-type", b"application/grpc"),
        (b"grpc-status", b"14"),
        (b"grpc-message", b"EMPTY_REGISTRY a.Gr%C3%B6%C3%9Fe: 100 %25%0A"),
    ]


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("", b""),
        ("plain ~!", b"plain ~!"),
        (" blanks ", b"blanks"),
        (" 100%", b"100%25"),
        ("\t\x00\x7f", b"%09%00%7F"),
        ("中", b"%E4%B8%AD"),
        ("😀", b"%F0%9F%98%80"),
        ("\ud800", b"%3F"),
    ],
)
def test_percent_encoding(text: str, encoded: bytes) -> None:
    assert percent_encode(text) == encoded


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("x" * MAX_MESSAGE, MAX_MESSAGE),
        ("x" * (MAX_MESSAGE + 1), MAX_MESSAGE),
        ("😀" * MAX_MESSAGE, MAX_MESSAGE - MAX_MESSAGE % 12),
        ("%" * (MAX_MESSAGE // 3), MAX_MESSAGE - MAX_MESSAGE % 3),
        ("x" * (MAX_MESSAGE - 2) + "%", MAX_MESSAGE - 2),
        ("x" * (MAX_MESSAGE - 3) + "%", MAX_MESSAGE),
    ],
)
def test_long_texts_are_cut_between_characters(text: str, size: int) -> None:
    encoded = percent_encode(text)
    assert len(encoded) == size
    assert text.startswith(unquote(encoded.decode(), errors="strict"))


def test_an_http_reply() -> None:
    headers, body = http_reply(503, "EMPTY_REGISTRY a.B: the registry lists nobody")
    assert json.loads(body) == {
        "status": 503,
        "reason": "EMPTY_REGISTRY",
        "message": "EMPTY_REGISTRY a.B: the registry lists nobody",
    }
    assert headers == [
        (b":status", b"503"),
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
    ]


@pytest.mark.parametrize(
    ("text", "word"), [("BAD_REQUEST: too odd", "BAD_REQUEST"), ("TIMEOUT", "TIMEOUT"), ("", "")]
)
def test_the_reason_is_the_first_word(text: str, word: str) -> None:
    assert json.loads(http_reply(400, text)[1])["reason"] == word


def test_any_text_fits_into_json() -> None:
    text = '"\\\n\x00Größe😀' * MAX_MESSAGE
    headers, body = http_reply(500, text)
    assert json.loads(body)["message"] == text[:MAX_MESSAGE]
    assert dict(headers)[b"content-length"] == b"%d" % len(body)
    assert json.loads(http_reply(500, "\ud800")[1])["message"] == "\ud800"


def test_fc_67_a_header_list_that_is_too_large() -> None:
    text = f"{reason.PAYLOAD_TOO_LARGE}: 71680 bytes of headers"
    status = (b"grpc-status", b"8")
    assert status in trailers_only(head_of(b"application/grpc"), reply.RESOURCE_EXHAUSTED, text)
    headers, body = http_reply(431, text)
    assert headers[0] == (b":status", b"431")
    assert json.loads(body)["reason"] == "PAYLOAD_TOO_LARGE"


@pytest.mark.parametrize(
    ("http", "grpc"),
    [
        (400, 13), (431, 13), (401, 16), (403, 7), (404, 12), (429, 14), (502, 14), (503, 14),
        (504, 14), (100, 13), (199, 13), (200, 2), (302, 2), (418, 2), (500, 2), (0, 2), (99, 2),
    ],
)  # fmt: skip
def test_codes_of_http_statuses(http: int, grpc: int) -> None:
    assert grpc_status_of_http(http) == grpc


@pytest.mark.parametrize(
    ("code", "grpc"),
    [
        (0x7, 14),
        (0x8, 1),
        (0xB, 8),
        (0xC, 7),
        (0x0, 13),
        (0x1, 13),
        (0x2, 13),
        (0xD, 13),
        (999, 13),
    ],
)
def test_codes_of_resets(code: int, grpc: int) -> None:
    assert grpc_status_of_reset(code) == grpc


@pytest.mark.parametrize(
    ("grpc", "http"),
    [
        (0, 200), (1, 499), (2, 500), (3, 400), (4, 504), (5, 404), (6, 409), (7, 403), (8, 429),
        (9, 400), (10, 409), (11, 400), (12, 404), (13, 500), (14, 503), (15, 500), (16, 401),
        (17, 500), (99, 500), (-1, 500),
    ],
)  # fmt: skip
def test_http_statuses_of_codes(grpc: int, http: int) -> None:
    assert http_status_of_grpc(grpc) == http
