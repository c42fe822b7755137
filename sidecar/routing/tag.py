"""The application-level tag router: Dubbo's TagStateRouter over the instances of each application.

A call's tag T selects, in each provider application, the instances that the application's rule
puts under T, or, when the rule does not define T (or there is none), those registered with the
static tag T. If there is none anywhere, a call that does not force its tag falls back to instances
with no tag of either kind; an application whose rule defines T and has ``force`` takes no part in
that. A call without a tag gets the instances with no tag. There is no further fall-back.

Dubbo reads the rule of the first instance's application only; here each application's rule
governs its own instances, and whether a tag has an instance is asked once for all of them.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.instance_set import EMPTY, InstanceSet
from sidecar.routing.router import Call, Context, MemberChange, Step
from sidecar.routing.rule import LEVEL_SEPARATOR
from sidecar.routing.tag_sets import FALLBACK, TagSets


@final
class TagRouter:
    """See the module; ``applications`` maps a provider application to its sets."""

    name: Final = "tag"

    def __init__(self, applications: dict[str, TagSets] | None = None) -> None:
        self.applications: Final = {} if applications is None else applications

    def prepare(self, change: MemberChange, context: Context) -> TagRouter:
        """Change the sets of the applications that the change or a new rule concerns."""
        removed = _by_application(change.removed)
        added = _by_application(change.added)
        next_ones: dict[str, TagSets] = {}
        for application in dict.fromkeys([*self.applications, *added]):
            sets = self.applications.get(application, _NO_SETS).changed(
                context.rules.by_application.get(application),
                removed.get(application, []),
                added.get(application, []),
                change.instances,
            )
            if sets.members:
                next_ones[application] = sets
        is_same = len(next_ones) == len(self.applications) and all(
            self.applications.get(application) is sets for application, sets in next_ones.items()
        )
        return self if is_same else TagRouter(next_ones)

    def inputs(self, call: Call) -> str:
        """Return the tag if it means anything, else its longest level that does, else ``?``."""
        tag = call.tag
        if not tag:
            return ""
        groups = self.applications.values()
        forced = "!" if call.force_tag else ""
        if any(sets.knows(tag) for sets in groups):
            return f"{forced}={tag}"  # marks come first: a tag may begin like one
        if forced or LEVEL_SEPARATOR not in tag:
            return f"{forced}?"
        level = max((sets.defined_level(tag, False) for sets in groups), key=len, default="")
        return f"<{level}" if level else "?"

    def route(self, call: Call, candidates: InstanceSet) -> Step:
        """Apply the fall-back table of the tag router."""
        if not call.tag:
            out = candidates & self._plain(call)
            return Step(out, "untagged" if out else reason.TAG_EMPTY)
        out = candidates & self._tagged(call)
        if out:
            return Step(out, "tagged")
        if call.force_tag:
            return Step(EMPTY, reason.TAG_FORCED_EMPTY)
        out = candidates & self._plain(call)
        if out:
            return Step(out, "untagged", FALLBACK)
        is_forced = any(self._is_forced(sets, call) for sets in self.applications.values())
        return Step(EMPTY, reason.TAG_FORCED_EMPTY if is_forced else reason.TAG_EMPTY)

    def why_not(self, call: Call, instance: Instance) -> str:
        """Name the tags that the instance has, or the one that it lacks."""
        sets = self.applications.get(instance.application, _NO_SETS)
        own = sets.tags_of(instance)
        if own:
            return own
        if call.force_tag or not self._is_forced(sets, call):
            return f"not tagged {call.tag}"
        return f"not tagged {call.tag}, which the rule forces"

    def _tagged(self, call: Call) -> InstanceSet:
        found = []
        for sets in self.applications.values():
            level = sets.defined_level(call.tag, call.force_tag)
            found.append(sets.dynamic(level) if level else sets.static(call.tag))
        return EMPTY.union(*found)

    def _plain(self, call: Call) -> InstanceSet:
        groups = self.applications.values()
        open_ones = [sets for sets in groups if not self._is_forced(sets, call)]
        return EMPTY.union(*[sets.untagged - sets.listed for sets in open_ones])

    @staticmethod
    def _is_forced(sets: TagSets, call: Call) -> bool:
        rule = sets.rule
        return (
            rule is not None and rule.force and bool(sets.defined_level(call.tag, call.force_tag))
        )


_NO_SETS: Final = TagSets()


def _by_application(instances: list[Instance]) -> dict[str, list[Instance]]:
    groups: dict[str, list[Instance]] = {}
    for instance in instances:
        groups.setdefault(instance.application, []).append(instance)
    return groups
