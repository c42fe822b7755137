"""The bytes of every Dubbo reply the sidecar makes itself.

Any status but 20 carries exactly one Hessian2 string whatever the request used: Dubbo consumers
decode it by the id in the reply's own header.
"""

from __future__ import annotations

from sidecar.model import reason
from sidecar.protocol.dubbo.frame import HESSIAN2, STATUS_SERVICE_NOT_FOUND
from sidecar.protocol.dubbo.reply import (
    LIMIT_EXCEEDED,
    NO_INVOKER,
    error_reply,
    exception_reply,
)
from sidecar.proxy.words import no_provider_text, reply_text


def status_reply(id8: bytes, status: int, token: str, service: str, why: str) -> bytes:
    """Return a reply frame with a status other than 20."""
    return error_reply(id8, status, reply_text(token, service, why))


def no_provider_reply(
    id8: bytes, serialization: int, token: str, service: str, as_exception: bool
) -> bytes:
    """Return the reply to a call for which nothing is eligible.

    As an RpcException (which Java consumers do not retry) it needs the serialization of the
    request, and Hessian2 is the one written here; other requests get the status form.
    """
    text = no_provider_text(token, service)
    if as_exception and serialization == HESSIAN2:
        return exception_reply(id8, serialization, NO_INVOKER, text)
    return error_reply(id8, STATUS_SERVICE_NOT_FOUND, text)


def overload_reply(id8: bytes, serialization: int, service: str, why: str) -> bytes:
    """Return the reply to a call that a cap of the sidecar turns away.

    Java consumers repeat a call at once after every error status, which is the last thing an
    overload needs; an RpcException they do not repeat. Other encodings get status 100.
    """
    text = reply_text(reason.OVERLOADED, service, why)
    return exception_reply(id8, serialization, LIMIT_EXCEEDED, text)
