"""What routing knows about one service at one moment, immutable and shared by all calls of it."""

from __future__ import annotations

from typing import Final, final

from sidecar.model.instance import Instance
from sidecar.model.instance_set import InstanceSet
from sidecar.model.service import ServiceKey
from sidecar.routing.chain import RouterChain
from sidecar.routing.members import MemberSets


@final
class ServiceSnapshot:
    """One service: its instances, and the router chain prepared for them.

    ``epoch`` grows with each change that may alter a route, ``version`` is that of the interface's
    table. ``instances`` maps id to Instance for the whole interface, ``size`` of them are there;
    ``members`` are the ids that belong to this service, ``empty_reason`` the token when none does.
    """

    def __init__(
        self,
        key: ServiceKey,
        epoch: int,
        version: int,
        size: int,
        instances: list[Instance | None],
        member_sets: MemberSets,
        chain: RouterChain,
    ) -> None:
        self.key: Final = key
        self.epoch: Final = epoch
        self.version: Final = version
        self.size: Final = size
        self.instances: Final = instances
        self.member_sets: Final = member_sets
        self.chain: Final = chain

    @property
    def members(self) -> InstanceSet:
        """The ids of the instances that match the service's group and version."""
        return self.member_sets.members

    @property
    def empty_reason(self) -> str:
        """The reason token when there is no member, else ``""``."""
        return self.member_sets.empty_reason
