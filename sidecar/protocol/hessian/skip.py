"""Stepping over Hessian 2 values without building them.

A table says what follows each tag byte: for most tags a fixed number of bytes, else a construct.
The only state is the list of class definitions met so far (their field counts), which spans one
whole message body, because a later value may be an object of a class an earlier one defined.
Strings count UTF-16 units, not bytes, so text outside ASCII is walked unit by unit.

The caps against hostile input: nesting is limited, and a count is refused when it is larger than
the number of bytes left, since every value takes at least one. The time is thus linear in the size
of the message. The index check of ``bytes`` is the bounds check: every function here raises
IndexError when a message ends inside a value, and may return a position behind the end, which the
caller compares once. Tags are those of hessian-lite's Hessian2Constants.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from sidecar.model.errors import CodecError

# Containers inside one another. Deeper graphs would be a stack overflow in many decoders as well.
MAX_DEPTH: Final = 64
# Class definitions in one message; real messages have tens, and each costs a table entry.
MAX_DEFINITIONS: Final = 4096

LAST_SHORT_STRING: Final = 0x1F  # up to here a tag is the length of a string
TAG_NULL: Final = 0x4E
TAG_MAP: Final = 0x48
TAG_TYPED_MAP: Final = 0x4D
TAG_END: Final = 0x5A

# Up to here a kind is the number of bytes that follow the tag.
LAST_FIXED: Final = 8
SHORT_STRING: Final = 16
MEDIUM_STRING: Final = 17
LAST_STRING: Final = 18
CHUNK_STRING: Final = 19
SHORT_BINARY: Final = 20
MEDIUM_BINARY: Final = 21
LAST_BINARY: Final = 22
CHUNK_BINARY: Final = 23
REFERENCE: Final = 24
DEFINITION: Final = 25
SHORT_OBJECT: Final = 32
OBJECT: Final = 33
SHORT_LIST: Final = 34
SHORT_TYPED_LIST: Final = 35
FIXED_LIST: Final = 36
FIXED_TYPED_LIST: Final = 37
VARIABLE_LIST: Final = 38
VARIABLE_TYPED_LIST: Final = 39
MAP: Final = 40
TYPED_MAP: Final = 41
NO_VALUE: Final = 255

_RANGES: Final = (
    (0x00, LAST_SHORT_STRING, SHORT_STRING), (0x20, 0x2F, SHORT_BINARY),
    (0x30, 0x33, MEDIUM_STRING), (0x34, 0x37, MEDIUM_BINARY), (0x38, 0x3F, 2),
    (0x41, 0x41, CHUNK_BINARY),
    (0x42, 0x42, LAST_BINARY), (0x43, 0x43, DEFINITION), (0x44, 0x44, 8), (0x46, 0x46, 0),
    (TAG_MAP, TAG_MAP, MAP), (0x49, 0x49, 4), (0x4A, 0x4A, 8), (0x4B, 0x4B, 4), (0x4C, 0x4C, 8),
    (TAG_TYPED_MAP, TAG_TYPED_MAP, TYPED_MAP), (TAG_NULL, TAG_NULL, 0), (0x4F, 0x4F, OBJECT),
    (0x51, 0x51, REFERENCE), (0x52, 0x52, CHUNK_STRING), (0x53, 0x53, LAST_STRING),
    (0x54, 0x54, 0), (0x55, 0x55, VARIABLE_TYPED_LIST), (0x56, 0x56, FIXED_TYPED_LIST),
    (0x57, 0x57, VARIABLE_LIST), (0x58, 0x58, FIXED_LIST), (0x59, 0x59, 4), (0x5B, 0x5C, 0),
    (0x5D, 0x5D, 1), (0x5E, 0x5E, 2), (0x5F, 0x5F, 4), (0x60, 0x6F, SHORT_OBJECT),
    (0x70, 0x77, SHORT_TYPED_LIST), (0x78, 0x7F, SHORT_LIST), (0x80, 0xBF, 0), (0xC0, 0xCF, 1),
    (0xD0, 0xD7, 2), (0xD8, 0xEF, 0), (0xF0, 0xFF, 1),
)  # fmt: skip


def _make_kinds() -> bytes:
    kinds = bytearray([NO_VALUE]) * 256
    for first, last, kind in _RANGES:
        for tag in range(first, last + 1):
            kinds[tag] = kind
    return bytes(kinds)


KINDS: Final[bytes] = _make_kinds()


def skip_value(data: bytes, pos: i64, definitions: list[int], depth: i64 = 0) -> i64:
    """Return where the value at ``pos`` ends; raises CodecError, and IndexError when cut short.

    ``definitions`` holds the field counts of the class definitions met so far and is added to;
    ``depth`` is the number of containers around the value.
    """
    tag: i64 = data[pos]
    kind: i64 = KINDS[tag]
    while kind == DEFINITION:  # a prefix: the value follows
        pos = _skip_definition(data, pos + 1, definitions)
        tag = data[pos]
        kind = KINDS[tag]
    if kind <= LAST_FIXED:
        return pos + 1 + kind
    if kind == SHORT_STRING:
        return skip_units(data, pos + 1, tag)
    if kind <= CHUNK_STRING:
        return skip_string(data, pos)
    if kind <= CHUNK_BINARY:
        return _skip_binary(data, pos)
    if kind == REFERENCE:
        return skip_int(data, pos + 1)
    if kind == NO_VALUE:
        raise CodecError(f"byte {tag:02x} where a Hessian value must start")
    if depth >= MAX_DEPTH:
        raise CodecError(f"values nested more than {MAX_DEPTH} deep")
    return _skip_container(data, pos, kind, definitions, depth + 1)


def _skip_container(data: bytes, pos: i64, kind: i64, definitions: list[int], depth: i64) -> i64:
    if kind >= VARIABLE_LIST:
        pos += 1
        if kind in (VARIABLE_TYPED_LIST, TYPED_MAP):
            pos = skip_type(data, pos)
        while data[pos] != TAG_END:
            pos = skip_value(data, pos, definitions, depth)
            if kind >= MAP:
                pos = skip_value(data, pos, definitions, depth)
        return pos + 1
    count: i64
    if kind <= OBJECT:
        count, pos = _object_size(data, pos, kind, definitions)
    else:
        count, pos = _list_size(data, pos, kind)
    if count < 0 or count > len(data) - pos:
        raise CodecError("more elements announced than bytes left")
    while count > 0:
        pos = skip_value(data, pos, definitions, depth)
        count -= 1
    return pos


def _object_size(data: bytes, pos: i64, kind: i64, definitions: list[int]) -> tuple[i64, i64]:
    """Return the number of fields and where they start."""
    index: i64 = data[pos]
    if kind == SHORT_OBJECT:
        index -= 0x60
        pos += 1
    else:
        index, pos = read_int(data, pos + 1)
    if index < 0 or index >= len(definitions):
        raise CodecError("object of a class that was not defined")
    return definitions[index], pos


def _list_size(data: bytes, pos: i64, kind: i64) -> tuple[i64, i64]:
    """Return the number of elements and where they start."""
    count: i64 = data[pos] & 7
    pos += 1
    if kind in (SHORT_TYPED_LIST, FIXED_TYPED_LIST):
        pos = skip_type(data, pos)
    if kind >= FIXED_LIST:
        return read_int(data, pos)
    return count, pos


def _skip_definition(data: bytes, pos: i64, definitions: list[int]) -> i64:
    """Step over a class definition behind its tag and remember its number of fields."""
    pos = skip_string(data, pos)
    fields, pos = read_int(data, pos)
    if fields < 0 or fields > len(data) - pos:
        raise CodecError("more fields announced than bytes left")
    if len(definitions) >= MAX_DEFINITIONS:
        raise CodecError(f"more than {MAX_DEFINITIONS} class definitions")
    definitions.append(fields)
    while fields > 0:
        pos = skip_string(data, pos)
        fields -= 1
    return pos


def skip_type(data: bytes, pos: i64) -> i64:
    """Step over the type of a list or map: a name, or the index of an earlier one."""
    kind: i64 = KINDS[data[pos]]
    if SHORT_STRING <= kind <= CHUNK_STRING:
        return skip_string(data, pos)
    return skip_int(data, pos)


def skip_string(data: bytes, pos: i64) -> i64:
    """Return where the string at ``pos`` ends, all its chunks included; refuses other values."""
    while True:
        count, start, is_last = string_chunk(data, pos)
        pos = skip_units(data, start, count)
        if is_last:
            return pos


def string_chunk(data: bytes, pos: i64) -> tuple[i64, i64, bool]:
    """Return the UTF-16 units of the string chunk at ``pos``, their start, whether it is last."""
    tag: i64 = data[pos]
    kind: i64 = KINDS[tag]
    if kind == SHORT_STRING:
        return tag, pos + 1, True
    if kind == MEDIUM_STRING:
        low: i64 = data[pos + 1]
        return (tag - 0x30) << 8 | low, pos + 2, True
    if kind in (LAST_STRING, CHUNK_STRING):
        return _read_16(data, pos + 1), pos + 3, kind == LAST_STRING
    raise CodecError(f"byte {tag:02x} where a Hessian string must start")


def skip_units(data: bytes, pos: i64, units: i64) -> i64:
    """Step over text of that many UTF-16 units, three bytes each at most.

    Some encoders write a character outside the basic plane as four bytes and count it as one or as
    two. The peers refuse that, but skipping can follow it in most cases: it counts as two here, or
    as one where only one is left.
    """
    end = pos + units
    if units > 32:  # below, a loop is faster than a copy
        if data[pos:end].isascii():
            return end
    else:
        at = pos
        while at < end:
            if data[at] >= 0x80:
                break
            at += 1
        else:
            return end
    while units > 0:
        lead: i64 = data[pos]
        units -= 1
        if lead < 0x80:
            pos += 1
        elif lead < 0xC0:
            raise CodecError("bad UTF-8 in a Hessian string")
        elif lead < 0xE0:
            pos += 2
        elif lead < 0xF0:
            pos += 3
        else:
            pos += 4
            units -= 1
    return pos


def _skip_binary(data: bytes, pos: i64) -> i64:
    while True:
        tag: i64 = data[pos]
        kind: i64 = KINDS[tag]
        if kind == SHORT_BINARY:
            return pos + 1 + (tag - 0x20)
        if kind == MEDIUM_BINARY:
            low: i64 = data[pos + 1]
            return pos + 2 + ((tag - 0x34) << 8 | low)
        if kind not in (LAST_BINARY, CHUNK_BINARY):
            raise CodecError(f"byte {tag:02x} where a Hessian binary chunk must start")
        pos += 3 + _read_16(data, pos + 1)
        if kind == LAST_BINARY:
            return pos


def skip_int(data: bytes, pos: i64) -> i64:
    """Return where the int at ``pos`` ends; refuses other values."""
    return read_int(data, pos)[1]


def read_int(data: bytes, pos: i64) -> tuple[i64, i64]:
    """Return the int at ``pos`` and where it ends; refuses other values."""
    tag: i64 = data[pos]
    if 0x80 <= tag <= 0xBF:
        return tag - 0x90, pos + 1
    if 0xC0 <= tag <= 0xCF:
        low: i64 = data[pos + 1]
        return ((tag - 0xC8) << 8) + low, pos + 2
    if 0xD0 <= tag <= 0xD7:
        return ((tag - 0xD4) << 16) + _read_16(data, pos + 1), pos + 3
    if tag == 0x49:
        return read_signed_32(data, pos + 1), pos + 5
    raise CodecError(f"byte {tag:02x} where a Hessian int must start")


def _read_16(data: bytes, pos: i64) -> i64:
    high: i64 = data[pos]
    low: i64 = data[pos + 1]
    return high << 8 | low


def read_signed_32(data: bytes, pos: i64) -> i64:
    """Return the four bytes at ``pos`` as a signed number."""
    value = _read_16(data, pos) << 16 | _read_16(data, pos + 2)
    return value - 0x100000000 if value >= 0x80000000 else value
