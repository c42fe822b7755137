"""The first message of a body, in pieces of any size."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sidecar.protocol.triple.message import FirstMessage

messages = st.lists(st.binary(max_size=40), min_size=1, max_size=4)


def framed(message: bytes) -> bytes:
    return b"\x00" + len(message).to_bytes(4, "big") + message


@given(messages, st.lists(st.integers(0, 60), max_size=10))
def test_the_pieces_that_belong_to_it_are_it(found: list[bytes], cuts: list[int]) -> None:
    body = b"".join(framed(message) for message in found)
    borders = sorted({0, len(body), *[cut for cut in cuts if cut < len(body)]})
    first, measured = FirstMessage(), 0
    for begin, end in itertools.pairwise(borders):
        was_over = first.is_over
        measured += (size := first.measure(body[begin:end]))
        assert not (was_over and size)
    assert measured == len(framed(found[0]))
    assert first.is_over


def test_a_message_without_content_is_over_with_its_prefix() -> None:
    first = FirstMessage()
    assert (first.measure(b"\x00\x00\x00\x00"), first.is_over) == (4, False)
    assert (first.measure(b"\x00more"), first.is_over) == (1, True)
    assert (first.measure(b"more"), first.is_over) == (0, True)


def test_the_flag_of_a_compressed_message_is_no_part_of_its_length() -> None:
    first = FirstMessage()
    assert first.measure(b"\x01\x00\x00\x00\x03abcdef") == 8
