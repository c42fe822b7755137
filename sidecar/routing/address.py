"""Address patterns of tag rules: texts of a rule to one matcher, tested once per instance.

Forms, as Dubbo's NetUtils reads them: ``*`` and ``*.*.*.*`` (all), ``10.1.2.3`` (any port of the
host), ``10.1.2.3:20880``, octets as ``*`` or ``1-100`` with or without a port, ``10.1.2.0/24``
(never with a port), ``0.0.0.0:20880`` (any host, this port). IPv6 needs brackets when a port
follows. Ours beyond Dubbo, where these match nothing: ``10.1.2.3:*`` (any port) and ``0.0.0.0``
(any host). A host name is compared with the host text that the provider registered; it is never
resolved.

Exact addresses, hosts and ports are dictionaries, so an instance costs three look-ups however long
the rule is. Ranges and networks are filed under the parts before their first range, so that only
those are tried one by one that begin as the instance's address does.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address, ip_network
from typing import Final, final

from sidecar.model.instance import Instance

_ANY_HOST: Final = "0.0.0.0"  # noqa: S104 - a word of the rule, nothing binds to it
_ALL: Final = ("*", "*.*.*.*")
_V4_PATTERN: Final = re.compile(r"[0-9*-]{1,7}(?:\.[0-9*-]{1,7}){3}")
_V6_PATTERN: Final = re.compile(r"[0-9a-fA-F*-]{1,9}(?::[0-9a-fA-F*-]{1,9}){7}")
_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_V4_HOST: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_DIGITS: Final = re.compile(r"[0-9.]+")
_MAX_PORT: Final = 65535
_ANY_PORT: Final = 0

Ranges = list[tuple[int, int]]  # one (lowest, highest) per octet, or per 16 bits of IPv6


class PatternError(ValueError):
    """The text is no address pattern; the message says why."""


@final
class AddressPattern:
    """One entry: a host (``""`` is any) or ranges of its parts, and a port (0 is any)."""

    def __init__(self, host: str, port: int, ranges: Ranges, note: str = "") -> None:
        self.host: Final = host
        self.port: Final = port
        self.ranges: Final = ranges
        self.note: Final = note

    @staticmethod
    def parse(text: str) -> AddressPattern:
        """Read one entry of a rule; raises PatternError."""
        if text in _ALL:
            return AddressPattern("", _ANY_PORT, [])
        host, port = _split_port(text)
        if "/" in host:
            if host != text:
                raise PatternError("a network takes no port")
            return AddressPattern("", _ANY_PORT, _network_ranges(host))
        if host == _ANY_HOST:
            note = "" if port else "stands for every host here; Dubbo matches nothing"
            return AddressPattern("", port, [], note)
        return _v6(host, port) if ":" in host else _v4_or_name(host, port)


@final
class AddressMatcher:
    """Which names (tags) the patterns of one rule give to an instance."""

    def __init__(self) -> None:
        self._addresses: Final[dict[tuple[str, int], list[str]]] = {}
        self._hosts: Final[dict[str, list[str]]] = {}
        self._ports: Final[dict[int, list[str]]] = {}
        self._everywhere: Final[list[str]] = []
        self._ranged: Final[dict[tuple[int, ...], list[tuple[AddressPattern, str]]]] = {}
        self._prefixes: Final[set[int]] = set()  # the lengths of the keys of _ranged

    def add(self, pattern: AddressPattern, name: str) -> None:
        """Give ``name`` to what the pattern matches."""
        if pattern.ranges:
            prefix = _prefix(pattern.ranges)
            self._ranged.setdefault(prefix, []).append((pattern, name))
            self._prefixes.add(len(prefix))
        elif pattern.host and pattern.port:
            self._addresses.setdefault((pattern.host, pattern.port), []).append(name)
        elif pattern.host:
            self._hosts.setdefault(pattern.host, []).append(name)
        elif pattern.port:
            self._ports.setdefault(pattern.port, []).append(name)
        else:
            self._everywhere.append(name)

    def names_of(self, instance: Instance) -> set[str]:
        """Return every name whose patterns match the instance."""
        host = canonical_host(instance.host)
        names = set(self._addresses.get((host, instance.port), ()))
        names.update(self._hosts.get(host, ()))
        names.update(self._ports.get(instance.port, ()))
        names.update(self._everywhere)
        if self._ranged:
            parts = _host_parts(host)
            for length in self._prefixes:
                for pattern, name in self._ranged.get(tuple(parts[:length]), ()):
                    is_port = pattern.port in (_ANY_PORT, instance.port)
                    if is_port and _contains(pattern.ranges, parts):
                        names.add(name)
        return names


def canonical_host(host: str) -> str:
    """Return the one spelling of a host that patterns are compared in."""
    if ":" not in host:
        return host.lower()
    try:
        return IPv6Address(host).compressed
    except AddressValueError:
        return host


def _split_port(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or ":" not in host or (rest and not rest.startswith(":")):
            raise PatternError("brackets belong around an IPv6 host")
        return host, _port(rest[1:]) if rest else _ANY_PORT
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, _port(port)
    return text, _ANY_PORT


def _port(text: str) -> int:
    if text == "*":
        return _ANY_PORT
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise PatternError("not a port")
    port = int(text)
    if not 0 < port <= _MAX_PORT:
        raise PatternError("not a port")
    return port


def _v4_or_name(host: str, port: int) -> AddressPattern:
    if _V4_PATTERN.fullmatch(host):
        ranges = _ranges(host.split("."), 10, 255)
        if all(low == high for low, high in ranges):
            return AddressPattern(".".join(str(low) for low, _ in ranges), port, [])
        return AddressPattern("", port, ranges)
    if not _NAME.fullmatch(host) or _DIGITS.fullmatch(host):
        raise PatternError("not an address")
    return AddressPattern(host.lower(), port, [], "host names are compared, not resolved")


def _v6(host: str, port: int) -> AddressPattern:
    try:
        return AddressPattern(IPv6Address(host).compressed, port, [])
    except AddressValueError:
        if not _V6_PATTERN.fullmatch(host):
            raise PatternError("not an IPv6 address") from None
    return AddressPattern("", port, _ranges(host.split(":"), 16, 0xFFFF))


def _ranges(parts: list[str], base: int, limit: int) -> Ranges:
    ranges: Ranges = []
    for part in parts:
        lowest, dash, highest = part.partition("-")
        try:
            low = 0 if part == "*" else int(lowest, base)
            high = limit if part == "*" else int(highest, base) if dash else low
        except ValueError:
            raise PatternError(f"{part!r} is not a number, a range or a star") from None
        if not low <= high <= limit:
            raise PatternError(f"{part!r} is out of range")
        ranges.append((low, high))
    return ranges


def _network_ranges(text: str) -> Ranges:
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        raise PatternError("not a network") from None
    width = 8 if network.version == 4 else 16
    count = network.max_prefixlen // width
    lowest, highest = int(network.network_address), int(network.broadcast_address)
    mask = (1 << width) - 1
    shifts = [width * (count - 1 - index) for index in range(count)]
    return [(lowest >> shift & mask, highest >> shift & mask) for shift in shifts]


def _host_parts(host: str) -> list[int]:
    """Return the four octets or eight 16-bit parts of an address; a host name has none."""
    if ":" in host:
        try:
            packed = IPv6Address(host).packed
        except AddressValueError:
            return []
        return [packed[index] << 8 | packed[index + 1] for index in range(0, 16, 2)]
    if not _V4_HOST.fullmatch(host):
        return []
    return [int(part) for part in host.split(".")]


def _prefix(ranges: Ranges) -> tuple[int, ...]:
    """Return the parts that stand alone before the first range."""
    prefix: list[int] = []
    for low, high in ranges:
        if low != high:
            break
        prefix.append(low)
    return tuple(prefix)


def _contains(ranges: Ranges, parts: list[int]) -> bool:
    if len(ranges) != len(parts):
        return False
    for (low, high), part in zip(ranges, parts, strict=True):  # noqa: SIM110 - faster than all()
        if not low <= part <= high:
            return False
    return True
