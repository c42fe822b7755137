"""Skipping Hessian 2 values: every construct, every cap."""

from __future__ import annotations

import pytest

from sidecar.model.errors import CodecError
from sidecar.protocol.hessian.skip import (
    MAX_DEFINITIONS,
    MAX_DEPTH,
    read_int,
    skip_string,
    skip_value,
)
from tests.vectors.loader import messages

VALUES = messages("hessian/values.txt")
SEQUENCES = messages("hessian/sequences.txt")
ATTACHMENTS = messages("hessian/java.txt")

# Constructs that Java's writer does not choose, but its reader and other writers know.
RARE = {
    "no-value-but-null": "4e",
    "true": "54",
    "false": "46",
    "string-empty": "00",
    "string-medium-of-one": "3001 61",
    "string-last-empty": "53 0000",
    "string-in-chunks": "52 0001 61 52 0001 62 01 63",
    "string-latin": "02 c3a9 61",
    "binary-empty": "20",
    "binary-15": "2f" + "00" * 15,
    "binary-medium": "3501" + "ff" * 257,
    "binary-last": "42 0003 5a5a5a",
    "binary-in-chunks": "41 0002 0102 41 0001 03 21 04",
    "object-by-long-tag": "43 01 41 90 4f 90",
    "definitions-before-one-object": "43 01 41 91 01 66 43 01 42 90 61",
    "list-variable": "57 91 92 5a",
    "list-variable-empty": "57 5a",
    "list-variable-typed": "55 04 5b696e74 91 5a",
    "list-fixed": "58 92 91 4e",
    "list-fixed-typed": "56 04 5b696e74 92 91 92",
    "list-fixed-type-by-index": "56 90 91 4e",
    "list-short-typed-7": "77 01 54 91919191919191",
    "list-short-7": "7f 91919191919191",
    "list-type-in-chunks": "71 52 0001 54 01 54 91",
    "map-empty": "48 5a",
    "map-typed-by-index": "4d 90 91 92 5a",
    "map-with-map-as-key": "48 48 5a 91 5a",
    "reference-two-byte-index": "51 c830",
    "reference-four-byte-index": "51 49 00000001",
    "reference-three-byte-index": "51 d40800",
    "four-bytes-counted-once": "01 f09f9880",
    "four-bytes-counted-twice": "02 f09f9880",
}


def skip(data: bytes) -> int:
    return skip_value(data, 0, [])


@pytest.mark.parametrize("name", sorted(VALUES))
def test_consumes_what_java_wrote(name: str) -> None:
    data = VALUES[name]
    assert skip(data) == len(data)
    assert skip_value(b"\x91" + data + b"\x5a\x4e", 1, []) == 1 + len(data)


@pytest.mark.parametrize("name", sorted(ATTACHMENTS))
def test_consumes_attachments_that_java_wrote(name: str) -> None:
    data = ATTACHMENTS[name]
    assert skip(data) == len(data)


@pytest.mark.parametrize("name", sorted(RARE))
def test_consumes_rare_constructs(name: str) -> None:
    data = bytes.fromhex(RARE[name])
    assert skip(data + b"\x91") == len(data)


@pytest.mark.parametrize("name", sorted(SEQUENCES))
def test_definitions_last_from_one_value_to_the_next(name: str) -> None:
    data = SEQUENCES[name]
    definitions: list[int] = []
    middle = skip_value(data, 0, definitions)
    assert 0 < middle < len(data)
    assert skip_value(data, middle, definitions) == len(data)


def test_fc_57_text_outside_the_basic_plane() -> None:
    data = bytes.fromhex("046869eda0bdedb880") + b"\x04gray"
    assert skip(data) == 9
    assert skip_value(data, 9, []) == len(data)


def test_long_text_outside_ascii_is_walked() -> None:
    text = "é中" * 40
    data = b"\x30\x50" + text.encode()
    assert skip(data + b"zz") == len(data)


@pytest.mark.parametrize("tag", [0x40, 0x45, 0x47, 0x4D, 0x50, 0x5A])
def test_refuses_bytes_that_start_no_value(tag: int) -> None:
    with pytest.raises((CodecError, IndexError)):
        skip(bytes([tag]))


@pytest.mark.parametrize(
    "data",
    [
        "5a",  # an end without a start
        "48 91 5a",  # a key without a value
        "60",  # no class was defined
        "43 01 41 90 61",  # the second class of one
        "43 01 41 90 4f 80",  # class -16
        "4f 4e",  # a class index that is not an int
        "51 4e",  # a reference that is not an int
        "43 4e 90 60",  # a class name that is not a string
        "43 01 41 91 90 60 4e",  # a field name that is not a string
        "43 01 41 4e 60",  # a field count that is not an int
        "43 01 41 8f 60",  # a negative field count
        "43 01 41 49 7fffffff 01 66",  # more fields than bytes
        "58 49 7fffffff 91",  # more elements than bytes
        "56 01 54 49 7fffffff 91",
        "58 80",  # a negative number of elements
        "7f 91",  # a short list with too few bytes left
        "52 0001 61 91",  # a string chunk that is followed by an int
        "41 0001 61 91",  # a binary chunk that is followed by an int
        "71 4e 91",  # a type that is neither a name nor an index
        "02 8061",  # a continuation byte where a character must start
    ],
)
def test_refuses(data: str) -> None:
    with pytest.raises(CodecError):
        skip(bytes.fromhex(data))


@pytest.mark.parametrize("name", sorted({*VALUES, *RARE}))
def test_cut_short_values_are_noticed(name: str) -> None:
    data = VALUES[name] if name in VALUES else bytes.fromhex(RARE[name])
    step = max(1, len(data) // 50)
    for end in range(0, len(data), step):
        cut = data[:end]
        try:
            assert skip(cut) > len(cut)
        except (CodecError, IndexError):
            continue


def nested(depth: int, start: bytes, end: bytes) -> bytes:
    return start * depth + b"\x91" + end * depth


@pytest.mark.parametrize(
    ("start", "end"),
    [(b"\x79", b""), (b"W", b"Z"), (b"H\x91", b"Z"), (b"X\x91", b""), (b"q\x01T", b"")],
)
def test_nesting_is_capped(start: bytes, end: bytes) -> None:
    allowed = nested(MAX_DEPTH, start, end)
    assert skip(allowed) == len(allowed)
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(CodecError, match="nested"):
            skip(nested(depth, start, end))


def test_objects_in_objects_are_capped() -> None:
    definition = b"C\x01A\x91\x01f"
    assert skip(definition + b"\x60" * MAX_DEPTH + b"N") == len(definition) + MAX_DEPTH + 1
    with pytest.raises(CodecError, match="nested"):
        skip(definition + b"\x60" * (MAX_DEPTH + 1) + b"N")


def test_class_definitions_are_capped() -> None:
    definition = b"C\x00\x90"
    allowed = definition * MAX_DEFINITIONS + b"\x60"
    assert skip(allowed) == len(allowed)
    with pytest.raises(CodecError, match="class definitions"):
        skip(definition + allowed)


def test_wide_values_are_not_deep() -> None:
    data = b"X" + b"I" + (100_000).to_bytes(4, "big") + b"\x78" * 100_000
    assert skip(data) == len(data)


def test_a_string_is_not_another_value() -> None:
    with pytest.raises(CodecError):
        skip_string(b"\x91", 0)
    with pytest.raises(CodecError):
        skip_string(b"N", 0)


def test_an_int_is_not_another_value() -> None:
    for data in (b"\x01a", b"\x7f", b"\xe0", b"L" + bytes(8), b"N"):
        with pytest.raises(CodecError):
            read_int(data, 0)
