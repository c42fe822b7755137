"""Building the next snapshot of a service from a change, by difference.

The cost is that of the change: sets are edited, routers that nothing concerns are kept, and the
list of instances is the table's own. When the snapshot before is not the one that the change starts
from, everything is built from the table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sidecar.model.instance import Instance
from sidecar.model.service import ServiceKey
from sidecar.routing.chain import RouterChain, router_names
from sidecar.routing.members import MEMBER, MemberSets
from sidecar.routing.nearby import NearbyRouter
from sidecar.routing.router import Context, MemberChange, Router, Rules
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.routing.table import Change, InstanceTable
from sidecar.routing.tag import TagRouter
from sidecar.routing.tag_interface import ServiceTagRouter
from sidecar.settings.schema import Nearby, Settings

__all__ = ["ChainOptions", "Rules", "build_snapshot", "chain_options"]

_UNPREPARED: Final[dict[str, Router]] = {
    router.name: router for router in (TagRouter(), ServiceTagRouter(), NearbyRouter())
}


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
    member_sets = start.member_sets.changed(change.removed, change.added)
    member_change = MemberChange(
        table.instances,
        member_sets.members,
        _members_of(start.member_sets, change.removed),
        _members_of(start.member_sets, change.added),
    )
    context = Context(rules, options.nearby, options.location)
    chain = _chain(start.chain, member_change, options, context)
    is_same = (
        start is previous
        and chain is start.chain
        and not (member_change.removed or member_change.added)
        and member_sets.empty_reason == start.empty_reason
    )
    epoch = (0 if previous is None else previous.epoch) + (0 if is_same else 1)
    return ServiceSnapshot(
        key, epoch, table.version, table.size, table.instances, member_sets, chain
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
    nothing = ServiceSnapshot(key, 0, 0, 0, [], MemberSets(key), RouterChain())
    return nothing, Change(0, table.version, [], present)


def _members_of(sets: MemberSets, instances: list[Instance]) -> list[Instance]:
    return [instance for instance in instances if sets.verdict(instance) == MEMBER]


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
