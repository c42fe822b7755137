"""The answers this program makes itself: grpc-status in trailers, or an HTTP status with JSON.

Java takes a call whose head has another content type than gRPC's for failed by its HTTP status,
whatever grpc-status says: so the trailers-only form carries the content type of the request.
"""

from __future__ import annotations

import json
from typing import Final

from sidecar.protocol.triple.head import GRPC, TripleHead

# The codes of gRPC.
OK: Final = 0
CANCELLED: Final = 1
UNKNOWN: Final = 2
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
ALREADY_EXISTS: Final = 6
PERMISSION_DENIED: Final = 7
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
ABORTED: Final = 10
OUT_OF_RANGE: Final = 11
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
DATA_LOSS: Final = 15
UNAUTHENTICATED: Final = 16
BUSINESS_ERROR: Final = 17  # dubbo-go's own; Java does not know it and fails

# A text quotes names from the wire. With it a header list must stay below 8 KiB, the most that
# gRPC's clients take by default.
MAX_MESSAGE: Final = 2048

_GRPC_TYPE: Final = b"application/grpc"
_ERROR: Final = 500
_HTTP_STATUSES: Final[dict[int, int]] = {
    OK: 200,
    CANCELLED: 499,
    INVALID_ARGUMENT: 400,
    DEADLINE_EXCEEDED: 504,
    NOT_FOUND: 404,
    ALREADY_EXISTS: 409,
    PERMISSION_DENIED: 403,
    RESOURCE_EXHAUSTED: 429,
    FAILED_PRECONDITION: 400,
    ABORTED: 409,
    OUT_OF_RANGE: 400,
    UNIMPLEMENTED: 404,
    UNAVAILABLE: 503,
    UNAUTHENTICATED: 401,
}
_GRPC_STATUSES: Final[dict[int, int]] = {
    400: INTERNAL,
    401: UNAUTHENTICATED,
    403: PERMISSION_DENIED,
    404: UNIMPLEMENTED,
    429: UNAVAILABLE,
    431: INTERNAL,
    502: UNAVAILABLE,
    503: UNAVAILABLE,
    504: UNAVAILABLE,
}
_RESET_STATUSES: Final[dict[int, int]] = {
    0x7: UNAVAILABLE,  # REFUSED_STREAM
    0x8: CANCELLED,  # CANCEL
    0xB: RESOURCE_EXHAUSTED,  # ENHANCE_YOUR_CALM
    0xC: PERMISSION_DENIED,  # INADEQUATE_SECURITY
}


def trailers_only(head: TripleHead, grpc_status: int, text: str) -> list[tuple[bytes, bytes]]:
    """Return the one header list of a call that fails before its response has begun."""
    content_type = head.content_type if head.kind == GRPC else _GRPC_TYPE
    return [
        (b":status", b"200"),
        (b"content-type", content_type),
        *trailers(grpc_status, text),
    ]


def trailers(grpc_status: int, text: str) -> list[tuple[bytes, bytes]]:
    """Return the trailers that end a response; an empty text is left out."""
    result = [(b"grpc-status", str(grpc_status).encode())]
    message = percent_encode(text)
    if message:
        result.append((b"grpc-message", message))
    return result


def http_reply(status: int, text: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Return headers and body of an answer to a REST call.

    ``status`` is the HTTP status. The body is a JSON object: ``status``, ``reason`` (the first word
    of the text, a reason token) and ``message`` (the whole text, cut to MAX_MESSAGE characters).
    """
    text = text[:MAX_MESSAGE]
    reason = text.partition(" ")[0].rstrip(":")
    body = json.dumps({"status": status, "reason": reason, "message": text}).encode()
    headers = [
        (b":status", str(status).encode()),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    return headers, body


def percent_encode(text: str) -> bytes:
    """Return a text as the value of `grpc-message`, at most MAX_MESSAGE bytes of whole characters.

    The gRPC specification: UTF-8, where all but 0x20 to 0x7E, and `%` itself, becomes `%XX`. Blanks
    at either end are left out, since HTTP allows none there.
    """
    if text.isascii() and text.isprintable() and "%" not in text:
        return text[:MAX_MESSAGE].encode().strip()
    result = b""
    for sign in text[:MAX_MESSAGE]:
        encoded = _encode_sign(sign)
        if len(result) + len(encoded) > MAX_MESSAGE:
            break
        result += encoded
    return result.strip()


def _encode_sign(sign: str) -> bytes:
    if " " <= sign <= "~" and sign != "%":
        return sign.encode()
    return "".join([f"%{byte:02X}" for byte in sign.encode("utf-8", "replace")]).encode()


def grpc_status_of_http(status: int) -> int:
    """Return the code for a response without a grpc-status, by gRPC's table of HTTP statuses."""
    if 100 <= status < 200:
        return INTERNAL
    return _GRPC_STATUSES.get(status, UNKNOWN)


def grpc_status_of_reset(code: int) -> int:
    """Return the code for a stream that the peer reset, by gRPC's table of HTTP/2 errors."""
    return _RESET_STATUSES.get(code, INTERNAL)


def http_status_of_grpc(status: int) -> int:
    """Return the HTTP status that says the same as a code, for callers that do not speak gRPC."""
    return _HTTP_STATUSES.get(status, _ERROR)
