"""Provider URLs: one child name of a ``providers`` node becomes an instance without an id.

The name is a whole URL, form-encoded once (Dubbo's ``URL.encode``):
``protocol://[user[:password]@]host[:port]/path?key=value&...``. A name with ``://`` in it was not
encoded at all; ZooKeeper allows no such name, files and other registries do.

Speed decides how long a burst of 10,000 names holds the loop, so the common name is never decoded
as a whole: start time and process id are cut out of the encoded query, and the rest of it is looked
up among the texts that were parsed before.
"""

from __future__ import annotations

import sys
from typing import Final, final
from urllib.parse import unquote

from sidecar.discovery.address import UNPARSABLE, AddressPolicy
from sidecar.discovery.registration import Interner, Registration, decode, parse_query
from sidecar.model.instance import UNASSIGNED, Instance
from sidecar.model.protocol import of_scheme

MAX_NAME_LENGTH: Final = 64 * 1024  # a long real name has about 1,100 characters
SECONDS_BELOW: Final = 10**12  # dubbo-go writes seconds; as milliseconds this is the year 2001

UNSUPPORTED_PROTOCOL: Final = "unsupported_protocol"
NO_PORT: Final = "no_port"
OTHER_INTERFACE: Final = "other_interface"
OTHER_CATEGORY: Final = "other_category"


@final
class Refusal:
    """Why a name gives no instance: a reason token and the address, as far as it was read."""

    def __init__(self, reason: str, address: str) -> None:
        self.reason: Final = reason
        self.address: Final = address


def read_started_ms(text: str) -> int:
    """Return the start time in milliseconds since the epoch, 0 when the text is no time."""
    if not text.isdigit() or not text.isascii() or len(text) > 16:
        return 0
    value = int(text)
    return value * 1000 if value < SECONDS_BELOW else value


def provider_interface(name: str) -> str:
    """Return the interface that a name registers, an empty string when it names none.

    For registries that do not keep the names of each interface apart.
    """
    head, query, is_encoded = _split_name(name)
    parameters = parse_query(decode(query) if is_encoded else query, {}) or {}
    path = head.partition("://")[2].partition("/")[2]
    return parameters.get("interface", "") or unquote(path)


def _cut(query: str, key: str, separator: str, equals: str) -> tuple[str, str]:
    """Take ``key`` out of a query; return (its value, the rest). Digits only, else it stays."""
    start = query.find(separator + key + equals)
    if start < 0:
        if not query.startswith(key + equals):
            return "", query
        begin = len(key) + len(equals)
        start = 0
    else:
        begin = start + len(separator) + len(key) + len(equals)
    end = query.find(separator, begin)
    value = query[begin:] if end < 0 else query[begin:end]
    if not value.isdigit():
        return "", query
    if end < 0:
        return value, query[:start]
    if start == 0:
        return value, query[end + len(separator) :]
    return value, query[:start] + query[end:]


def _split_host(authority: str) -> tuple[str, str]:
    """Split ``[user@]host[:port]`` (IPv6 with or without brackets) into host and port text."""
    authority = authority.rpartition("@")[2]
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        return host, port.removeprefix(":")
    host, colon, port = authority.rpartition(":")
    if not colon or "%" in port:  # a colon before a scope id belongs to the IPv6 address
        return authority, ""
    return host, port


def _read_port(text: str) -> int:
    """Return the port, 0 when there is none, -1 when the text is no port."""
    if not text:
        return 0
    if not text.isdigit() or not text.isascii() or len(text) > 5:
        return -1
    port = int(text)
    return port if port <= 65535 else -1


def _split_name(name: str) -> tuple[str, str, bool]:
    """Split a name into (decoded part before the query, query, whether the query is encoded)."""
    if "://" not in name:
        head, mark, query = name.partition("%3F")
        if mark:
            return decode(head), query, True
        name = decode(name)  # lower-case escapes, or no query at all
    name = name.partition("#")[0]
    head, _, query = name.partition("?")
    return head, query, False


def read_provider(
    name: str, interface: str, interner: Interner, policy: AddressPolicy
) -> Instance | Refusal:
    """Read one child name of the ``providers`` node of ``interface``.

    A disabled provider is an instance like any other: that it takes no calls is for routing to say.
    """
    if len(name) > MAX_NAME_LENGTH:
        return Refusal(UNPARSABLE, "")
    head, query, is_encoded = _split_name(name)
    scheme, mark, rest = head.partition("://")
    authority, _, path = rest.partition("/")
    if "%" in path:
        path = unquote(path)
    host, port_text = _split_host(authority)
    port = _read_port(port_text)
    if not mark or not host or port < 0:
        return Refusal(UNPARSABLE, authority)
    separator, equals = ("%26", "%3D") if is_encoded else ("&", "=")
    started, query = _cut(query, "timestamp", separator, equals)
    _, query = _cut(query, "pid", separator, equals)
    registration = interner.registration(query, is_encoded)
    if registration is None:
        return Refusal(UNPARSABLE, authority)
    protocols = of_scheme(scheme) | registration.protocols
    if not protocols:
        return Refusal(UNSUPPORTED_PROTOCOL, authority)
    reason = _refusal_of(registration, path, interface) or policy.refusal_of(host)
    if reason or port == 0:
        return Refusal(reason or NO_PORT, authority)
    return Instance(
        UNASSIGNED, sys.intern(scheme), host, port, path or interface, interface,
        registration.version, registration.group, registration.application, registration.tag,
        registration.token, registration.weight,
        read_started_ms(started or registration.started), registration.warmup_ms,
        registration.timeout_ms, registration.parameters,
        registration.method_weights, registration.method_timeouts, protocols,
    )  # fmt: skip


def _refusal_of(registration: Registration, path: str, interface: str) -> str:
    """Apply the parts of Dubbo's ``UrlUtils.isMatch`` that every consumer shares.

    Dubbo for Python names no interface in its URLs: then the node that lists it does.
    """
    if (registration.interface or path or interface) != interface:
        return OTHER_INTERFACE
    return "" if registration.category in ("", "providers") else OTHER_CATEGORY
