"""The attachments of a request: the few keys that matter here, in both encodings.

Attachments are the last value of a body, a map. Keys and values may be anything, so what is not
wanted is skipped by structure. When a key occurs twice the later value wins, as in Dubbo; a wanted
key whose value is neither a string nor an integer counts as absent.

Reading has two steps. The first collects the bytes of the wanted entries, the second decodes them.
Tracing agents add an entry that differs in each request; what is collected is the same for most
requests all the same, and so its meaning can be remembered.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from sidecar.model.errors import CodecError
from sidecar.protocol.dubbo import jsonb
from sidecar.protocol.hessian import read
from sidecar.protocol.hessian.skip import (
    CHUNK_BINARY,
    KINDS,
    LAST_SHORT_STRING,
    TAG_END,
    TAG_MAP,
    TAG_NULL,
    TAG_TYPED_MAP,
    skip_type,
    skip_units,
    skip_value,
)

# Dubbo's CommonConstants, and the tag of the interface-level tag router.
GROUP: Final = "group"
INTERFACE: Final = "interface"
PATH: Final = "path"
VERSION: Final = "version"
TAG: Final = "dubbo.tag"
FORCE_TAG: Final = "dubbo.force.tag"
SERVICE_TAG: Final = "dubbo.tag.service"
TIMEOUT: Final = "timeout"
REMAINING: Final = "_TO"
REMAINING_LOWER: Final = "_to"
APPLICATION: Final = "remote.application"
CALLBACK_PREFIX: Final = "sys_callback_arg-"

_NAMES: Final = (
    GROUP, INTERFACE, PATH, VERSION, TAG, FORCE_TAG, SERVICE_TAG, TIMEOUT, REMAINING,
    REMAINING_LOWER, APPLICATION,
)  # fmt: skip
_CALLBACK_BYTES: Final = CALLBACK_PREFIX.encode()
_CALLBACK_START: Final = 0x73  # its first byte
_HESSIAN_NULL: Final = b"N"


def _encoded_names() -> frozenset[bytes]:
    return frozenset([name.encode() for name in _NAMES])


def _length_mask() -> int:
    """Return a bit for each length a wanted key has: most other keys are told apart by it."""
    mask = 0
    for name in _NAMES:
        mask |= 1 << len(name)
    return mask


_WANTED: Final[frozenset[bytes]] = _encoded_names()
_WANTED_LENGTHS: Final[i64] = _length_mask()


@final
class Wanted:
    """The first step's result: ``entries`` are the wanted keys and values as they were sent.

    ``is_plain`` is False when any key or value of the map is a container or an object: then the
    same bytes may mean something else behind other arguments, whose class definitions they may use.
    """

    def __init__(self) -> None:
        self.parts: Final[list[bytes]] = []
        self.is_plain = True

    @property
    def entries(self) -> bytes:
        """The collected entries, one behind the other."""
        return b"".join(self.parts)


@final
class Attachments:
    """The second step's result: values as text by key, and whether a parameter is a callback."""

    def __init__(self) -> None:
        self.found: Final[dict[str, str]] = {}
        self.has_callback = False

    def put(self, key: str, value: str | None) -> None:
        """Note the value of a key, None when it cannot be used; a callback needs no value."""
        if key.startswith(CALLBACK_PREFIX):
            self.has_callback = True
        elif value is None:
            self.found.pop(key, None)
        else:
            self.found[key] = value


def collect_hessian(data: bytes, pos: i64, definitions: list[int]) -> Wanted:
    """Walk over the map (or null) at ``pos``, which must end with the message.

    ``definitions`` holds the field counts of the classes defined in the arguments. Raises
    CodecError, and IndexError when the message is cut short.
    """
    wanted = Wanted()
    if pos >= len(data):
        raise CodecError("no attachments behind the arguments")
    tag: i64 = data[pos]
    pos += 1
    if tag != TAG_NULL:
        if tag == TAG_TYPED_MAP:
            pos = skip_type(data, pos)
        elif tag != TAG_MAP:
            raise CodecError("no attachments behind the arguments")
        while data[pos] != TAG_END:
            pos = _collect_hessian_entry(data, pos, definitions, wanted)
        pos += 1
    if pos != len(data):
        raise CodecError("bytes behind the attachments")
    return wanted


