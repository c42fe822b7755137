"""The fastjson2 body: every field is a four-byte length and one JSONB document.

Arguments are stepped over by their lengths. Only strings and the attachments, always the last
document, are looked into; there, values of other types are skipped by the grammar of fastjson2's
JSONReaderJSONB. Positions are offsets in the whole frame. Like the Hessian functions these raise
IndexError when a message ends inside a value.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from sidecar.model.errors import CodecError
from sidecar.protocol.hessian.skip import MAX_DEPTH, read_signed_32

LENGTH_SIZE: Final = 4
NULL: Final = 0xAF
OBJECT: Final = 0xA6
OBJECT_END: Final = 0xA5
TYPED_ANY: Final = 0x92
NULL_DOCUMENT: Final = b"\x00\x00\x00\x01\xaf"  # also the body of a heartbeat

_SHORT_STRING: Final = 0x49
_LAST_SHORT_STRING: Final = 0x78
_LATIN_STRING: Final = 0x79
_UTF8_STRING: Final = 0x7A
_GB18030_STRING: Final = 0x7E
_SYMBOL: Final = 0x7F
_INT8: Final = 0xBD
# Encodings of the tags 79 to 7e. On JDK 9 and later fastjson2 fills its "ASCII" with Latin-1.
_ENCODINGS: Final = ("latin-1", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "gb18030")

# Up to 8 a kind is the number of bytes that follow the tag; the others name what follows.
_LAST_FIXED: Final = 8
_TEXT: Final = 16  # a string of any form
_SIZED: Final = 17  # an int length and that many bytes
_VALUE: Final = 18  # one value
_VALUES: Final = 19  # two values
_ARRAY: Final = 20
_NAMED: Final = 21  # a type name and a value
_OBJECT: Final = 22
_NAME: Final = 23  # a symbol
_TIME: Final = 24  # 3 bytes and a value
_DATE_TIME: Final = 25  # 7 bytes and a value
_ZONED: Final = 26  # 7 bytes and two values
_NO_VALUE: Final = 255

_RANGES: Final = (
    (0x00, 0x2F, 0), (0x30, 0x3F, 1), (0x40, 0x47, 2), (0x48, 0x48, 4), (0x49, 0x7E, _TEXT),
    (_SYMBOL, _SYMBOL, _NAME), (0x90, 0x90, _VALUE), (0x91, 0x91, _SIZED),
    (TYPED_ANY, TYPED_ANY, _NAMED), (0x93, 0x93, _VALUE), (0x94, 0xA4, _ARRAY),
    (OBJECT, OBJECT, _OBJECT), (0xA7, 0xA7, _TIME), (0xA8, 0xA8, _DATE_TIME), (0xA9, 0xA9, 4),
    (0xAA, 0xAA, _ZONED), (0xAB, 0xAB, 8), (0xAC, 0xAD, 4), (0xAE, 0xAE, _VALUES),
    (NULL, 0xB3, 0), (0xB4, 0xB4, _VALUE), (0xB5, 0xB5, 8), (0xB6, 0xB6, _VALUE), (0xB7, 0xB7, 4),
    (0xB8, 0xB8, _VALUE), (0xB9, 0xB9, _VALUES), (0xBA, 0xBA, _VALUE), (0xBB, 0xBB, _SIZED),
    (0xBC, 0xBC, 2), (_INT8, _INT8, 1), (0xBE, 0xBE, 8), (0xBF, 0xBF, 4), (0xC0, 0xC7, 2),
    (0xC8, 0xD7, 1), (0xD8, 0xFF, 0),
)  # fmt: skip


def _make_kinds() -> bytes:
    kinds = bytearray([_NO_VALUE]) * 256
    for first, last, kind in _RANGES:
        for tag in range(first, last + 1):
            kinds[tag] = kind
    return bytes(kinds)


_KINDS: Final[bytes] = _make_kinds()


def document_end(data: bytes, pos: i64) -> i64:
    """Return where the document whose length is at ``pos`` ends; it lies within the frame."""
    size = read_signed_32(data, pos)
    end = pos + LENGTH_SIZE + size
    if size < 1 or end > len(data):
        raise CodecError("bad length of a JSONB document")
    return end


def last_document(data: bytes, pos: i64) -> i64:
    """Return where the length of the last document of the frame is, counted from one at ``pos``."""
    while True:
        end = document_end(data, pos)
        if end == len(data):
            return pos
        pos = end


def read_text_document(data: bytes, pos: i64) -> tuple[str | None, i64]:
    """Return the string (None for null) of the document at ``pos``, and where the document ends."""
    end = document_end(data, pos)
    if data[pos + LENGTH_SIZE] == NULL:
        return None, end
    text, at = read_string(data, pos + LENGTH_SIZE)
    if at != end:
        raise CodecError("JSONB string and its length disagree")
    return text, end


def is_string(data: bytes, pos: i64) -> bool:
    """Whether a string starts at ``pos``; null is not one."""
    return _KINDS[data[pos]] == _TEXT


def read_string(data: bytes, pos: i64) -> tuple[str, i64]:
    """Return the string at ``pos`` and where it ends; raises CodecError for another value."""
    start, end = _string_extent(data, pos)
    if end > len(data):
        raise IndexError
    tag: i64 = data[pos]
    text = data[start:end]
    if tag <= _LAST_SHORT_STRING:
        return text.decode("latin-1"), end
    try:
        return text.decode(_ENCODINGS[tag - _LATIN_STRING]), end
    except UnicodeDecodeError:
        raise CodecError("bad text in a JSONB string") from None


def _string_extent(data: bytes, pos: i64) -> tuple[i64, i64]:
    """Return where the bytes of the string at ``pos`` start and end."""
    tag: i64 = data[pos]
    if _SHORT_STRING <= tag <= _LAST_SHORT_STRING:
        return pos + 1, pos + 1 + tag - _SHORT_STRING
    if _LATIN_STRING <= tag <= _GB18030_STRING:
        return _sized_extent(data, pos + 1)
    raise CodecError(f"byte {tag:02x} where a JSONB string must start")


def _sized_extent(data: bytes, pos: i64) -> tuple[i64, i64]:
    """Return where the bytes behind the int length at ``pos`` start and end."""
    size, start = _read_int(data, pos)
    if size < 0 or size > len(data) - start:
        raise CodecError("more bytes announced than left")
    return start, start + size


def _read_int(data: bytes, pos: i64) -> tuple[i64, i64]:
    """Return the int at ``pos`` and where it ends."""
    tag: i64 = data[pos]
    if tag <= 0x2F:
        return tag, pos + 1
    if tag >= 0xF0:
        return tag - 0x100, pos + 1
    low: i64
    if tag <= 0x3F:
        low = data[pos + 1]
        return ((tag - 0x38) << 8) + low, pos + 2
    if tag <= 0x47:
        high: i64 = data[pos + 1]
        low = data[pos + 2]
        return ((tag - 0x44) << 16) + (high << 8) + low, pos + 3
    if tag == 0x48:
        return read_signed_32(data, pos + 1), pos + 5
    raise CodecError(f"byte {tag:02x} where a JSONB int must start")


def read_number(data: bytes, pos: i64) -> int | None:
    """Return the integral number at ``pos``, or None when another value is there."""
    tag: i64 = data[pos]
    kind: i64 = _KINDS[tag]
    if tag <= 0x48 or tag >= 0xF0:
        return _read_int(data, pos)[0]
    if tag >= 0xD8:
        return tag - 0xE0
    if 0xBC <= tag <= 0xBF:
        if pos + kind >= len(data):
            raise IndexError
        return int.from_bytes(data[pos + 1 : pos + 1 + kind], "big", signed=True)
    if tag >= 0xC8:
        return ((tag - 0xD0) << 8) + data[pos + 1]
    if tag >= 0xC0:
        return ((tag - 0xC4) << 16) + (data[pos + 1] << 8) + data[pos + 2]
    return None


def enter_object(data: bytes, pos: i64) -> i64:
    """Return where the first key of the object at ``pos`` is; a type name before it is skipped."""
    if data[pos] == TYPED_ANY:
        pos = _skip_symbol(data, pos + 1)
    if data[pos] != OBJECT:
        raise CodecError(f"byte {data[pos]:02x} where a JSONB object must start")
    return pos + 1


def skip_value(data: bytes, pos: i64, depth: i64 = 0) -> i64:
    """Return where the value at ``pos`` ends; raises CodecError, and IndexError when cut short."""
    tag: i64 = data[pos]
    kind: i64 = _KINDS[tag]
    if kind <= _LAST_FIXED:
        return pos + 1 + kind
    if kind == _TEXT:
        return _string_extent(data, pos)[1]
    if kind == _SIZED:
        return _sized_extent(data, pos + 1)[1]
    if kind == _NAME:
        return _skip_symbol(data, pos + 1)
    if kind == _NO_VALUE:
        raise CodecError(f"byte {tag:02x} where a JSONB value must start")
    if depth >= MAX_DEPTH:
        raise CodecError(f"values nested more than {MAX_DEPTH} deep")
    return _skip_compound(data, pos, kind, depth + 1)


def _skip_compound(data: bytes, pos: i64, kind: i64, depth: i64) -> i64:
    count: i64 = 1
    if kind == _OBJECT:
        return _skip_object(data, pos + 1, depth)
    if kind == _ARRAY:
        count, pos = _array_size(data, pos)
    elif kind == _NAMED:
        pos = _skip_symbol(data, pos + 1)
    elif kind == _VALUE:
        pos += 1
    elif kind == _VALUES:
        count = 2
        pos += 1
    elif kind == _TIME:
        pos += 4
    else:
        count = 2 if kind == _ZONED else 1
        pos += 8
    while count > 0:
        pos = skip_value(data, pos, depth)
        count -= 1
    return pos


def _skip_object(data: bytes, pos: i64, depth: i64) -> i64:
    while data[pos] != OBJECT_END:
        pos = skip_value(data, pos, depth)
        pos = skip_value(data, pos, depth)
    return pos + 1


def _array_size(data: bytes, pos: i64) -> tuple[i64, i64]:
    """Return the number of elements and where they start."""
    tag: i64 = data[pos]
    if tag <= 0xA3:
        return tag - 0x94, pos + 1
    count, pos = _read_int(data, pos + 1)
    if count < 0 or count > len(data) - pos:
        raise CodecError("more elements announced than bytes left")
    return count, pos


def _skip_symbol(data: bytes, pos: i64) -> i64:
    """Step over a name with its number, or the number of an earlier name."""
    if is_string(data, pos):
        pos = _string_extent(data, pos)[1]
    return _read_int(data, pos)[1]


def write_string(text: str) -> bytes:
    """Encode a string as fastjson2 does: Latin-1 length in the tag if short, else sized UTF-8."""
    if text.isascii():
        data = text.encode("ascii")
        if len(data) <= _LAST_SHORT_STRING - _SHORT_STRING:
            return bytes((_SHORT_STRING + len(data),)) + data
        return b"%b%b%b" % (bytes((_LATIN_STRING,)), _write_int(len(data)), data)
    data = text.encode("utf-8", "replace")
    return b"%b%b%b" % (bytes((_UTF8_STRING,)), _write_int(len(data)), data)


def _write_int(value: int) -> bytes:
    """Encode a length in its shortest form."""
    if value <= 0x2F:
        return bytes((value,))
    if value <= 0x7FF:
        return bytes((0x38 + (value >> 8), value & 0xFF))
    if value <= 0x3FFFF:
        return bytes((0x44 + (value >> 16), value >> 8 & 0xFF, value & 0xFF))
    return b"\x48" + value.to_bytes(4, "big")


def write_entries(pairs: list[tuple[str, str]]) -> bytes:
    """Encode the entries of an object, keys and values, without its start and end."""
    parts: list[bytes] = []
    for key, value in pairs:
        parts.append(write_string(key))
        parts.append(write_string(value))
    return b"".join(parts)
