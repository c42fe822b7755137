"""Which registrations stand behind each instance of one interface.

A provider may be registered more than once: a restarted one beside the node of its old session,
which lives on until that session ends; the same one in several registries; one port that speaks two
protocols, which Dubbo 3.2 registers as two URLs of one start time (3.3 as one, with
``ext.protocol``). They are one instance, or its address would get twice its share of calls. The
registration with the newest start time speaks for it, it has the protocols of all, and it leaves
with the last of them.
Nearly every instance has one registration, so only the contested ones cost memory here; for the
rest the table's own instance is the only claim.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias, final

from sidecar.model.instance import Instance
from sidecar.model.protocol import DUBBO
from sidecar.routing.table import Change, InstanceTable

ClaimId: TypeAlias = tuple[str, int]  # registry, key of the name in that registry's listing
_Identity: TypeAlias = tuple[str, str, str]
# Stands for the claim of an instance that was alone so far: whose it is was not recorded.
_SOLE: Final[ClaimId] = ("", 0)


def _identity(instance: Instance) -> _Identity:
    return instance.address, instance.group, instance.version


def _joined(claims: Collection[Instance]) -> Instance:
    """Return what several registrations of one instance say together."""
    speaker = max(claims, key=_precedence)
    protocols = 0
    for each in claims:
        protocols |= each.protocols
    return speaker if protocols == speaker.protocols else speaker.with_protocols(protocols)


def _precedence(instance: Instance) -> tuple[int, int]:
    # Of two URLs of one start, each sidecar chooses the same whatever the order in its list.
    return instance.started_ms, instance.protocols & DUBBO


@final
class Claims:
    """The claims on the instances of one table; ``contested`` instances have several."""

    def __init__(self, table: InstanceTable) -> None:
        self._table: Final = table
        self._contested: Final[dict[_Identity, dict[ClaimId, Instance]]] = {}

    @property
    def contested(self) -> int:
        """How many instances have more than one claim."""
        return len(self._contested)

    def apply(
        self, made: Mapping[ClaimId, Instance], dropped: Mapping[ClaimId, Instance]
    ) -> Change:
        """Take in new claims, drop those that are gone, and bring the table up to date.

        A claim that is dropped must have been made, with an instance of the same identity.
        """
        touched: dict[_Identity, dict[ClaimId, Instance]] = {}
        for claim, instance in dropped.items():
            claims = self._claims_of(instance, touched)
            if claims.pop(claim, None) is None:
                claims.pop(_SOLE, None)
        for claim, instance in made.items():
            self._claims_of(instance, touched)[claim] = instance
        drafts: list[Instance] = []
        for identity, claims in touched.items():
            if claims:
                drafts.append(_joined(claims.values()))
            if len(claims) > 1:
                self._contested[identity] = claims
            else:
                self._contested.pop(identity, None)
        # An instance that still has a claim is among the drafts too, and stays.
        return self._table.apply(drafts, dropped.values())

    def _claims_of(
        self, instance: Instance, touched: dict[_Identity, dict[ClaimId, Instance]]
    ) -> dict[ClaimId, Instance]:
        identity = _identity(instance)
        claims = touched.get(identity)
        if claims is None:
            claims = self._contested.get(identity)
            if claims is None:
                alone = self._table.find(instance)
                claims = {} if alone is None else {_SOLE: alone}
            touched[identity] = claims
        return claims
