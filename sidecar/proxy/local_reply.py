"""The words and bytes of every reply the sidecar makes itself.

A reply text starts with a reason token and names the service, so that one line in the consumer's
log says what happened and where. Any status but 20 carries exactly one Hessian2 string whatever
the request used: Dubbo consumers decode it by the id in the reply's own header.
"""

from __future__ import annotations

from typing import Final

from sidecar.model import reason
from sidecar.protocol.dubbo.frame import HESSIAN2, STATUS_SERVICE_NOT_FOUND
from sidecar.protocol.dubbo.reply import (
    LIMIT_EXCEEDED,
    NO_INVOKER,
    error_reply,
    exception_reply,
)

NO_PROVIDER_TEXTS: Final = {
    reason.EMPTY_REGISTRY: "the registry lists no instance that can be used",
    reason.UNKNOWN_SERVICE: "the service is not watched",
    reason.REGISTRY_UNAVAILABLE: "the registry has not answered yet",
    reason.REGISTRY_NOAUTH: "the registry refuses access",
    reason.VERSION_MISMATCH: "no instance has this version",
    reason.GROUP_MISMATCH: "no instance has this group",
    reason.PROTOCOL_MISMATCH: "no instance speaks the protocol of the call",
    reason.TAG_FORCED_EMPTY: "no instance has the tag the call insists on",
    reason.TAG_EMPTY: "no instance fits the tag of the call",
    reason.NEARBY_FORCED_EMPTY: "no instance is nearby",
    reason.DISABLED: "all instances are disabled",
    reason.ALL_DRAINED: "all instances are leaving",
    reason.READONLY: "all instances are shutting down",
}


def reply_text(token: str, service: str, why: str) -> str:
    """Return the text of a local reply: token, service if it is known, short reason."""
    return f"{token} {service}: {why}" if service else f"{token}: {why}"


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
    text = reply_text(token, service, NO_PROVIDER_TEXTS.get(token, "no instance is eligible"))
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
