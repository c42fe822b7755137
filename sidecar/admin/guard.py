"""Who may change state: a POST from this machine that no web page sent.

A page in a browser on the same machine can send a POST to a loopback port, but it cannot hide its
`Origin`, and a page that reaches the port by DNS rebinding cannot hide its own name in `Host`. So
an `Origin` is refused, and `Host` must be an address or `localhost`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping


def refusal(peer: str, headers: Mapping[str, str]) -> str:
    """Return why a change is refused, or an empty string; ``peer`` is the address it came from."""
    if not _is_loopback(peer):
        return "changes are accepted from this machine only"
    if "Origin" in headers:
        return "changes are not accepted from web pages (the request has an Origin)"
    host = headers.get("Host", "")
    if not _is_address_or_localhost(host):
        return f"the Host {host!r} is not an address of this machine"
    return ""


def _is_loopback(peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _is_address_or_localhost(host: str) -> bool:
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name = host
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
