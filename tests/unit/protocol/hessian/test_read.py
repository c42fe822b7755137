"""Reading Hessian 2 strings and integers."""

from __future__ import annotations

import pytest

from sidecar.model.errors import CodecError
from sidecar.protocol.hessian.read import (
    is_string,
    read_number,
    read_string,
    read_string_bytes,
    read_string_or_null,
)
from tests.vectors.loader import messages

VALUES = messages("hessian/values.txt")

STRINGS = {
    "string-emoji": "a😀b",
    "string-chinese": "中",
    "string-32": "y" * 32,
    "string-1024": "z" * 1024,
    "string-40000": "x" * 40000,
    "string-pair-at-the-cut": "x" * 32767 + "😀",
}
NUMBERS = {
    "int-0": 0, "int-minus-16": -16, "int-47": 47, "int-48": 48, "int-minus-17": -17,
    "int-2047": 2047, "int-2048": 2048, "int-minus-262144": -262144, "int-262143": 262143,
    "int-262144": 262144, "int-minimum": -(2**31), "long-0": 0, "long-minus-8": -8, "long-15": 15,
    "long-16": 16, "long-2047": 2047, "long-2048": 2048, "long-262143": 262143,
    "long-262144": 262144, "long-2147483648": 2**31,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(STRINGS))
def test_strings(name: str) -> None:
    data = VALUES[name]
    assert is_string(data, 0)
    assert read_string(data, 0) == (STRINGS[name], len(data))
    assert read_string(b"\x91" + data + b"x", 1) == (STRINGS[name], len(data) + 1)


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_numbers(name: str) -> None:
    data = VALUES[name]
    assert read_number(data, 0) == NUMBERS[name]
    assert read_number(b"N" + data, 1) == NUMBERS[name]
    assert not is_string(data, 0)


@pytest.mark.parametrize("name", sorted(VALUES.keys() - NUMBERS.keys()))
def test_other_values_are_not_integers(name: str) -> None:
    assert read_number(VALUES[name], 0) is None


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_integers_that_are_cut_short(name: str) -> None:
    for end in range(len(VALUES[name])):
        with pytest.raises(IndexError):
            read_number(VALUES[name][:end], 0)


@pytest.mark.parametrize("name", ["string-emoji", "string-32", "string-1024"])
def test_strings_that_are_cut_short(name: str) -> None:
    for end in range(len(VALUES[name])):
        with pytest.raises(IndexError):
            read_string(VALUES[name][:end], 0)


def test_a_pair_split_between_chunks() -> None:
    assert read_string(bytes.fromhex("520001eda0bd 01edb880"), 0) == ("😀", 10)


def test_a_half_pair_stays_one() -> None:
    assert read_string(bytes.fromhex("02 eda0bd 61"), 0) == ("\ud83da", 5)


@pytest.mark.parametrize(
    "data", ["01 f09f9880", "02 f09f9880", "01 c361", "01 e4b861", "02 c080 61"]
)
def test_refuses_text_that_java_refuses(data: str) -> None:
    with pytest.raises(CodecError, match="UTF-8"):
        read_string(bytes.fromhex(data), 0)


def test_undecoded_text() -> None:
    assert read_string_bytes(VALUES["string-emoji"], 0) == (VALUES["string-emoji"][1:], 9)


def test_null_may_stand_for_a_string() -> None:
    assert read_string_or_null(b"N", 0) == (None, 1)
    assert read_string_or_null(b"\x01a", 0) == ("a", 2)
    with pytest.raises(CodecError):
        read_string(b"N", 0)
    with pytest.raises(CodecError):
        read_string_or_null(b"\x91", 0)
