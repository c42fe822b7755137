"""The interface-level tag router: one rule for one service, over what the tag router left.

The rule has the schema of the application-level one. A call names its tag in the attachment
``dubbo.tag.service``, else the call's ordinary tag is tried. Two things differ from the application
level, because that router has already done them: static tags play no part, and the call's force
counts only for a tag that it names for this router or that the rule defines. Without an active rule
everything passes.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.instance_set import EMPTY, InstanceSet
from sidecar.routing.router import Call, Context, MemberChange, Step
from sidecar.routing.tag_sets import FALLBACK, TagSets


@final
class ServiceTagRouter:
    """See the module."""

    name: Final = "tag-service"

    def __init__(self, sets: TagSets | None = None) -> None:
        self._sets: Final = TagSets() if sets is None else sets

    def prepare(self, change: MemberChange, context: Context) -> ServiceTagRouter:
        """Change the sets by the members that came and left, or build them for a new rule."""
        sets = self._sets.changed(
            context.rules.service, change.removed, change.added, change.instances
        )
        return self if sets is self._sets else ServiceTagRouter(sets)

    def inputs(self, call: Call) -> str:
        """Return the level of the tag that the rule defines, else ``?``; marked when forced."""
        tag = call.service_tag or call.tag
        if self._sets.rule is None or not tag:
            return ""
        forced = "!" if call.force_tag else ""
        level = self._sets.defined_level(tag, call.force_tag)
        if level:
            return f"{forced}={level}"
        return f"{forced}?s" if call.service_tag else "?"

    def route(self, call: Call, candidates: InstanceSet) -> Step:
        """Apply the fall-back table, without static tags."""
        sets = self._sets
        if sets.rule is None:
            return Step(candidates, "no_rule")
        tag = call.service_tag or call.tag
        level = sets.defined_level(tag, call.force_tag)
        if level:
            out = candidates & sets.dynamic(level)
            if out:
                return Step(out, "tagged")
        is_forced = call.force_tag and bool(level or call.service_tag)
        if is_forced or (level and sets.rule.force):
            return Step(EMPTY, reason.TAG_FORCED_EMPTY)
        out = candidates - sets.listed
        if not out:
            return Step(EMPTY, reason.TAG_EMPTY)
        return Step(out, "untagged", FALLBACK if call.service_tag or level else "")

    def why_not(self, call: Call, instance: Instance) -> str:
        """Name the tags that the instance has by the service's rule, or the one that it lacks."""
        rule = self._sets.rule
        own = sorted(rule.tags_of(instance)) if rule is not None else []
        if own:
            return ", ".join(f"tagged {tag} by the service's rule" for tag in own)
        return f"not tagged {call.service_tag or call.tag} by the service's rule"
