"""Building the next snapshot of a service from a change, by difference.

The cost is that of the change: sets are edited, routers that nothing concerns are kept, and the
list of instances is the table's own. When the snapshot before is not the one that the change starts
from, everything is built from the table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.instance_set import EMPTY
from sidecar.model.protocol import DUBBO, TRIPLE
from sidecar.model.service import ServiceKey
from sidecar.routing.chain import RouterChain, router_names
from sidecar.routing.members import MEMBER, MemberSets
from sidecar.routing.nearby import NearbyRouter
from sidecar.routing.router import Context, MemberChange, Router, Rules
from sidecar.routing.snapshot import ServiceSnapshot, View
from sidecar.routing.table import Change, InstanceTable
from sidecar.routing.tag import TagRouter
from sidecar.routing.tag_interface import ServiceTagRouter
from sidecar.settings.schema import Nearby, Settings

__all__ = ["ChainOptions", "Rules", "build_snapshot", "chain_options"]

_UNPREPARED: Final[dict[str, Router]] = {
    router.name: router for router in (TagRouter(), ServiceTagRouter(), NearbyRouter())
}


_NO_ROUTERS: Final = RouterChain()
_NOBODY: Final = View(EMPTY, _NO_ROUTERS, reason.EMPTY_REGISTRY)


class ChainOptions(NamedTuple):
    """What the configuration says about the chain of one service."""

    routers: tuple[str, ...]
    nearby: Nearby
    location: str


def chain_options(settings: Settings, key: ServiceKey) -> ChainOptions:
    """Read the options of a service; its own switch string replaces the general one."""
    switch = settings.consumer.router
    for text, override in settings.services.overrides.items():
        if override.router is not None and ServiceKey.parse(text).text == key.text:
            switch = override.router
    nearby = settings.routing.nearby
    names = router_names(switch)
    if not nearby.enabled:
        names = tuple(name for name in names if name != NearbyRouter.name)
    return ChainOptions(names, nearby, settings.consumer.parameters.get(nearby.key, ""))


def build_snapshot(
    key: ServiceKey,
    table: InstanceTable,
    change: Change | None,
    rules: Rules,
    options: ChainOptions,
    previous: ServiceSnapshot | None = None,
) -> ServiceSnapshot:
    """Return the snapshot of a service for the table's current state.

    ``change`` is the last change of the table, None when only rules or options changed;
    ``previous``, if given, was built from the same table. Its epoch is kept when nothing that may
    alter a route changed.
    """
    start, change = _start(key, table, change, previous)
    sets = start.member_sets.changed(change.removed, change.added)
    members = MemberChange(
        table.instances,
        sets.members,
        _members_of(sets, change.removed),
        _members_of(sets, change.added),
    )
    context = Context(rules, options.nearby, options.location)
    dubbo = _view(DUBBO, start.dubbo, sets, members, options, context)
    if sets.speaking(TRIPLE) is dubbo.members:
        triple = dubbo
    else:
        triple = _view(TRIPLE, start.triple, sets, members, options, context)
    is_same = (
        start is previous
        and dubbo.chain is start.dubbo.chain
        and triple.chain is start.triple.chain
        and not (members.removed or members.added)
        and sets.empty_reason == start.empty_reason
    )
    epoch = (0 if previous is None else previous.epoch) + (0 if is_same else 1)
    return ServiceSnapshot(
        key, epoch, table.version, table.size, table.instances, sets, dubbo, triple
    )


def _start(
    key: ServiceKey,
    table: InstanceTable,
    change: Change | None,
    previous: ServiceSnapshot | None,
) -> tuple[ServiceSnapshot, Change]:
    """Return the snapshot to start from, and the change from there to the table's state."""
    if change is None:
        change = Change(table.version, table.version, [], [])
    is_latest = change.version == table.version
    if previous is not None and is_latest and previous.version == change.previous:
        return previous, change
    present = [instance for instance in table.instances if instance is not None]
    nothing = ServiceSnapshot(key, 0, 0, 0, [], MemberSets(key), _NOBODY, _NOBODY)
    return nothing, Change(0, table.version, [], present)


def _members_of(sets: MemberSets, instances: list[Instance]) -> list[Instance]:
    return [instance for instance in instances if sets.verdict(instance) == MEMBER]


def _view(
    protocol: int,
    before: View,
    sets: MemberSets,
    change: MemberChange,
    options: ChainOptions,
    context: Context,
) -> View:
    """Return the view of a protocol after a change of the service's members.

    Without members there is no chain either: most services have one protocol.
    """
    members = sets.speaking(protocol)
    if not members:
        return View(members, _NO_ROUTERS, sets.empty_reason or reason.PROTOCOL_MISMATCH)
    of_protocol = change._replace(
        members=members,
        removed=[instance for instance in change.removed if instance.protocols & protocol],
        added=[instance for instance in change.added if instance.protocols & protocol],
    )
    return View(members, _chain(before.chain, of_protocol, options, context), "")


def _chain(
    before: RouterChain, change: MemberChange, options: ChainOptions, context: Context
) -> RouterChain:
    known = {router.name: router for router in before.routers}
    routers: list[Router] = []
    for name in options.routers:
        if name in known:
            routers.append(known[name].prepare(change, context))
        else:
            everyone = change._replace(removed=[], added=change.every_member())
            routers.append(_UNPREPARED[name].prepare(everyone, context))
    is_same = len(routers) == len(before.routers) and all(
        new is old for new, old in zip(routers, before.routers, strict=True)
    )
    return before if is_same else RouterChain(tuple(routers))
