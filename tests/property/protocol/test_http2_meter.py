"""The meter of frames: the same words however a stream is cut, as a slow and plain one gives."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.protocol.http2.meter import FrameMeter
from tests.fixtures.http2_peers import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    PUSH_PROMISE,
    RST_STREAM,
    WINDOW_UPDATE,
    frame,
    limits,
)

NOW = 1000.0
LIMITS = limits(header_size=40, continuations=2, resets=2, control_frames=3)

WORDS = (
    ("continuation", "pieces", 2),
    ("header_size", "bytes", 80),
    ("resets", "resets", 2),
    ("control", "control", 3),
)

Frame = tuple[int, int, int, int]  # kind, flags, stream id, size of the payload

FRAMES = st.tuples(
    st.sampled_from(
        [DATA, HEADERS, HEADERS, RST_STREAM, PUSH_PROMISE, PING, WINDOW_UPDATE, CONTINUATION, 99]
    ),
    st.sampled_from([0, END_STREAM, END_HEADERS, 0xFF]),
    st.integers(1, 9),
    st.sampled_from([0, 1, 8, 30, 80, 81, 300]),
)


def written(kind: int, flags: int, stream_id: int, size: int) -> bytes:
    return frame(kind, flags, stream_id, bytes(size))


def naive(frames: list[Frame]) -> tuple[str, int]:
    """Return the word and the number of good frames before it."""
    counted: Counter[str] = Counter()
    for number, (kind, flags, _, size) in enumerate(frames):
        is_head = kind in (HEADERS, PUSH_PROMISE)
        if is_head:
            counted["bytes"] = counted["pieces"] = 0
        if is_head or kind == CONTINUATION:
            counted["bytes"] += size
        counted["pieces"] += kind == CONTINUATION
        counted["answers"] += 2 * (kind == HEADERS)
        counted["resets"] += kind == RST_STREAM
        is_message = kind == DATA and (size > 0 or flags & END_STREAM)
        if not is_message and kind not in (HEADERS, CONTINUATION, RST_STREAM):
            is_answer = counted["answers"] > 0
            counted["answers"] -= is_answer
            counted["control"] += not is_answer
        for word, what, limit in WORDS:
            if counted[what] > limit:
                return word, number
    return "", len(frames)


def read(meter: FrameMeter, data: bytes, cuts: list[int]) -> tuple[str, int]:
    """Return the word and how many bytes may be passed on."""
    borders = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    passed = 0
    for start, end in pairwise(borders):
        word = meter.feed(data[start:end], NOW)
        assert 0 <= meter.first <= meter.whole <= end - start
        assert (meter.first == 0) == (meter.whole == 0)
        if meter.whole:
            passed = start + meter.whole
        if word:
            return word, passed
    return "", passed


@given(st.lists(FRAMES, max_size=30), st.lists(st.integers(0, 10_000), max_size=30), st.booleans())
@settings(max_examples=300)
def test_any_cut_gives_the_plain_answer(
    frames: list[Frame], cuts: list[int], is_server: bool
) -> None:
    preface = PREFACE if is_server else b""
    data = preface + b"".join(written(*each) for each in frames)
    word, good = naive(frames)
    passed = len(preface) + sum(len(written(*each)) for each in frames[:good])
    for some in (cuts, [], list(range(len(data)))):
        assert read(FrameMeter(LIMITS, is_server), data, some) == (word, passed)


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=10))
def test_garbage_never_raises(data: bytes, cuts: list[int]) -> None:
    expected = read(FrameMeter(LIMITS, False), data, [])
    word, passed = read(FrameMeter(LIMITS, False), data, cuts)
    assert (word, passed) == expected
