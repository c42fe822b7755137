"""Counts what a peer does too much of, from the frame headers as they pass.

nghttp2 has limits of its own, but they end a connection without a word why, and know nothing of
what was sent. Here a frame header is read where it lies and its payload is passed over.

- A header list in pieces: at most ``continuations`` CONTINUATION frames, also empty ones, and twice
  ``header_size`` bytes on the wire, since compression makes any usual list shorter.
- Resets, asked for by the peer or made necessary by it, in windows of ten seconds, and streams that
  nghttp2 refuses on its own: malformed ones, and those beyond the limit. A client that
  resets its streams at once is not held back by the limit of concurrent streams; one that gives up
  after a deadline is, so the reset of a stream that lived for a while is a control frame like
  others. One that has read the first message and wants no more is held back by the answers: each
  that was begun allows for one reset. A provider may reset as many streams as were opened on it.
- All other frames that carry no message. Those with which an honest peer answers a message are
  free: a receiver returns windows (of its stream and its connection, after each piece or each KiB
  at most) and measures the bandwidth with a PING after a piece (gRPC does).
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from sidecar.protocol.http2 import frames
from sidecar.protocol.http2.limits import SessionLimits

CONTINUATION: Final = "continuation"
HEADER_SIZE: Final = "header_size"
RESETS: Final = "resets"
CONTROL: Final = "control"

WINDOW_SECONDS: Final = 10.0

# A stream that lived for (once to twice) this long was given up, not reset rapidly. Streams in
# flight are limited, so this limits what such resets can cost.
GIVEN_UP_SECONDS: Final = 0.5

# Frames that may answer one piece of data, besides two for each KiB of it; and one list of headers.
ANSWERS_PER_PIECE: Final = 4
ANSWERS_PER_HEADERS: Final = 2
_KIB_SHIFT: Final = 9  # two frames for each 1024 bytes


@final
class FrameMeter:
    """Reads the frame headers of one peer; a server passes over the preface of its client first."""

    def __init__(self, limits: SessionLimits, is_server: bool) -> None:
        self._continuations_limit: Final[i64] = limits.continuations
        self._block_limit: Final[i64] = 2 * limits.header_size
        self._resets_limit: Final[i64] = limits.resets
        self._control_limit: Final[i64] = limits.control_frames
        self._streams_limit: Final[i64] = limits.max_streams

        self.header_since = 0.0
        self.opened: i64 = 0  # streams that the peer has opened, since the last ``note_heard``
        self.refused = 0  # streams that never came to be
        self.first: i64 = 0
        self.whole: i64 = 0

        # Of the frame that is passing: bytes to come, whether it ends a header list, is too large.
        self._rest: i64 = len(frames.PREFACE) if is_server else 0
        self._ends_block = False
        self._is_opening = False
        self._is_passed_on = is_server
        self._partial = b""

        self._continuations: i64 = 0
        self._block: i64 = 0

        self._window_start = 0.0
        self._resets: i64 = 0
        self._control: i64 = 0
        self._answers: i64 = 0
        self._empties: i64 = 0  # counted as they passed, and not yet noted as empty
        self._requested: i64 = 0
        self._answered: i64 = 0

        self._mark_time = 0.0
        self._newest: i64 = 0
        self._marked: i64 = 0
        self._aged: i64 = 0

    def feed(self, data: bytes, now: float) -> str:
        """Read on; "" or the word for what is too much, after which nothing more is to be fed.

        ``whole`` is then the number of bytes of ``data`` that may be passed on: to the end of the
        last frame that is complete and good; ``first`` is the end of the first one. Frames that are
        too large are passed on as they come, to be refused. ``header_since`` is the time since when
        a header list is incomplete, 0.0 when none is. ``now`` is in seconds, monotonic, not 0.0.
        """
        self._advance(now)
        end: i64 = len(data)
        at: i64 = 0
        self.first = 0
        self.whole = 0
        if self._partial:
            missing = frames.HEADER_SIZE - len(self._partial)
            head = self._partial + data[:missing]
            if len(head) < frames.HEADER_SIZE:
                self._partial = head
                return ""
            self._partial = b""
            word = self._begin(head, 0, now)
            if word:
                return word
            at = missing
        while True:
            if self._rest > end - at:
                self._rest -= end - at
                if self._is_passed_on:
                    self._pass(end)
                return ""
            at += self._rest
            self._rest = 0
            self._finish()
            self._pass(at)
            if end - at < frames.HEADER_SIZE:
                self._partial = data[at:]
                return ""
            word = self._begin(data, at, now)
            if word:
                return word
            at += frames.HEADER_SIZE

    def note_reset(self, now: float) -> str:
        """Count a stream that the peer made us reset; "" or ``resets``."""
        self._advance(now)
        return self._count_reset()

    def note_heard(self, count: int, now: float) -> str:
        """Count streams that were opened and of which only ``count`` came to be; "" or ``resets``.

        Due after all that was fed has been dealt with.
        """
        lost = self.opened - count
        self.opened = 0
        if lost <= 0:
            return ""
        self.refused += lost
        self._advance(now)
        self._resets += lost
        return RESETS if self._resets > self._resets_limit else ""

    def note_empty(self, now: float) -> str:
        """Count a DATA frame that had nothing but padding; "" or ``control``.

        Those without any payload are noted, too, and were counted as they passed.
        """
        if self._empties > 0:
            self._empties -= 1
            return ""
        self._advance(now)
        return self._count_control()

    def note_request(self) -> None:
        """Remember that a stream was opened on the peer, which it may reset."""
        self._requested += 1

    def note_answer(self) -> None:
        """Remember that an answer was begun, of which the peer may want no more.

        More than can be open at once are not remembered: they are over.
        """
        if self._answered < self._streams_limit:
            self._answered += 1

    def note_sent(self, size: int) -> None:
        """Remember that data was sent, which the peer may answer with control frames."""
        self._answers += ANSWERS_PER_PIECE + (size >> _KIB_SHIFT)

    def _advance(self, now: float) -> None:
        if now - self._window_start >= WINDOW_SECONDS:
            self._window_start = now
            self._resets = 0
            self._control = 0
        if now - self._mark_time >= GIVEN_UP_SECONDS:
            self._mark_time = now
            self._aged = self._marked
            self._marked = self._newest

    def _pass(self, at: i64) -> None:
        if self.first == 0:
            self.first = at
        self.whole = at

    def _finish(self) -> None:
        if self._ends_block:
            self._ends_block = False
            self.header_since = 0.0
            if self._is_opening:
                self._is_opening = False
                self.opened += 1

    def _begin(self, data: bytes, at: i64, now: float) -> str:
        size: i64 = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2]
        kind: i64 = data[at + 3]
        flags: i64 = data[at + 4]
        self._rest = size
        self._is_passed_on = size > frames.MAX_FRAME_SIZE
        is_message = kind == frames.DATA and (size > 0 or (flags & frames.END_STREAM) != 0)
        if is_message or self._is_passed_on:
            return ""
        if kind == frames.HEADERS:
            self._answers += ANSWERS_PER_HEADERS
            stream_id = _stream_id(data, at)
            if stream_id > self._newest:
                self._newest = stream_id
                self._is_opening = True
            return self._begin_block(size, flags, now)
        if kind == frames.RST_STREAM:
            is_given_up = _stream_id(data, at) <= self._aged
            return self._count_control() if is_given_up else self._count_reset()
        if kind == frames.CONTINUATION:
            return self._continue_block(size, flags)
        if kind == frames.PUSH_PROMISE:
            return self._begin_block(size, flags, now) or self._count_control()
        if kind == frames.DATA:
            self._empties += 1
        return self._count_control()

    def _begin_block(self, size: i64, flags: i64, now: float) -> str:
        self.header_since = now
        self._ends_block = (flags & frames.END_HEADERS) != 0
        self._continuations = 0
        self._block = size
        return HEADER_SIZE if size > self._block_limit else ""

    def _continue_block(self, size: i64, flags: i64) -> str:
        self._ends_block = (flags & frames.END_HEADERS) != 0
        self._continuations += 1
        self._block += size
        if self._continuations > self._continuations_limit:
            return CONTINUATION
        return HEADER_SIZE if self._block > self._block_limit else ""

    def _count_reset(self) -> str:
        if self._requested > 0:
            self._requested -= 1
            return ""
        if self._answered > 0:
            self._answered -= 1
            return ""
        self._resets += 1
        return RESETS if self._resets > self._resets_limit else ""

    def _count_control(self) -> str:
        if self._answers > 0:
            self._answers -= 1
            return ""
        self._control += 1
        return CONTROL if self._control > self._control_limit else ""


def _stream_id(data: bytes, at: i64) -> i64:
    high: i64 = ((data[at + 5] & 0x7F) << 24) | (data[at + 6] << 16)
    return high | (data[at + 7] << 8) | data[at + 8]
