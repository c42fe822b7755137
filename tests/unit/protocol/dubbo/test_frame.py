"""Cutting frames out of a byte stream."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from sidecar.protocol.dubbo.frame import (
    HEADER_SIZE,
    STATUS_SERVER_ERROR,
    Frame,
    FrameReader,
    restamp,
    with_body,
)
from tests.vectors.loader import messages

FRAMES = messages("dubbo/frames.txt")
LIMIT = 8 * 1024 * 1024


def header(size: int, flags: int = 0xC2, id8: bytes = bytes(8)) -> bytes:
    return b"\xda\xbb" + bytes([flags, 0]) + id8 + size.to_bytes(4, "big")


def request(size: int) -> bytes:
    return header(size) + b"x" * size


def read(*chunks: bytes, limit: int = LIMIT) -> tuple[list[Frame], str]:
    reader = FrameReader(limit)
    frames = [frame for chunk in chunks for frame in reader.feed(chunk)]
    return frames, reader.broken


def raws(frames: list[Frame]) -> list[bytes]:
    return [frame.raw for frame in frames]


@pytest.mark.parametrize("name", sorted(FRAMES))
def test_whole_and_byte_by_byte(name: str) -> None:
    data = FRAMES[name]
    assert raws(read(data)[0]) == [data]
    frames, broken = read(*[data[at : at + 1] for at in range(len(data))])
    assert raws(frames) == [data]
    assert not broken


def test_the_parts_of_a_request() -> None:
    (frame,), _ = read(FRAMES["hi"])
    assert frame.is_request
    assert frame.is_two_way
    assert not frame.is_event
    assert not frame.oversize
    assert frame.serialization == 2
    assert frame.flags == 0xC2
    assert frame.status == 0
    assert frame.size == 0x73
    assert frame.id8 == bytes.fromhex("0000000000000007")


def test_the_parts_of_other_frames() -> None:
    (one_way,), _ = read(FRAMES["ping-one-way"])
    assert one_way.is_request
    assert not one_way.is_two_way
    (event,), _ = read(FRAMES["fastjson2-heartbeat-request"])
    assert event.is_event
    assert event.serialization == 23
    (reply,), _ = read(FRAMES["error-80"])
    assert not reply.is_request
    assert reply.status == STATUS_SERVER_ERROR
    (negative,), _ = read(FRAMES["add-with-every-key"])
    assert negative.id8 == b"\xff" * 8


def test_two_frames_in_one_chunk() -> None:
    data = FRAMES["hi"] + FRAMES["ping-one-way"]
    assert raws(read(data)[0]) == [FRAMES["hi"], FRAMES["ping-one-way"]]


def test_a_frame_over_four_chunks() -> None:
    data = FRAMES["hi"]
    frames, _ = read(data[:1], data[1:15], data[15:17], data[17:])
    assert raws(frames) == [data]


def test_a_chunk_that_is_one_frame_is_not_copied() -> None:
    data = FRAMES["hi"]
    assert read(data)[0][0].raw is data


def test_an_empty_chunk_changes_nothing() -> None:
    data = FRAMES["hi"]
    assert raws(read(b"", data[:20], b"", data[20:], b"")[0]) == [data]


def test_a_body_of_no_bytes_is_a_frame() -> None:
    data = header(0)
    assert raws(read(data + data)[0]) == [data, data]


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n\r\n", b"\xda\xbc" + bytes(14), b"\xdb", b"ls\r\n"]
)
def test_bad_magic_ends_the_stream(junk: bytes) -> None:
    frames, broken = read(FRAMES["hi"] + junk, FRAMES["hi"])
    assert raws(frames) == [FRAMES["hi"]]
    assert broken == "bad magic"
    assert read(junk)[1] == "bad magic"
    assert read(*[junk[at : at + 1] for at in range(len(junk))])[1] == "bad magic"


@pytest.mark.parametrize("size", [b"\x80\x00\x00\x00", b"\xff\xff\xff\xff"])
def test_a_negative_length_ends_the_stream(size: bytes) -> None:
    junk = b"\xda\xbb\xc2\x00" + bytes(8) + size
    frames, broken = read(FRAMES["hi"] + junk + FRAMES["hi"])
    assert raws(frames) == [FRAMES["hi"]]
    assert broken == "negative body length"
    assert read(junk[:10], junk[10:], FRAMES["hi"]) == ([], "negative body length")


def test_the_largest_payload_is_kept() -> None:
    data = request(100)
    (frame,), _ = read(data, limit=100)
    assert not frame.oversize


def test_fc_55_an_oversize_frame_is_reported_after_its_header() -> None:
    reader = FrameReader(LIMIT)
    head = header(LIMIT + 1, id8=b"12345678")
    (frame,) = reader.feed(head)
    assert frame.oversize
    assert frame.raw == head
    assert frame.size == LIMIT + 1
    assert frame.id8 == b"12345678"
    chunk = bytes(64 * 1024)
    tracemalloc.start()
    try:
        for _ in range((LIMIT + 1) // len(chunk)):
            assert reader.feed(chunk) == []
        assert reader.feed(b"\xda" + FRAMES["hi"])[0].raw == FRAMES["hi"]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert not reader.broken


def test_an_oversize_frame_in_the_middle_of_a_chunk() -> None:
    big = header(200) + b"\xda\xbb" * 100
    frames, broken = read(FRAMES["hi"] + big + FRAMES["readonly"], limit=150)
    assert raws(frames) == [FRAMES["hi"], big[:HEADER_SIZE], FRAMES["readonly"]]
    assert [frame.oversize for frame in frames] == [False, True, False]
    assert not broken


def test_an_oversize_frame_byte_by_byte() -> None:
    data = header(200) + bytes(200) + FRAMES["readonly"]
    frames, _ = read(*[data[at : at + 1] for at in range(len(data))], limit=150)
    assert raws(frames) == [data[:HEADER_SIZE], FRAMES["readonly"]]


def test_a_split_header_and_an_oversize_body_in_one_chunk() -> None:
    data = header(200) + bytes(200) + FRAMES["readonly"]
    frames, _ = read(data[:9], data[9:], limit=150)
    assert raws(frames) == [data[:HEADER_SIZE], FRAMES["readonly"]]


def test_collecting_a_large_frame_is_not_quadratic() -> None:
    data = request(LIMIT)
    started = time.perf_counter()
    frames, _ = read(*[data[at : at + 512] for at in range(0, len(data), 512)])
    assert raws(frames) == [data]
    assert time.perf_counter() - started < 3  # re-joining at each of 16,000 steps takes minutes


def test_collecting_holds_one_frame_at_most() -> None:
    size = 1024 * 1024
    data = request(size)
    reader = FrameReader(size)
    tracemalloc.start()
    try:
        for at in range(0, len(data) - 1, 4096):
            assert reader.feed(data[at : min(at + 4096, len(data) - 1)]) == []
        assert tracemalloc.get_traced_memory()[0] < 1.3 * size
    finally:
        tracemalloc.stop()


def test_restamp_changes_the_id_only() -> None:
    data = FRAMES["hi"]
    other = restamp(data, b"abcdefgh")
    assert other == data[:4] + b"abcdefgh" + data[12:]
    assert restamp(other, data[4:12]) == data


def test_with_body_fixes_the_length() -> None:
    assert with_body(FRAMES["hi"], b"abc") == FRAMES["hi"][:12] + b"\0\0\0\3abc"
