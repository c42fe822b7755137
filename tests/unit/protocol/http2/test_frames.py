"""Frames made by hand."""

from __future__ import annotations

from sidecar.protocol.http2 import codes, frames
from tests.fixtures.http2_peers import frames_of
from tests.vectors.loader import messages

VECTORS = messages("http2/frames.txt")


def test_goaway() -> None:
    assert frames.goaway(2**31 - 1, codes.NO_ERROR) == VECTORS["first-goaway"]
    ((kind, flags, stream_id, payload),) = frames_of(frames.goaway(5, codes.ENHANCE_YOUR_CALM))
    assert (kind, flags, stream_id) == (frames.GOAWAY, 0, 0)
    assert payload == b"\x00\x00\x00\x05\x00\x00\x00\x0b"


def test_the_preface() -> None:
    assert VECTORS["client-preface"] == frames.PREFACE
