"""The words of every reply the sidecar makes itself, whatever the protocol.

A reply text starts with a reason token and names the service, so that one line in the consumer's
log says what happened and where.
"""

from __future__ import annotations

from typing import Final

from sidecar.model import reason

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


def no_provider_text(token: str, service: str) -> str:
    """Return the text for a call for which nothing is eligible."""
    return reply_text(token, service, NO_PROVIDER_TEXTS.get(token, "no instance is eligible"))
