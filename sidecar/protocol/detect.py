"""Which protocol a consumer speaks, told from the first bytes of its connection.

One rule for each: Dubbo's magic number; the preface of HTTP/2, which begins like a request of a
method that HTTP/1.1 must not have (RFC 9113, 3.4); a method of HTTP/1.1 with the blank after it.
"""

from __future__ import annotations

from string import ascii_uppercase
from typing import Final

from sidecar.protocol.dubbo.frame import MAGIC
from sidecar.protocol.http2.frames import PREFACE

MORE: Final = "more"  # cannot be told yet
UNKNOWN: Final = "unknown"
DUBBO: Final = "dubbo"
HTTP2: Final = "http2"
HTTP1: Final = "http1"

MAX_METHOD: Final = 20  # the longest registered one has 17 letters (UPDATEREDIRECTREF)

_RESERVED: Final = b"PRI "
_SIGNS: Final = ascii_uppercase.encode() + b"-"


def detect(start: bytes) -> str:
    """Return a word for the protocol that begins so; what was told once, more bytes never change.

    At most as many bytes as the preface of HTTP/2 has are needed (24).
    """
    if _begins(start, MAGIC):
        return DUBBO if len(start) >= len(MAGIC) else MORE
    if _begins(start, PREFACE):
        return HTTP2 if len(start) >= len(PREFACE) else MORE
    if start.startswith(_RESERVED):
        return UNKNOWN
    method, blank, _ = start[: MAX_METHOD + 1].partition(b" ")
    if not method or len(method) > MAX_METHOD or method.translate(None, _SIGNS):
        return UNKNOWN
    return HTTP1 if blank else MORE


def _begins(start: bytes, whole: bytes) -> bool:
    """Whether two texts are equal as far as both go."""
    return start[: len(whole)] == whole[: len(start)]
