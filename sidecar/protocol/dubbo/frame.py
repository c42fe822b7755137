"""Cutting a byte stream into Dubbo frames: the 16-byte header of Dubbo's ExchangeCodec.

    offset  size  field (big-endian)
    0       2     magic da bb
    2       1     flags: 80 request, 40 two-way, 20 event, 1f serialization id
    3       1     status, 0 in requests
    4       8     id, opaque
    12      4     body length; the body follows

The reader copies a split frame twice, another one once (or not, when it is the whole chunk), never
looks at a byte again while it collects a frame, and holds at most one of the largest allowed size.
What is larger is reported after its header and its body is counted away, not kept. Java scans ahead
for the next magic when a stream is out of step; this reader gives up instead, since a payload may
contain the magic.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

HEADER_SIZE: Final = 16
MAGIC: Final = b"\xda\xbb"
MAGIC_HIGH: Final = 0xDA
MAGIC_LOW: Final = 0xBB

FLAG_REQUEST: Final = 0x80
FLAG_TWO_WAY: Final = 0x40
FLAG_EVENT: Final = 0x20
SERIALIZATION_MASK: Final = 0x1F

# Serialization ids that this program reads; any other is passed through.
HESSIAN2: Final = 2
FASTJSON2: Final = 23

# Dubbo's Response.
STATUS_OK: Final = 20
STATUS_CLIENT_TIMEOUT: Final = 30
STATUS_SERVER_TIMEOUT: Final = 31
STATUS_CHANNEL_INACTIVE: Final = 35
STATUS_BAD_REQUEST: Final = 40
STATUS_BAD_RESPONSE: Final = 50
STATUS_SERVICE_NOT_FOUND: Final = 60
STATUS_SERVICE_ERROR: Final = 70
STATUS_SERVER_ERROR: Final = 80
STATUS_POOL_EXHAUSTED: Final = 100

# The kind of a body of status 20 (Dubbo's DubboCodec), an integer before the rest: 0 exception,
# 1 value, 2 null; 3 to 5 are the same with attachments.
KIND_EXCEPTION: Final = 0
KIND_EXCEPTION_WITH_ATTACHMENTS: Final = 3
LAST_KIND: Final = 5

_BAD_HEADER: Final = -1


@final
@mypyc_attr(acyclic=True)
class Frame:
    """One frame as it came: ``raw`` is header and body, or the header alone when ``oversize``.

    ``size`` is the announced length of the body in bytes. Immutable.
    """

    def __init__(self, raw: bytes, flags: int, status: int, size: int, oversize: bool) -> None:
        self.raw: Final = raw
        self.flags: Final = flags
        self.status: Final = status
        self.size: Final = size
        self.oversize: Final = oversize

    @property
    def is_request(self) -> bool:
        """Whether the frame is a request (an event may be one, too)."""
        return self.flags & FLAG_REQUEST != 0

    @property
    def is_two_way(self) -> bool:
        """Whether the sender waits for a reply; it has a meaning on requests only."""
        return self.flags & FLAG_TWO_WAY != 0

    @property
    def is_event(self) -> bool:
        """Whether the frame is a heartbeat or another event instead of a call or its reply."""
        return self.flags & FLAG_EVENT != 0

    @property
    def serialization(self) -> int:
        """The id of the body's encoding, 0 to 31."""
        return self.flags & SERIALIZATION_MASK

    @property
    def id8(self) -> bytes:
        """The eight bytes of the id, as they were sent."""
        return self.raw[4:12]


