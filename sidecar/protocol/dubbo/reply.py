"""The frames this program makes itself: error replies and heartbeats.

The body of a reply whose status is not 20 is exactly one string, in hessian2 under serialization
id 2 whatever the request used: Java decodes it by the id of the reply, dubbo-go always as hessian2.
A reply of status 20 must carry the id of its request.
"""

from __future__ import annotations

from typing import Final

from sidecar.protocol.dubbo import jsonb
from sidecar.protocol.dubbo.frame import (
    FASTJSON2,
    FLAG_EVENT,
    FLAG_REQUEST,
    FLAG_TWO_WAY,
    HEADER_SIZE,
    HESSIAN2,
    KIND_EXCEPTION_WITH_ATTACHMENTS,
    MAGIC,
    STATUS_OK,
    STATUS_POOL_EXHAUSTED,
    STATUS_SERVICE_ERROR,
    STATUS_SERVICE_NOT_FOUND,
    Frame,
)
from sidecar.protocol.hessian.write import write_int, write_string

# Codes of Dubbo's RpcException.
NO_INVOKER: Final = 6
LIMIT_EXCEEDED: Final = 7

# Characters of a reply text: it may quote names from the wire, and must stay small for all that.
MAX_TEXT: Final = 2048
# Largest event body that is sent back; Java's own limit for events (deserialization.event.size).
MAX_EVENT_SIZE: Final = 15

_HESSIAN_NULL: Final = b"N"
_EXCEPTION_CLASS: Final = "org.apache.dubbo.rpc.RpcException"


def _make_exception_start() -> bytes:
    """Encode the kind, the class definition with its two fields, and the start of an object."""
    return b"".join(
        [
            write_int(KIND_EXCEPTION_WITH_ATTACHMENTS),
            b"C",
            write_string(_EXCEPTION_CLASS),
            write_int(2),
            write_string("code"),
            write_string("detailMessage"),
            b"\x60",
        ]
    )


_EXCEPTION_START: Final[bytes] = _make_exception_start()
_NO_ATTACHMENTS: Final = b"HZ"  # not null: dubbo-go insists on a map


def error_reply(id8: bytes, status: int, text: str) -> bytes:
    """Return a reply of a status other than 20; ``text`` is cut and freed of control characters."""
    return _make_frame(HESSIAN2, status, id8, write_string(clean_text(text)))


def exception_reply(id8: bytes, serialization: int, code: int, text: str) -> bytes:
    """Return a reply that Java throws as an RpcException and does not try again.

    ``code`` is one of RpcException's. Only hessian2 is written; a request in another encoding gets
    the error reply whose status is nearest to the code.
    """
    if serialization != HESSIAN2:
        return error_reply(id8, _nearest_status(code), text)
    body = b"".join(
        [_EXCEPTION_START, write_int(code), write_string(clean_text(text)), _NO_ATTACHMENTS]
    )
    return _make_frame(HESSIAN2, STATUS_OK, id8, body)


def _nearest_status(code: int) -> int:
    if code == LIMIT_EXCEEDED:
        return STATUS_POOL_EXHAUSTED
    if code == NO_INVOKER:
        return STATUS_SERVICE_NOT_FOUND
    return STATUS_SERVICE_ERROR


def heartbeat_request(id8: bytes) -> bytes:
    """Return a heartbeat that asks for a reply, in hessian2."""
    return _make_frame(FLAG_REQUEST | FLAG_TWO_WAY | FLAG_EVENT | HESSIAN2, 0, id8, _HESSIAN_NULL)


def heartbeat_reply(frame: Frame) -> bytes:
    """Return the reply to a heartbeat, or to any event whose sender waits for one.

    Peers compare the body with the null of the serialization in the flags. For encodings that are
    not understood the request's own body is that null; without one the reply is in hessian2.
    """
    serialization = frame.serialization
    body = _HESSIAN_NULL
    if serialization == FASTJSON2:
        body = jsonb.NULL_DOCUMENT
    elif serialization != HESSIAN2:
        body = frame.raw[HEADER_SIZE:]
        if not body or len(body) > MAX_EVENT_SIZE:
            serialization = HESSIAN2
            body = _HESSIAN_NULL
    return _make_frame(FLAG_EVENT | serialization, STATUS_OK, frame.id8, body)


def clean_text(text: str) -> str:
    """Cut a text to ``MAX_TEXT`` characters and replace those that are not printable."""
    text = text[:MAX_TEXT]
    if text.isprintable():
        return text
    return "".join([sign if sign.isprintable() else "?" for sign in text])


def _make_frame(flags: int, status: int, id8: bytes, body: bytes) -> bytes:
    head = bytes((flags, status))
    return b"".join([MAGIC, head, id8, len(body).to_bytes(4, "big"), body])
