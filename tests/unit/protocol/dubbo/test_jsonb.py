"""Reading, skipping and writing fastjson2 documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.errors import CodecError
from sidecar.protocol.dubbo import jsonb
from sidecar.protocol.hessian.skip import MAX_DEPTH
from tests.vectors.loader import messages

JAVA = messages("jsonb/java.txt")
VALUE_AT = 7  # length, object, the key "v"

STRINGS = {
    "string": "gray",
    "string-utf16": "é中",
    "string-chinese": "中文字",
    "string-emoji": "a😀b",
    "string-60": "x" * 60,
    "string-300": "x" * 300,
    "string-latin-1": "ééé",
}
NUMBERS = {
    "int-1": 1, "int-100": 100, "int-minus-100": -100, "int-3000": 3000, "int-100000": 100_000,
    "int-262144": 262_144, "int-5000000": 5_000_000, "long-1": 1, "long-100": 100,
    "long-100000": 100_000, "long-3000000000": 3_000_000_000, "long-minus-1": -1, "byte-3": 3,
    "short-300": 300,
}  # fmt: skip

# Constructs that Dubbo's writer does not choose, but fastjson2 knows.
RARE = {
    "string-gb18030": "7e 02 d6d0",
    "string-utf16-with-mark": "7b 04 fffe2d4e",
    "string-utf16-big-endian": "7d 02 4e2d",
    "string-of-three-byte-length": "79 44 0800" + "78" * 2048,
    "string-of-four-byte-length": "79 48 00000001 78",
    "symbol-new": "7f 4a61 00",
    "symbol-known": "7f 05",
    "array-15": "a3" + "01" * 15,
    "array-counted": "a4 3810" + "01" * 16,
    "timestamp-seconds": "ac 00000001",
    "timestamp-minutes": "ad 00000001",
    "double-of-long": "b4 d064",
    "float-of-int": "b6 01",
    "decimal-of-long": "b8 d064",
    "big-integer-of-long": "ba d064",
    "long-of-int": "bf ffffffff",
    "long-short": "c4 0001",
    "typed-by-number": "92 00 a6 a5",
}


@pytest.mark.parametrize("name", sorted(JAVA))
def test_skips_what_java_wrote(name: str) -> None:
    data = JAVA[name]
    assert jsonb.document_end(data, 0) == len(data)
    assert jsonb.skip_value(data + b"\x01", jsonb.LENGTH_SIZE) == len(data)


@pytest.mark.parametrize("name", sorted(JAVA.keys() - {"no-map", "empty-map"}))
def test_the_entries_fill_the_object(name: str) -> None:
    data = JAVA[name]
    pos = jsonb.enter_object(data, jsonb.LENGTH_SIZE)
    while data[pos] != jsonb.OBJECT_END:
        key, pos = jsonb.read_string(data, pos)
        assert key in {"v", "a", "b", "c", "键", "k" * 60}
        pos = jsonb.skip_value(data, pos)
    assert pos == len(data) - 1


@pytest.mark.parametrize("name", sorted(RARE))
def test_skips_rare_constructs(name: str) -> None:
    data = bytes.fromhex(RARE[name])
    assert jsonb.skip_value(data + b"\x01", 0) == len(data)


@pytest.mark.parametrize("name", sorted(STRINGS))
def test_strings(name: str) -> None:
    data = JAVA[name]
    assert jsonb.is_string(data, VALUE_AT)
    assert jsonb.read_string(data, VALUE_AT) == (STRINGS[name], len(data) - 1)
    assert jsonb.read_number(data, VALUE_AT) is None


def test_strings_in_rare_encodings() -> None:
    for name in ("string-gb18030", "string-utf16-with-mark", "string-utf16-big-endian"):
        assert jsonb.read_string(bytes.fromhex(RARE[name]), 0)[0] == "中"


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_numbers(name: str) -> None:
    data = JAVA[name]
    assert not jsonb.is_string(data, VALUE_AT)
    assert jsonb.read_number(data, VALUE_AT) == NUMBERS[name]
    for end in range(VALUE_AT, len(data) - 1):
        with pytest.raises(IndexError):
            jsonb.read_number(data[:end], VALUE_AT)


@pytest.mark.parametrize("name", ["null", "true", "double-1.5", "array-list", "date", "object"])
def test_other_values_are_not_integers(name: str) -> None:
    assert jsonb.read_number(JAVA[name], VALUE_AT) is None


def test_inline_negative_ints() -> None:
    assert jsonb.read_number(b"\xf0", 0) == -16
    assert jsonb.read_number(b"\xff", 0) == -1
    assert jsonb.read_number(bytes.fromhex("bf ffffffff"), 0) == -1
    assert jsonb.read_number(bytes.fromhex("bd ff"), 0) == -1


@pytest.mark.parametrize(
    "data",
    [
        "80",  # unused
        "a5",  # an end without a start
        "a6 01 a5",  # a key without a value
        "79 f0",  # a negative length
        "79 48 7fffffff 61",  # more bytes than left
        "91 48 7fffffff 61",
        "bb f0",
        "79 4a61",  # a length that is not an int
        "a4 48 7fffffff 01",  # more elements than bytes
        "a4 f0",
        "92 a6 a5",  # a type name that is not one
        "7f af",
    ],
)
def test_refuses(data: str) -> None:
    with pytest.raises(CodecError):
        jsonb.skip_value(bytes.fromhex(data), 0)


@pytest.mark.parametrize("name", sorted(JAVA))
def test_cut_short_values_are_noticed(name: str) -> None:
    data = JAVA[name]
    for end in range(jsonb.LENGTH_SIZE, len(data)):
        cut = data[:end]
        try:
            assert jsonb.skip_value(cut, jsonb.LENGTH_SIZE) > len(cut)
        except (CodecError, IndexError):
            continue


@pytest.mark.parametrize(("start", "end"), [("95", ""), ("a601", "a5"), ("93", ""), ("9200", "")])
def test_nesting_is_capped(start: str, end: str) -> None:
    for depth, is_allowed in ((MAX_DEPTH, True), (MAX_DEPTH + 1, False), (50_000, False)):
        data = bytes.fromhex(start * depth + "01" + end * depth)
        if is_allowed:
            assert jsonb.skip_value(data, 0) == len(data)
        else:
            with pytest.raises(CodecError, match="nested"):
                jsonb.skip_value(data, 0)


@pytest.mark.parametrize("size", ["00000000", "ffffffff", "00000003", "7fffffff"])
def test_a_document_lies_within_the_message(size: str) -> None:
    with pytest.raises(CodecError):
        jsonb.document_end(bytes.fromhex(size + "0101"), 0)


def test_text_documents() -> None:
    assert jsonb.read_text_document(bytes.fromhex("00000002 4a61 ff"), 0) == ("a", 6)
    assert jsonb.read_text_document(bytes.fromhex("00000001 af"), 0) == (None, 5)
    with pytest.raises(CodecError, match="disagree"):
        jsonb.read_text_document(bytes.fromhex("00000003 4a61 00"), 0)
    with pytest.raises(CodecError):
        jsonb.read_text_document(bytes.fromhex("00000001 01"), 0)


def test_bad_text() -> None:
    with pytest.raises(CodecError, match="text"):
        jsonb.read_string(bytes.fromhex("7a 01 ff"), 0)
    with pytest.raises(IndexError):
        jsonb.read_string(bytes.fromhex("4b 61"), 0)


def test_the_last_document() -> None:
    data = bytes.fromhex("00000001 af 00000002 4a61 00000002 a6a5")
    assert jsonb.last_document(data, 0) == 11
    assert jsonb.last_document(data, 11) == 11
    with pytest.raises(CodecError):
        jsonb.last_document(data[:-1], 0)


def test_only_objects_are_entered() -> None:
    assert jsonb.enter_object(bytes.fromhex("a6 a5"), 0) == 1
    assert jsonb.enter_object(bytes.fromhex("92 4a4d 00 a6 a5"), 0) == 5
    with pytest.raises(CodecError):
        jsonb.enter_object(bytes.fromhex("94"), 0)


@pytest.mark.parametrize("name", ["string", "string-60", "string-300", "string-emoji"])
def test_writes_as_java_does(name: str) -> None:
    assert jsonb.write_string(STRINGS[name]) == JAVA[name][VALUE_AT:-1]


def test_a_half_pair_is_replaced() -> None:
    assert jsonb.write_string("a\ud800") == b"\x7a\x02a?"


@given(
    st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from([1, 2, 50, 3000, 300_000])
)
def test_any_text_is_read_back(text: str, copies: int) -> None:
    text = text[: 1_000_000 // copies] * copies
    data = jsonb.write_string(text)
    assert jsonb.read_string(data, 0) == (text, len(data))
    assert jsonb.skip_value(data, 0) == len(data)


def test_entries() -> None:
    assert jsonb.write_entries([("a", "b"), ("c", "")]) == b"JaJbJcI"
