"""Requests with random arguments and attachments: reading, remembering, appending, garbage."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.model.errors import CodecError
from sidecar.protocol.dubbo import jsonb
from sidecar.protocol.dubbo.frame import FASTJSON2, HESSIAN2, Frame, FrameReader
from sidecar.protocol.dubbo.head import MAX_NAME
from sidecar.protocol.dubbo.message import (
    RequestHead,
    RequestReader,
    append_attachments,
    event_kind,
    reply_outcome,
)
from sidecar.protocol.dubbo.reply import heartbeat_reply
from sidecar.protocol.hessian.write import write_string
from tests.property.protocol.hessian_twin import CHOICES, VALUES, Decoder, Encoder
from tests.vectors.loader import messages

FRAMES = messages("dubbo/frames.txt")
KEYS = st.sampled_from(["group", "dubbo.tag", "timeout", "path", "remote.application", "x", "键"])
NAMES = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/:"), min_size=1)
PAIRS = st.lists(st.tuples(KEYS, st.text(max_size=40)), min_size=1, max_size=5)


@dataclass
class Request:
    path: str
    method: str
    arguments: list[Any]
    attachments: list[tuple[Any, Any]]
    raw: bytes


def frame_of(raw: bytes) -> Frame:
    (frame,) = FrameReader(8 * 1024 * 1024).feed(raw)
    return frame


def make_frame(body: bytes, flags: int) -> bytes:
    return b"\xda\xbb" + bytes([flags, 0]) + bytes(8) + len(body).to_bytes(4, "big") + body


@st.composite
def requests(draw: st.DrawFn) -> Request:
    choice = draw(CHOICES)
    path, method = draw(NAMES), draw(st.sampled_from(["a", "b"]) | NAMES)
    arguments = draw(st.lists(VALUES, max_size=3))
    texts = st.text("ab=1", max_size=4)
    pairs = draw(st.lists(st.tuples(KEYS, texts) | st.tuples(KEYS, VALUES), max_size=5))
    encoder = Encoder(choice)
    for text in ("2.0.2", path, "1.0.0", method, "Ljava/lang/Object;" * len(arguments)):
        encoder.string(text)
    for argument in arguments:
        encoder.value(argument)
    encoder.value(("map", None, tuple(pairs)))
    return Request(path, method, arguments, pairs, make_frame(bytes(encoder.out), 0xC2))


def expected(request: Request, key: str) -> str:
    """Return the value of a key: the last one, if that is a text or an integer."""
    found = ""
    for name, value in request.attachments:
        if name == key:
            found = ""
            if isinstance(value, str):
                found = value
            elif isinstance(value, tuple) and value[0] in ("int", "long"):
                found = str(value[1])
    return found


def read(reader: RequestReader, raw: bytes) -> dict[str, Any] | None:
    """Return the fields of the head, None when the request is refused."""
    try:
        head = reader.read(frame_of(raw))
    except CodecError:
        return None
    return {name: getattr(head, name) for name in FIELDS}


FIELDS = (
    "interface", "version", "group", "service", "path", "method", "descriptor", "tag", "force_tag",
    "service_tag", "timeout_ms", "application", "has_callback", "is_readable",
)  # fmt: skip


@given(requests())
def test_the_head_shows_the_attachments(request: Request) -> None:
    fields = read(RequestReader(), request.raw)
    group = expected(request, "group")
    if not group.isprintable() or len(group) > MAX_NAME:
        assert fields is None
        return
    assert fields is not None
    assert fields["method"] == request.method
    assert fields["interface"] == request.path
    assert fields["group"] == group
    assert fields["tag"] == expected(request, "dubbo.tag")
    assert fields["application"] == expected(request, "remote.application")


@given(st.lists(requests(), max_size=6), CHOICES)
def test_remembering_changes_nothing(sequence: list[Request], choice: random.Random) -> None:
    reader = RequestReader()
    for _ in range(3):
        for request in choice.sample(sequence, len(sequence)):
            assert read(reader, request.raw) == read(RequestReader(), request.raw)


GENERIC = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;"
PIECES = [b"N", b"\x01a", b"HZ", b"H\x09dubbo.tag\x01aZ"]
DOCUMENTS = [b"\xaf", b"\x4aa", b"\xa6\xa5"]


def generic_call(serialization: int, pieces: list[bytes]) -> bytes:
    """Return a generic call with anything behind its first strings."""
    texts = ["2.0.2", "com.x.Demo", "1.0.0", "$invoke", GENERIC]
    if serialization == HESSIAN2:
        return make_frame(b"".join([*map(write_string, texts), *pieces]), 0xC2)
    documents = [*map(jsonb.write_string, texts), *pieces]
    return make_frame(b"".join(len(data).to_bytes(4, "big") + data for data in documents), 0xD7)


GENERIC_CALLS = st.lists(
    st.builds(
        generic_call,
        st.just(HESSIAN2),
        st.lists(st.sampled_from(PIECES), min_size=4, max_size=5),
    )
    | st.builds(
        generic_call,
        st.just(FASTJSON2),
        st.lists(st.sampled_from(DOCUMENTS), min_size=4, max_size=5),
    ),
    min_size=2,
    max_size=10,
)


@given(GENERIC_CALLS)
@settings(max_examples=300)
def test_remembering_changes_nothing_of_generic_calls(sequence: list[bytes]) -> None:
    reader = RequestReader()
    for raw in [*sequence, *sequence]:
        assert read(reader, raw) == read(RequestReader(), raw)


@given(requests(), PAIRS)
def test_appended_hessian_attachments(request: Request, pairs: list[tuple[str, str]]) -> None:
    raw = request.raw
    longer = append_attachments(raw, HESSIAN2, pairs)
    assert longer[:12] == raw[:12]
    assert longer[16 : len(raw) - 1] == raw[16:-1]
    assert frame_of(longer).size == len(longer) - 16
    decoder = Decoder(longer)
    decoder.pos = 16
    *_, attachments = [decoder.value() for _ in range(6 + len(request.arguments))]
    assert decoder.pos == len(longer)
    before = [(repr(key), repr(value)) for key, value in request.attachments]
    after = [(repr(key), repr(value)) for key, value in pairs]
    assert [(repr(key), repr(value)) for key, value in attachments[2]] == before + after


@given(
    st.lists(st.binary(min_size=1, max_size=20), max_size=3),
    PAIRS | st.just([]),
    PAIRS,
    st.booleans(),
)
def test_appended_jsonb_attachments(
    arguments: list[bytes], before: list[tuple[str, str]], pairs: list[tuple[str, str]], null: bool
) -> None:
    attachments = b"\xaf" if null else b"\xa6" + jsonb.write_entries(before) + b"\xa5"
    texts = ["2.0.2", "com.x.Demo", "1.0.0", "hi", "I" * len(arguments)]
    documents = [*map(jsonb.write_string, texts), *arguments, attachments]
    body = b"".join(len(data).to_bytes(4, "big") + data for data in documents)
    raw = make_frame(body, 0xD7)
    longer = append_attachments(raw, FASTJSON2, pairs)
    start = len(raw) - len(attachments) - 4
    assert longer[16:start] == raw[16:start]
    assert frame_of(longer).size == len(longer) - 16
    entries = ([] if null else before) + pairs
    assert longer[start + 4 :] == b"\xa6" + jsonb.write_entries(entries) + b"\xa5"
    assert int.from_bytes(longer[start : start + 4], "big") == len(longer) - start - 4


def check_anything(frame: Frame) -> None:
    """Whatever a frame holds, only a CodecError may come of it."""
    event_kind(frame)
    reply_outcome(frame)
    heartbeat_reply(frame)
    try:
        head = RequestReader().read(frame)
    except CodecError:
        return
    assert isinstance(head, RequestHead)
    longer = append_attachments(frame.raw, frame.serialization, [("k", "v")])
    again = RequestReader().read(frame_of(longer))
    assert again.service == head.service


@given(st.binary(max_size=80), st.sampled_from([0xC2, 0xD7, 0xDD]))
def test_random_bodies(body: bytes, flags: int) -> None:
    check_anything(frame_of(make_frame(body, flags)))


@given(
    st.sampled_from(sorted(FRAMES)),
    st.lists(st.tuples(st.integers(16, 220), st.binary(max_size=3)), min_size=1, max_size=4),
)
def test_damaged_frames(name: str, damages: list[tuple[int, bytes]]) -> None:
    raw = FRAMES[name][:300]
    for at, patch in damages:
        raw = raw[:at] + patch + raw[at + 1 :]
    check_anything(frame_of(make_frame(raw[16:], raw[2])))


@given(requests(), st.lists(st.tuples(st.integers(16, 400), st.binary(max_size=3)), max_size=3))
def test_damaged_requests(request: Request, damages: list[tuple[int, bytes]]) -> None:
    raw = request.raw
    for at, patch in damages:
        raw = raw[:at] + patch + raw[at + 1 :]
    check_anything(frame_of(make_frame(raw[16:], 0xC2)))