@final
class FrameReader:
    """Cuts frames out of a stream that arrives in chunks of any size.

    ``broken`` is empty until the stream cannot be followed any more (bad magic, negative length);
    then it says why and every later chunk is ignored. ``max_payload`` is the largest body in bytes
    that is kept; it also caps the memory of the reader.
    """

    def __init__(self, max_payload: int) -> None:
        self.broken = ""
        self._max_payload: Final[i64] = max_payload
        self._partial = bytearray()  # the start of a frame whose end has not arrived
        self._discard: i64 = 0  # bytes of an oversize body still to come

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that end in this chunk, and the oversize ones whose header does."""
        frames: list[Frame] = []
        if self.broken:
            return frames
        pos: i64 = 0
        end: i64 = len(data)
        if self._discard > 0:
            pos = self._drop(0, end)
        elif self._partial:
            pos = self._resume(data, frames)
        while end - pos >= HEADER_SIZE:
            size = self._check_header(data, pos)
            if size == _BAD_HEADER:
                return frames
            if size > self._max_payload:
                frames.append(_cut(data, pos, pos + HEADER_SIZE, size, True))
                self._discard = size
                pos = self._drop(pos + HEADER_SIZE, end)
                continue
            frame_end = pos + HEADER_SIZE + size
            if frame_end > end:
                break
            frames.append(_cut(data, pos, frame_end, size, False))
            pos = frame_end
        if pos < end:
            self._keep(data, pos)
        return frames

    def _resume(self, data: bytes, frames: list[Frame]) -> i64:
        """Add to the collected start of a frame; return how much of the chunk was used."""
        partial = self._partial
        have: i64 = len(partial)
        end: i64 = len(data)
        pos: i64 = 0
        if have < HEADER_SIZE:
            pos = min(HEADER_SIZE - have, end)
            partial += data[:pos]
            have += pos
            if have < HEADER_SIZE:
                self._check_magic()
                return pos
        header = bytes(partial[:HEADER_SIZE])
        size = self._check_header(header, 0)
        if size == _BAD_HEADER:
            return end
        if size > self._max_payload:
            frames.append(_cut(header, 0, HEADER_SIZE, size, True))
            partial.clear()
            self._discard = size
            return self._drop(pos, end)
        missing = HEADER_SIZE + size - have
        if end - pos < missing:
            partial += data[pos:]
            return end
        partial += data[pos : pos + missing]
        raw = bytes(partial)
        partial.clear()
        frames.append(_cut(raw, 0, HEADER_SIZE + size, size, False))
        return pos + missing

    def _keep(self, data: bytes, pos: i64) -> None:
        """Collect the start of a frame; a peer that speaks another protocol is found out early."""
        self._partial += data[pos:]
        self._check_magic()

    def _drop(self, pos: i64, end: i64) -> i64:
        """Count away the body of an oversize frame; return where it ends in the chunk."""
        dropped = min(self._discard, end - pos)
        self._discard -= dropped
        return pos + dropped

    def _check_header(self, data: bytes, pos: i64) -> i64:
        """Return the length of the body, or ``_BAD_HEADER`` after giving the stream up."""
        if data[pos] != MAGIC_HIGH or data[pos + 1] != MAGIC_LOW:
            self._give_up("bad magic")
            return _BAD_HEADER
        high: i64 = data[pos + 12]
        if high >= 0x80:
            self._give_up("negative body length")
            return _BAD_HEADER
        middle_high: i64 = data[pos + 13]
        middle_low: i64 = data[pos + 14]
        low: i64 = data[pos + 15]
        return high << 24 | middle_high << 16 | middle_low << 8 | low

    def _check_magic(self) -> None:
        """Give up as soon as the first bytes of a header are wrong, however few they are."""
        partial = self._partial
        if partial[0] != MAGIC_HIGH or (len(partial) > 1 and partial[1] != MAGIC_LOW):
            self._give_up("bad magic")

    def _give_up(self, reason: str) -> None:
        self.broken = reason
        self._partial.clear()


def _cut(data: bytes, start: i64, end: i64, size: i64, oversize: bool) -> Frame:
    raw = data if start == 0 and end == len(data) else data[start:end]
    return Frame(raw, raw[2], raw[3], size, oversize)


def restamp(raw: bytes, id8: bytes) -> bytes:
    """Return the frame with another id; nothing else in a frame depends on it."""
    return b"%b%b%b" % (raw[:4], id8, raw[12:])


def with_body(raw: bytes, body: bytes) -> bytes:
    """Return the header of ``raw`` with the length of ``body``, and ``body`` behind it."""
    return b"%b%b%b" % (raw[:12], len(body).to_bytes(4, "big"), body)
