"""What routing knows about one service at one moment, immutable and shared by all calls of it."""

from __future__ import annotations

from typing import Final, final

from sidecar.model.instance import Instance
from sidecar.model.instance_set import InstanceSet
from sidecar.model.protocol import DUBBO
from sidecar.model.service import ServiceKey
from sidecar.routing.chain import RouterChain
from sidecar.routing.members import MemberSets


@final
class View:
    """A service as the calls of one protocol see it: who speaks it, and a chain prepared for them.

    ``members`` are ids, ``empty_reason`` is the token when there is none, else ``""``.
    """

    def __init__(self, members: InstanceSet, chain: RouterChain, empty_reason: str) -> None:
        self.members: Final = members
        self.chain: Final = chain
        self.empty_reason: Final = empty_reason


@final
class ServiceSnapshot:
    """One service: its instances, and what the calls of each protocol see of them.

    ``epoch`` grows with each change that may alter a route, ``version`` is that of the interface's
    table. ``instances`` maps id to Instance for the whole interface, ``size`` of them are there;
    ``members`` are the ids that belong to this service, ``empty_reason`` the token when none does.
    When every member speaks both protocols, ``dubbo`` and ``triple`` are one object.
    """

    def __init__(
        self,
        key: ServiceKey,
        epoch: int,
        version: int,
        size: int,
        instances: list[Instance | None],
        member_sets: MemberSets,
        dubbo: View,
        triple: View,
    ) -> None:
        self.key: Final = key
        self.epoch: Final = epoch
        self.version: Final = version
        self.size: Final = size
        self.instances: Final = instances
        self.member_sets: Final = member_sets
        self.dubbo: Final = dubbo
        self.triple: Final = triple

    def view(self, protocol: int) -> View:
        """Return what calls of a protocol see."""
        return self.dubbo if protocol == DUBBO else self.triple

    def routes_as(self, other: ServiceSnapshot) -> bool:
        """Tell whether every call is routed as by ``other``, one of the same service."""
        return (
            self.epoch == other.epoch
            and self.dubbo.chain is other.dubbo.chain
            and self.triple.chain is other.triple.chain
        )

    @property
    def members(self) -> InstanceSet:
        """The ids of the instances that match the service's group and version."""
        return self.member_sets.members

    @property
    def empty_reason(self) -> str:
        """The reason token when there is no member, else ``""``."""
        return self.member_sets.empty_reason
