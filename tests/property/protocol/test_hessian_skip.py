"""The skipper against a decoder that builds everything."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.errors import CodecError
from sidecar.protocol.hessian.read import is_string, read_number, read_string
from sidecar.protocol.hessian.skip import skip_value
from tests.property.protocol.hessian_twin import CHOICES, VALUES, Decoder, encode


@given(st.lists(VALUES, min_size=1, max_size=4), CHOICES)
def test_each_value_ends_where_the_decoder_ends(values: list[Any], choice: random.Random) -> None:
    data = encode(values, choice)
    decoder = Decoder(data)
    definitions: list[int] = []
    pos = 0
    for value in values:
        assert repr(decoder.value()) == repr(value)
        check_reading(data, pos, value)
        pos = skip_value(data, pos, definitions)
        assert pos == decoder.pos
    assert pos == len(data)
    assert definitions == [len(fields) for _, fields in decoder.classes]


def check_reading(data: bytes, pos: int, value: Any) -> None:
    assert is_string(data, pos) == isinstance(value, str)
    if isinstance(value, str):
        assert read_string(data, pos)[0] == value
    elif isinstance(value, tuple) and value[0] in ("int", "long"):
        assert read_number(data, pos) == value[1]
    else:
        assert read_number(data, pos) is None


def skip(data: bytes) -> int:
    """Return where the first value ends, -1 when it is malformed."""
    try:
        end = skip_value(data, 0, [])
    except (CodecError, IndexError):
        return -1
    return end if end <= len(data) else -1


@given(VALUES, CHOICES, st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), max_size=3))
def test_damaged_values(
    value: Any, choice: random.Random, damages: list[tuple[int, bytes]]
) -> None:
    data = encode([value], choice)
    for at, patch in damages:
        data = data[:at] + patch + data[at + 1 :]
    check_agreement(data)


@given(st.binary(max_size=60))
def test_random_bytes(data: bytes) -> None:
    check_agreement(data)


@given(st.lists(st.sampled_from(b"CHMOQRSAVWXZ\x60\x61\x72\x78\x91\x01\x30N"), max_size=40))
def test_random_tags(tags: list[int]) -> None:
    check_agreement(bytes(tags))


def check_agreement(data: bytes) -> None:
    """What the decoder takes, the skipper takes; and it never takes what is cut short."""
    decoder = Decoder(data)
    try:
        decoder.value()
    except (ValueError, IndexError):
        skip(data)  # may be lenient, must return
    else:
        assert skip(data) == decoder.pos
