"""A stream gives the same frames however it is cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sidecar.protocol.dubbo.frame import HEADER_SIZE, FrameReader, restamp

LIMIT = 60
ID8 = st.binary(min_size=8, max_size=8)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    body = draw(st.binary(max_size=LIMIT + 20) | st.just(b"\xda\xbb" * 10))
    head = bytes([0xDA, 0xBB, draw(st.integers(0, 255)), draw(st.integers(0, 255))])
    return head + draw(ID8) + len(body).to_bytes(4, "big") + body


def naive(data: bytes) -> tuple[list[bytes], bool]:
    """Return the frames of a whole stream, oversize ones by their header, and whether it broke."""
    found: list[bytes] = []
    while data:
        if data[:2] != b"\xda\xbb"[: len(data)]:
            return found, True
        size = int.from_bytes(data[12:16], "big")
        if len(data) < HEADER_SIZE:
            break
        if size >= 2**31:
            return found, True
        if size > LIMIT:
            found.append(data[:HEADER_SIZE])
        elif len(data) >= HEADER_SIZE + size:
            found.append(data[: HEADER_SIZE + size])
        else:
            break
        data = data[HEADER_SIZE + size :]
    return found, False


def read(data: bytes, cuts: list[int]) -> tuple[list[bytes], bool]:
    reader = FrameReader(LIMIT)
    borders = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    found = [frame for start, end in pairwise(borders) for frame in reader.feed(data[start:end])]
    for frame in found:
        assert frame.oversize == (frame.size > LIMIT)
        assert frame.size == int.from_bytes(frame.raw[12:16], "big")
        assert (frame.flags, frame.status) == (frame.raw[2], frame.raw[3])
    return [frame.raw for frame in found], bool(reader.broken)


CUTS = st.lists(st.integers(0, 2000), max_size=12)


@given(st.lists(frames(), max_size=6).map(b"".join), CUTS)
def test_good_streams(data: bytes, cuts: list[int]) -> None:
    assert read(data, cuts) == naive(data)
    assert not read(data, cuts)[1]


@given(st.lists(frames() | st.binary(max_size=30), max_size=5).map(b"".join), CUTS)
def test_streams_with_garbage(data: bytes, cuts: list[int]) -> None:
    assert read(data, cuts) == naive(data)


@given(st.lists(frames(), min_size=1, max_size=4).map(b"".join))
def test_byte_by_byte(data: bytes) -> None:
    assert read(data, list(range(len(data)))) == naive(data)


@given(frames(), ID8)
def test_restamp(data: bytes, id8: bytes) -> None:
    assert restamp(data, id8) == data[:4] + id8 + data[12:]
