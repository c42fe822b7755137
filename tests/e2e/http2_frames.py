"""Cuts an HTTP/2 byte stream into frames with decoded headers, without the code under test."""

from __future__ import annotations

from typing import NamedTuple

from hpack import Decoder

from tests.e2e.record import Relay

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER = 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
KINDS = (
    "DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY",
    "WINDOW_UPDATE", "CONTINUATION",
)  # fmt: skip


class Http2Frame(NamedTuple):
    """One frame; ``headers`` of a HEADERS frame are in the order of the wire."""

    kind: str
    stream: int
    flags: int
    payload: bytes
    headers: list[tuple[bytes, bytes]]

    @property
    def is_end(self) -> bool:
        """Whether it ends its direction of the stream."""
        return self.kind in {"DATA", "HEADERS"} and bool(self.flags & END_STREAM)

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None."""
        found = [value for key, value in self.headers if key == name.encode()]
        return found[0].decode("utf-8", "backslashreplace") if found else None


class Http2Frames:
    """The frames of one direction of one connection."""

    def __init__(self) -> None:
        self._rest = b""
        self._decoder = Decoder()
        self._decoder.max_allowed_table_size = 1 << 20
        self._may_begin = True

    def feed(self, data: bytes) -> list[Http2Frame]:
        """Return the frames that are complete by now."""
        self._rest += data
        if self._may_begin and len(self._rest) >= len(PREFACE):
            self._rest = self._rest.removeprefix(PREFACE)
            self._may_begin = False
        found = []
        while not self._may_begin and len(self._rest) >= FRAME_HEADER:
            size = FRAME_HEADER + int.from_bytes(self._rest[:3], "big")
            if len(self._rest) < size:
                break
            found.append(self._frame(self._rest[:size]))
            self._rest = self._rest[size:]
        return found

    def _frame(self, raw: bytes) -> Http2Frame:
        kind, flags = raw[3], raw[4]
        stream = int.from_bytes(raw[5:9], "big") & 0x7FFFFFFF
        payload = raw[FRAME_HEADER:]
        headers: list[tuple[bytes, bytes]] = []
        if KINDS[kind] == "HEADERS":
            assert flags & END_HEADERS, "header lists of these peers fit into one frame"
            headers = list(self._decoder.decode(_block(payload, flags), raw=True))
        return Http2Frame(KINDS[kind], stream, flags, payload, headers)


def _block(payload: bytes, flags: int) -> bytes:
    if flags & PADDED:
        payload = payload[1 : len(payload) - payload[0]]
    return payload[5:] if flags & PRIORITY else payload


class Http2Relay(Relay):
    """A relay between Triple peers that keeps frames with their headers."""

    scheme = "tri"
    cutter = Http2Frames
