"""Writing Hessian 2 strings, ints and maps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.protocol.hessian.read import read_number, read_string
from sidecar.protocol.hessian.write import write_entries, write_int, write_map, write_string
from tests.vectors.loader import messages

VALUES = messages("hessian/values.txt")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("string-emoji", "a😀b"),
        ("string-chinese", "中"),
        ("string-32", "y" * 32),
        ("string-1024", "z" * 1024),
        ("string-40000", "x" * 40000),
        ("string-pair-at-the-cut", "x" * 32767 + "😀"),
    ],
)
def test_strings(name: str, text: str) -> None:
    assert write_string(text) == VALUES[name]


def test_lengths_at_the_borders() -> None:
    assert write_string("") == b"\x00"
    assert write_string("x" * 31) == b"\x1f" + b"x" * 31
    assert write_string("é" * 31) == b"\x1f" + "é".encode() * 31
    assert write_string("x" * 1023) == b"\x33\xff" + b"x" * 1023
    assert write_string("x" * 32768) == b"S\x80\x00" + b"x" * 32768
    assert write_string("x" * 32769) == b"R\x80\x00" + b"x" * 32768 + b"\x01x"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int-0", 0),
        ("int-minus-16", -16),
        ("int-47", 47),
        ("int-48", 48),
        ("int-minus-17", -17),
        ("int-2047", 2047),
        ("int-2048", 2048),
        ("int-minus-262144", -262144),
        ("int-262143", 262143),
        ("int-262144", 262144),
        ("int-minimum", -(2**31)),
    ],
)
def test_ints(name: str, value: int) -> None:
    assert write_int(value) == VALUES[name]


def test_maps() -> None:
    assert write_map([]) == b"HZ"
    assert write_map([("k", "v")]) == VALUES["hash-map"]
    assert write_map([("a", "1"), ("a", "2")]) == VALUES["map-with-a-key-twice"]
    assert write_entries([("k", "v"), ("é", "")]) == b"\x01k\x01v\x01\xc3\xa9\x00"


@given(st.text(st.characters(exclude_categories=[])), st.integers(0, 2) | st.just(3000))
def test_any_text_is_read_back(text: str, copies: int) -> None:
    text = text * copies
    data = write_string(text)
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert read_string(data, 0) == (whole, len(data))


@given(st.integers(-(2**31), 2**31 - 1))
def test_any_int_is_read_back(value: int) -> None:
    assert read_number(write_int(value), 0) == value
