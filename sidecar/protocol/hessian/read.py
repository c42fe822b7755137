"""Reading the few Hessian 2 values that routing looks at: strings, and numbers as text.

Reading is stricter than skipping: a string must be well-formed, and a character of four UTF-8
bytes is refused as hessian-lite refuses it. Like the functions of ``skip`` these raise IndexError
when a message ends inside a value.
"""

from __future__ import annotations

from mypy_extensions import i64

from sidecar.model.errors import CodecError
from sidecar.protocol.hessian.skip import (
    CHUNK_STRING,
    KINDS,
    SHORT_STRING,
    TAG_NULL,
    read_int,
    skip_units,
    string_chunk,
)


def is_string(data: bytes, pos: i64) -> bool:
    """Whether a string starts at ``pos``; null is not one."""
    kind: i64 = KINDS[data[pos]]
    return SHORT_STRING <= kind <= CHUNK_STRING


def read_string(data: bytes, pos: i64) -> tuple[str, i64]:
    """Return the string at ``pos`` and where it ends; raises CodecError for another value."""
    text, end = read_string_bytes(data, pos)
    return decode_text(text), end


def read_string_bytes(data: bytes, pos: i64) -> tuple[bytes, i64]:
    """Return the undecoded text of the string at ``pos`` and where the string ends."""
    count, start, is_last = string_chunk(data, pos)
    end = skip_units(data, start, count)
    text = data[start:end]
    if not is_last:
        chunks = [text]
        while not is_last:
            count, start, is_last = string_chunk(data, end)
            end = skip_units(data, start, count)
            chunks.append(data[start:end])
        text = b"".join(chunks)
    if end > len(data):
        raise IndexError
    return text, end


def read_string_or_null(data: bytes, pos: i64) -> tuple[str | None, i64]:
    """Like ``read_string``, with None for null."""
    if data[pos] == TAG_NULL:
        return None, pos + 1
    return read_string(data, pos)


def decode_text(text: bytes) -> str:
    """Decode the bytes of a string: UTF-8 of UTF-16 units, so a surrogate pair is six bytes."""
    if text.isascii():
        return text.decode("ascii")
    try:
        decoded = text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise CodecError("bad UTF-8 in a Hessian string") from None
    units = decoded.encode("utf-16-le", "surrogatepass")
    if len(units) != 2 * len(decoded):  # a character of four bytes took two units
        raise CodecError("bad UTF-8 in a Hessian string")
    return units.decode("utf-16-le", "surrogatepass")


def read_number(data: bytes, pos: i64) -> int | None:
    """Return the int or long at ``pos``, or None when another value is there."""
    tag: i64 = data[pos]
    if tag == 0x49 or 0x80 <= tag <= 0xD7:
        return read_int(data, pos)[0]
    if 0xD8 <= tag <= 0xEF:
        return tag - 0xE0
    if tag >= 0xF0:
        return ((tag - 0xF8) << 8) + data[pos + 1]
    if 0x38 <= tag <= 0x3F:
        return ((tag - 0x3C) << 16) + (data[pos + 1] << 8) + data[pos + 2]
    if tag in (0x59, 0x4C):
        size: i64 = KINDS[tag]
        if pos + size >= len(data):
            raise IndexError
        return int.from_bytes(data[pos + 1 : pos + 1 + size], "big", signed=True)
    return None
