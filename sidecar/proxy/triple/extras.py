"""What a call is given on its way: values a consumer that dials the sidecar cannot know.

As on Dubbo TCP: the token, the path and the concrete group and version of the chosen instance, and
the configured default tag when the call has none, each only where it differs from what the call
says already. The deadline is what is left of it.

Java providers answer at the interface's name whatever path they register, and at the registered
path only when a context stands before that name; so it is used for a context and for nothing else.
"""

from __future__ import annotations

from typing import Final

from sidecar.model.instance import Instance
from sidecar.model.service import NO_VERSION
from sidecar.protocol.http2.session import Headers
from sidecar.protocol.triple.edit import request_headers
from sidecar.protocol.triple.head import TripleHead
from sidecar.proxy.triple.exchange import TripleCall

# Deadlines are in milliseconds at best; less than one is not taken off.
MIN_SPENT_US: Final = 1000


def outgoing(
    call: TripleCall, default_tag: str, is_authority_own: bool, is_tls: bool, now: float
) -> Headers:
    """Return the headers of a call for its chosen instance.

    Over TLS (``is_tls``) they say so: servers may refuse a scheme that is not the connection's.
    """
    head = call.head
    instance = call.instance
    path = b""
    authority = b""
    extra: list[tuple[bytes, bytes]] = []
    if instance is not None:
        if call.is_named_by_path and instance.path != head.service_path:
            path = _path(call, instance.path)
        if is_authority_own:
            authority = instance.address.encode()
        if instance.token or instance.group != head.group or instance.version != head.version:
            extra = _identity(head, instance)
    if is_tls:
        extra.append((b":scheme", b"https"))
    if default_tag and not head.tag:
        extra.append((b"dubbo.tag", default_tag.encode()))
    return request_headers(call.headers, head, path, authority, _left_us(call, now), extra)


def _left_us(call: TripleCall, now: float) -> int:
    """Return the deadline to pass on in microseconds, -1 when it stays as it is."""
    asked_us = call.head.timeout_us
    if asked_us < 0:
        return -1
    limit_us = min(asked_us, call.asked_ms * 1000)  # as cut by the configuration
    spent_us = int((now - call.started) * 1_000_000)
    if limit_us == asked_us and spent_us < MIN_SPENT_US:
        return -1
    return max(0, limit_us - spent_us)


def _path(call: TripleCall, registered: str) -> bytes:
    """Return the request's path with the instance's context, empty when it has to stay as it is."""
    if registered.rpartition("/")[2] != call.head.interface:
        return b""
    for name, value in call.headers:
        if name == b":path":
            rest = value[1 + len(call.head.service_path.encode()) :]
            return b"/" + registered.encode() + rest
    return b""


def _identity(head: TripleHead, instance: Instance) -> list[tuple[bytes, bytes]]:
    extra: list[tuple[bytes, bytes]] = []
    if instance.token:
        extra.append((b"token", instance.token.encode()))
    if instance.group != head.group:
        extra.append((b"tri-service-group", instance.group.encode()))
    if instance.version != head.version:
        version = instance.version or NO_VERSION
        extra.append((b"tri-service-version", version.encode()))
    return extra
