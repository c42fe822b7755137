"""Which hosts a provider may be registered under.

A registry is writable by every provider, so an address in it is a claim. Loopback, link-local,
unspecified and multicast addresses cannot be a provider on another machine; they come from
providers that picked the wrong network interface, and calling them would reach this machine or
nothing. Host names are accepted as names: resolving is the caller's matter.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, final

LOOPBACK: Final = "loopback"
LINK_LOCAL: Final = "link_local"
UNSPECIFIED: Final = "unspecified"
MULTICAST: Final = "multicast"
BROADCAST: Final = "broadcast"
UNPARSABLE: Final = "unparsable"

MAX_HOST_LENGTH: Final = 253  # RFC 1035, the longest name in text form
# Names of this machine beside ``localhost``, from the hosts files of Debian and Red Hat.
_OWN_NAMES: Final = frozenset(("localhost4", "localhost6", "ip6-localhost", "ip6-loopback"))
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._")


def _refuse_ipv4(first: int, second: int, host: str) -> str:
    if first == 127:
        return LOOPBACK
    if first == 0:
        return UNSPECIFIED
    if first == 169 and second == 254:
        return LINK_LOCAL
    if 224 <= first < 240:
        return MULTICAST
    if host == "255.255.255.255":
        return BROADCAST
    return ""


def _refuse_ipv6(host: str) -> str:
    try:
        address = IPv6Address(host)
    except ValueError:
        return UNPARSABLE
    if address.ipv4_mapped is not None:
        return refusal_of(str(address.ipv4_mapped))
    kinds = {
        LOOPBACK: address.is_loopback,
        LINK_LOCAL: address.is_link_local,
        UNSPECIFIED: address.is_unspecified,
        MULTICAST: address.is_multicast,
    }
    return next((reason for reason, is_one in kinds.items() if is_one), "")


def _refuse_name(host: str) -> str:
    lower = host.lower().removesuffix(".")
    if len(host) > MAX_HOST_LENGTH or not _NAME_CHARACTERS.issuperset(lower):
        return UNPARSABLE
    labels = lower.split(".")
    if "localhost" in labels or labels[0] in _OWN_NAMES:  # localhost.localdomain too
        return LOOPBACK
    last = labels[-1]
    # Resolvers read "127.1", "2130706433" and "0x7f.1" as IPv4 addresses, past every check here.
    if "" in labels or last.isdigit() or last.startswith("0x"):
        return UNPARSABLE
    return ""


def refusal_of(host: str) -> str:
    """Return why ``host`` cannot be a provider's, or an empty string when it can.

    IPv6 addresses come without brackets.
    """
    if ":" in host:
        return _refuse_ipv6(host)
    parts = host.split(".")
    if len(parts) == 4:
        octets = [int(part) for part in parts if part.isdecimal() and len(part) < 4]
        if len(octets) == 4 and host.isascii():
            if max(octets) > 255 or host != ".".join(map(str, octets)):
                return UNPARSABLE  # leading zeros are octal to some resolvers and not to others
            return _refuse_ipv4(octets[0], octets[1], host)
    return _refuse_name(host)


@final
class AddressPolicy:
    """The rule above with the networks that the configuration accepts all the same."""

    def __init__(self, allow_networks: list[str]) -> None:
        """Raise ValueError when an entry is not a network in CIDR form."""
        self._allowed: Final = [ip_network(text, strict=False) for text in allow_networks]

    def refusal_of(self, host: str) -> str:
        """Return the reason against ``host``, or an empty string."""
        reason = refusal_of(host)
        if reason and reason != UNPARSABLE and self._allowed and self._is_allowed(host):
            return ""
        return reason

    def _is_allowed(self, host: str) -> bool:
        try:
            address: IPv4Address | IPv6Address = ip_address(host)
        except ValueError:  # one of the names of this machine
            address = IPv4Address("127.0.0.1")
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._allowed)


__all__ = ["AddressPolicy", "refusal_of"]
