"""The protocols of calls and instances, as bits of a set.

Triple and gRPC are one here: the same frames, and Triple's own headers are optional. Registries
write ``tri`` for Triple (Dubbo for Java, dubbo-go) and ``grpc`` for plain gRPC.
"""

from __future__ import annotations

from typing import Final

DUBBO: Final = 1
TRIPLE: Final = 2
EVERY: Final = 3

NAMES: Final = {DUBBO: "dubbo", TRIPLE: "triple"}  # labels, listeners and the admin interface
_OF_SCHEME: Final = {"dubbo": DUBBO, "tri": TRIPLE, "grpc": TRIPLE}


def of_scheme(scheme: str) -> int:
    """Return the bit of a URL scheme, also one of ``ext.protocol``; 0 for one not spoken here."""
    return _OF_SCHEME.get(scheme, 0)


def names_of(protocols: int) -> list[str]:
    """Return the names of a set of protocols."""
    return [name for protocol, name in NAMES.items() if protocols & protocol]
