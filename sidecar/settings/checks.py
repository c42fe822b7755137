"""Checks between fields, one function per section.

A check yields the names of the fields it looked at, the first being the one to point at, and what
is wrong. The reader drops a finding when one of these fields could not be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from sidecar.model.service import ServiceKey
from sidecar.settings.forms import parse_address, parse_listen_address
from sidecar.settings.schema import (
    Drain,
    Http2,
    Limits,
    Listener,
    Nearby,
    Registry,
    Services,
    Settings,
    Upstream,
    UpstreamTls,
)


class Finding(NamedTuple):
    """One contradiction between fields."""

    fields: tuple[str, ...]
    text: str


def check_nearby(nearby: Nearby) -> Iterator[Finding]:
    """Find thresholds that cannot be a percentage."""
    if nearby.mode == "ratio" and nearby.threshold > 100:
        yield Finding(
            ("threshold", "mode"), "in mode ratio the threshold is a percentage, 0 to 100"
        )


def check_upstream(upstream: Upstream) -> Iterator[Finding]:
    """Find times and counts in the wrong order."""
    if upstream.backoff_min > upstream.backoff_max:
        yield Finding(("backoff_min", "backoff_max"), "longer than backoff_max")
    if upstream.heartbeat >= upstream.reconnect_after:
        text = "must be shorter than reconnect_after, or every quiet connection is dropped"
        yield Finding(("heartbeat", "reconnect_after"), text)
    if upstream.warm > upstream.connections:
        yield Finding(("warm", "connections"), "more than connections")


def check_listener(listener: Listener) -> Iterator[Finding]:
    """Find paths where none are looked at."""
    if listener.paths and listener.protocol == "dubbo":
        yield Finding(("paths", "protocol"), "a dubbo listener has no paths; use triple or auto")


def check_upstream_tls(tls: UpstreamTls) -> Iterator[Finding]:
    """Find half a pair of certificate and key, and authorities that would not be asked."""
    if bool(tls.certificate) != bool(tls.key):
        missing = "key" if tls.certificate else "certificate"
        fields = ("certificate" if tls.certificate else "key", missing)
        yield Finding(fields, f"needs a {missing} beside it")
    if tls.ca and not tls.verify:
        yield Finding(("verify", "ca"), "with verify off, ca is not looked at")


def check_http2(http2: Http2) -> Iterator[Finding]:
    """Find a window that could never be used up."""
    if http2.stream_window > http2.connection_window:
        text = "larger than connection_window, which all streams share"
        yield Finding(("stream_window", "connection_window"), text)


def check_drain(drain: Drain) -> Iterator[Finding]:
    """Find a quiet time that can never be waited for."""
    if drain.idle > drain.grace:
        yield Finding(("idle", "grace"), "longer than grace")


def check_limits(limits: Limits) -> Iterator[Finding]:
    """Find a buffer that could never hold a request that is allowed."""
    if limits.max_payload > limits.upstream_buffer:
        text = "larger than upstream_buffer, which has to hold a request until it is sent"
        yield Finding(("max_payload", "upstream_buffer"), text)


def check_registry(registry: Registry) -> Iterator[Finding]:
    """Find half a credential, and credentials where none are used."""
    if registry.url.startswith("file:"):
        if registry.username or registry.password:
            yield Finding(("url", "username", "password"), "a file registry takes no credentials")
    elif bool(registry.username) != bool(registry.password):
        missing = "password" if registry.username else "username"
        fields = ("username" if registry.username else "password", missing)
        yield Finding(fields, f"needs a {missing} beside it")


def check_services(services: Services) -> Iterator[Finding]:
    """Find services named twice, and settings under which nothing would be served."""
    for name, values in (("preload", services.preload), ("overrides", list(services.overrides))):
        counts = Counter(ServiceKey.parse(value).text for value in values)
        for text in (key for key, count in counts.items() if count > 1):
            yield Finding((name,), f"{text!r} is named twice")
    if len(services.preload) > services.max_services:
        text = f"{len(services.preload)} services, but max_services is {services.max_services}"
        yield Finding(("preload", "max_services"), text)
    if not services.on_demand and not services.preload:
        text = "with on_demand off and nothing to preload, no service could be called"
        yield Finding(("on_demand", "preload"), text)


def check_settings(settings: Settings) -> Iterator[Finding]:
    """Find two servers on one address."""
    used: set[tuple[str, int]] = set()
    for listener in settings.listeners:
        address = parse_listen_address(listener.address)
        if address in used and address[1] != 0:
            yield Finding(("listeners",), f"two listeners on {listener.address}")
        used.add(address)
    admin = parse_address(settings.admin.address)
    if admin in used and admin[1] != 0:
        yield Finding(("admin", "listeners"), f"{settings.admin.address} is a listener's address")


CHECKS: Final[dict[type, Callable[[Any], Iterator[Finding]]]] = {
    Drain: check_drain,
    Http2: check_http2,
    Limits: check_limits,
    Listener: check_listener,
    Nearby: check_nearby,
    Registry: check_registry,
    Services: check_services,
    Settings: check_settings,
    Upstream: check_upstream,
    UpstreamTls: check_upstream_tls,
}