def _collect_hessian_entry(data: bytes, pos: i64, definitions: list[int], wanted: Wanted) -> i64:
    start = pos
    is_wanted = False
    tag: i64 = data[pos]
    if tag <= LAST_SHORT_STRING:
        if _WANTED_LENGTHS >> tag & 1:
            is_wanted = data[pos + 1 : pos + 1 + tag] in _WANTED
        if not is_wanted and data[pos + 1] == _CALLBACK_START:
            is_wanted = data[pos + 1 : pos + 1 + tag].startswith(_CALLBACK_BYTES)
        pos = skip_units(data, pos + 1, tag)
    elif read.is_string(data, pos):
        key, pos = read.read_string_bytes(data, pos)
        is_wanted = key in _WANTED or key.startswith(_CALLBACK_BYTES)
    else:
        if not _is_simple(data, pos):
            wanted.is_plain = False
        pos = skip_value(data, pos, definitions, 1)
    end = skip_value(data, pos, definitions, 1)
    if _is_simple(data, pos):
        if is_wanted:
            wanted.parts.append(data[start:end])
    else:
        wanted.is_plain = False
        if is_wanted:
            wanted.parts.append(data[start:pos] + _HESSIAN_NULL)
    return end


def _is_simple(data: bytes, pos: i64) -> bool:
    return KINDS[data[pos]] <= CHUNK_BINARY


def decode_hessian(entries: bytes) -> Attachments:
    """Decode collected entries; raises CodecError for text that is not well-formed."""
    result = Attachments()
    pos: i64 = 0
    while pos < len(entries):
        key, pos = read.read_string(entries, pos)
        if read.is_string(entries, pos):
            value, pos = read.read_string(entries, pos)
            result.put(key, value)
        else:
            number = read.read_number(entries, pos)
            result.put(key, None if number is None else str(number))
            pos = skip_value(entries, pos, [])
    return result


def collect_jsonb(data: bytes, pos: i64) -> Wanted:
    """Walk over the object (or null) of the document whose length is at ``pos``, the last one."""
    wanted = Wanted()
    if pos >= len(data):
        raise CodecError("no attachments behind the arguments")
    if jsonb.document_end(data, pos) != len(data):
        raise CodecError("bytes behind the attachments")
    pos += jsonb.LENGTH_SIZE
    tag: i64 = data[pos]
    if tag == jsonb.NULL:
        pos += 1
    else:
        pos = jsonb.enter_object(data, pos)
        while data[pos] != jsonb.OBJECT_END:
            start = pos
            is_wanted = False
            if jsonb.is_string(data, pos):
                key, pos = jsonb.read_string(data, pos)
                is_wanted = key in _NAMES or key.startswith(CALLBACK_PREFIX)
            else:
                pos = jsonb.skip_value(data, pos, 1)
            pos = jsonb.skip_value(data, pos, 1)
            if is_wanted:
                wanted.parts.append(data[start:pos])
        pos += 1
    if pos != len(data):
        raise CodecError("bytes behind the attachments")
    return wanted


def decode_jsonb(entries: bytes) -> Attachments:
    """Decode collected entries; raises CodecError for text that is not well-formed."""
    result = Attachments()
    pos: i64 = 0
    while pos < len(entries):
        key, pos = jsonb.read_string(entries, pos)
        if jsonb.is_string(entries, pos):
            value, pos = jsonb.read_string(entries, pos)
            result.put(key, value)
        else:
            number = jsonb.read_number(entries, pos)
            result.put(key, None if number is None else str(number))
            pos = jsonb.skip_value(entries, pos)
    return result
