"""Frames made by hand and what is needed to read a frame header (RFC 9113, sections 4 and 6)."""

from __future__ import annotations

from typing import Final

HEADER_SIZE: Final = 9
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA: Final = 0x0
HEADERS: Final = 0x1
RST_STREAM: Final = 0x3
PUSH_PROMISE: Final = 0x5
GOAWAY: Final = 0x7
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4

# The largest frame of a peer that was not told otherwise, and it is not: a whole frame is collected
# before its data goes on, so larger ones would cost memory and time.
MAX_FRAME_SIZE: Final = 16_384


def goaway(last_stream_id: int, code: int) -> bytes:
    """Return a GOAWAY frame without debug text."""
    head = bytes([0, 0, 8, GOAWAY, 0, 0, 0, 0, 0])
    return head + last_stream_id.to_bytes(4, "big") + code.to_bytes(4, "big")
