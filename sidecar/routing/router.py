"""The contract of a router: sets prepared on change, looked up and intersected per call.

A router is an immutable value. ``prepare`` returns the next one, ``route`` narrows a set for a
call. What ``route`` reads of a call must be in ``inputs``, because results are memoised by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol, final

from sidecar.model.instance import Instance
from sidecar.model.instance_set import InstanceSet
from sidecar.routing.rule import TagRule
from sidecar.settings.schema import Nearby


@final
class Call:
    """What a router may see of a call; ``""`` is "the call carries none"."""

    def __init__(self, tag: str = "", force_tag: bool = False, service_tag: str = "") -> None:
        self.tag: Final = tag
        self.force_tag: Final = force_tag
        self.service_tag: Final = service_tag


@final
class Step:
    """The result of one router.

    ``reason`` is a reason token when ``out`` is empty, else a word that says which way was taken.
    ``degraded`` names why a wider set was returned on purpose, ``""`` when it was not.
    """

    def __init__(self, out: InstanceSet, reason: str, degraded: str = "") -> None:
        self.out: Final = out
        self.reason: Final = reason
        self.degraded: Final = degraded


class Rules(NamedTuple):
    """The active rules that concern one service; an application without a rule may be absent."""

    by_application: Mapping[str, TagRule | None] = {}
    service: TagRule | None = None


class Context(NamedTuple):
    """What routers are prepared from besides instances; ``location`` is the consumer's own."""

    rules: Rules
    nearby: Nearby
    location: str


class MemberChange(NamedTuple):
    """A change of a service's members: an instance that was replaced is in both lists.

    ``instances`` and ``members`` are those after the change.
    """

    instances: list[Instance | None]
    members: InstanceSet
    removed: list[Instance]
    added: list[Instance]

    def every_member(self) -> list[Instance]:
        """Return all members, for a router that must start anew."""
        return resolve(self.instances, self.members)


class Router(Protocol):
    """One link of the chain."""

    @property
    def name(self) -> str:
        """The name in the switch string, in explain and in counters."""

    def prepare(self, change: MemberChange, context: Context) -> Router:
        """Return the router for the changed members, itself when nothing concerns it."""

    def inputs(self, call: Call) -> str:
        """Return the canonical text of what ``route`` reads of the call.

        The number of different texts is bounded by the rules and instances, not by the callers.
        """

    def route(self, call: Call, candidates: InstanceSet) -> Step:
        """Narrow ``candidates``, which are not empty."""

    def why_not(self, call: Call, instance: Instance) -> str:
        """Say in a few words why the instance was left out for the call."""


def resolve(instances: list[Instance | None], ids: InstanceSet) -> list[Instance]:
    """Return the instances of a set, in the order of their ids."""
    return [instance for id in ids if (instance := instances[id]) is not None]  # noqa: A001
