"""gRPC's health service (grpc.health.v1), as far as it takes to answer it.

A request is one message with one string, the service that is asked about. Clients may send more
fields than this version of the protocol has: they are skipped.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.model.errors import CodecError

SERVICE: Final = "grpc.health.v1.Health"

# States of a response.
SERVING: Final = 1
NOT_SERVING: Final = 2
SERVICE_UNKNOWN: Final = 3

MAX_MESSAGE: Final = 4096  # bytes; a service name has at most 1024 characters
PREFIX_SIZE: Final = 5  # compression flag and length, in front of each gRPC message

_SERVICE_FIELD: Final = 1
_MAX_VARINT: Final = 10  # bytes
_MAX_TAG: Final = 2**32 - 1
_MAX_DEPTH: Final = 16  # of groups inside groups; nobody sends even one

# Protobuf's wire types.
_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_GROUP_START: Final = 3
_GROUP_END: Final = 4
_FIXED32: Final = 5


@final
class MessageReader:
    """Collects the first gRPC message of a stream, of at most ``limit`` bytes."""

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit: Final = limit
        self._buffer: Final = bytearray()
        self._is_done = False

    def feed(self, data: bytes) -> bytes | None:
        """Return the message when ``data`` completes it; what follows it is ignored.

        Raises CodecError when the message is compressed or longer than the limit.
        """
        if self._is_done:
            return None
        self._buffer.extend(data[: PREFIX_SIZE + self._limit])
        if len(self._buffer) < PREFIX_SIZE:
            return None
        if self._buffer[0] != 0:
            raise CodecError("compressed message")
        size = int.from_bytes(self._buffer[1:PREFIX_SIZE], "big")
        if size > self._limit:
            raise CodecError(f"message longer than {self._limit} bytes")
        if len(self._buffer) < PREFIX_SIZE + size:
            return None
        self._is_done = True
        return bytes(self._buffer[PREFIX_SIZE : PREFIX_SIZE + size])


def read_request(message: bytes) -> str:
    """Return the service that a HealthCheckRequest asks about; ``""`` stands for the whole server.

    Raises CodecError when the message is not protobuf.
    """
    service = b""
    pos = 0
    while pos < len(message):
        tag, pos = _read_varint(message, pos)
        start = pos
        pos = _skip_field(message, pos, tag, 0)
        if tag == _SERVICE_FIELD << 3 | _BYTES:
            _, start = _read_varint(message, start)
            service = message[start:pos]
    try:
        return service.decode()
    except UnicodeDecodeError:
        raise CodecError("service name is not UTF-8") from None


def response(state: int) -> bytes:
    """Return a HealthCheckResponse as a gRPC message, its prefix included."""
    return b"\0\0\0\0\x02\x08" + bytes((state,))


def _read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """Return the number at ``pos`` and the offset behind it."""
    number = 0
    for count in range(_MAX_VARINT):
        if pos == len(data):
            raise CodecError("message ends inside a value")
        byte = data[pos]
        pos += 1
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return number, pos
    raise CodecError("number too long")


def _skip_field(data: bytes, pos: int, tag: int, depth: int) -> int:
    """Return the offset behind the value of the field whose tag was read."""
    if tag > _MAX_TAG or tag >> 3 == 0:
        raise CodecError("bad field number")
    kind = tag & 7
    if kind == _VARINT:
        return _read_varint(data, pos)[1]
    if kind == _GROUP_START:
        return _skip_group(data, pos, tag, depth + 1)
    if kind == _BYTES:
        size, pos = _read_varint(data, pos)
        pos += size
    elif kind == _FIXED64:
        pos += 8
    elif kind == _FIXED32:
        pos += 4
    else:
        raise CodecError("bad wire type")
    if pos > len(data):
        raise CodecError("message ends inside a value")
    return pos


def _skip_group(data: bytes, pos: int, start: int, depth: int) -> int:
    if depth > _MAX_DEPTH:
        raise CodecError("groups too deep")
    while True:
        tag, pos = _read_varint(data, pos)
        if tag & 7 == _GROUP_END:
            if tag >> 3 != start >> 3:
                raise CodecError("group ends as another one")
            return pos
        pos = _skip_field(data, pos, tag, depth)
