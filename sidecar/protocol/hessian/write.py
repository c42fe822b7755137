"""Writing the few Hessian 2 values this program makes: strings, ints, and maps of strings.

The bytes are those hessian-lite's Hessian2Output makes, cuts of long strings included.
"""

from __future__ import annotations

from typing import Final

from sidecar.protocol.hessian.skip import LAST_SHORT_STRING

MAX_CHUNK: Final = 0x8000  # UTF-16 units of one string chunk

_ONE_BYTE: Final[list[bytes]] = [bytes((value,)) for value in range(256)]


def write_string(text: str) -> bytes:
    """Encode a string; its length counts UTF-16 units and each unit is encoded by itself."""
    if len(text) <= LAST_SHORT_STRING and text.isascii():
        return _ONE_BYTE[len(text)] + text.encode("ascii")
    units = text if text.isascii() else _split_pairs(text)
    parts: list[bytes] = []
    start = 0
    while len(units) - start > MAX_CHUNK:
        end = start + MAX_CHUNK
        if 0xD800 <= ord(units[end - 1]) <= 0xDBFF:
            end -= 1  # a pair stays in one chunk
        parts.append(_long_head(0x52, end - start))
        parts.append(units[start:end].encode("utf-8", "surrogatepass"))
        start = end
    parts.append(_last_head(len(units) - start))
    parts.append(units[start:].encode("utf-8", "surrogatepass"))
    return b"".join(parts)


def _split_pairs(text: str) -> str:
    """Return the text with each character outside the basic plane as its two surrogates."""
    data = text.encode("utf-16-be", "surrogatepass")
    return "".join([chr(data[at] << 8 | data[at + 1]) for at in range(0, len(data), 2)])


def _last_head(units: int) -> bytes:
    if units <= LAST_SHORT_STRING:
        return _ONE_BYTE[units]
    if units <= 0x3FF:
        return bytes((0x30 + (units >> 8), units & 0xFF))
    return _long_head(0x53, units)


def _long_head(tag: int, units: int) -> bytes:
    return bytes((tag, units >> 8, units & 0xFF))


def write_int(value: int) -> bytes:
    """Encode a Java int in its shortest form."""
    if -0x10 <= value <= 0x2F:
        return _ONE_BYTE[0x90 + value]
    if -0x800 <= value <= 0x7FF:
        return bytes((0xC8 + (value >> 8), value & 0xFF))
    if -0x40000 <= value <= 0x3FFFF:
        return bytes((0xD4 + (value >> 16), value >> 8 & 0xFF, value & 0xFF))
    return b"I" + value.to_bytes(4, "big", signed=True)


def write_entries(pairs: list[tuple[str, str]]) -> bytes:
    """Encode the entries of a map, keys and values, without its start and end."""
    parts: list[bytes] = []
    for key, value in pairs:
        parts.append(write_string(key))
        parts.append(write_string(value))
    return b"".join(parts)


def write_map(pairs: list[tuple[str, str]]) -> bytes:
    """Encode an untyped map of strings."""
    return b"H%bZ" % write_entries(pairs)
