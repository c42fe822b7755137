"""The few frames the sample provider and the sample consumer exchange.

One service, one method: ``String greet(String)``. Bodies are Hessian2, as Dubbo 2.7 and 3 write
them: version, path, service version, method, descriptor, argument, attachments.
"""

from __future__ import annotations

from typing import Final

from sidecar.protocol.dubbo.frame import Frame
from sidecar.protocol.hessian.read import read_string
from sidecar.protocol.hessian.write import write_map, write_string

INTERFACE: Final = "org.example.Greeter"
METHOD: Final = "greet"
MAX_PAYLOAD: Final = 64 * 1024  # greetings are short

_DUBBO_VERSION: Final = "2.0.2"
_HESSIAN_REQUEST: Final = b"\xda\xbb\xc2\x00"  # two-way request, serialization 2
_HESSIAN_REPLY: Final = b"\xda\xbb\x02\x14"  # response, status 20
_VALUE_AND_ATTACHMENTS: Final = 0x94
_OK: Final = 20
_KIND_AT: Final = 16  # the first byte of a body


def greet_request(number: int, name: str, tag: str) -> bytes:
    """Return a call of ``greet(name)`` with the id ``number``."""
    texts = (_DUBBO_VERSION, INTERFACE, "0.0.0", METHOD, "Ljava/lang/String;", name)
    attachments = [("path", INTERFACE), ("interface", INTERFACE)]
    if tag:
        attachments.append(("dubbo.tag", tag))
    body = b"".join(write_string(text) for text in texts) + write_map(attachments)
    return _frame(_HESSIAN_REQUEST, number.to_bytes(8, "big"), body)


def greet_reply(request: Frame, text: str) -> bytes:
    """Return the answer of the provider to a request."""
    body = bytes([_VALUE_AND_ATTACHMENTS]) + write_string(text)
    return _frame(_HESSIAN_REPLY, request.id8, body + write_map([("dubbo", _DUBBO_VERSION)]))


def reply_text(reply: Frame) -> tuple[bool, str]:
    """Return whether a reply carries a greeting, and its text or the error's text."""
    if reply.status != _OK:
        return False, str(read_string(reply.raw, _KIND_AT)[0])
    if reply.raw[_KIND_AT] != _VALUE_AND_ATTACHMENTS:
        return False, f"a reply of kind {reply.raw[_KIND_AT]:#x}"
    return True, str(read_string(reply.raw, _KIND_AT + 1)[0])


def _frame(head: bytes, id8: bytes, body: bytes) -> bytes:
    return head + id8 + len(body).to_bytes(4, "big") + body
