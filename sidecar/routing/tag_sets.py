"""The sets that a tag rule and static tags define over a group of instances."""

from __future__ import annotations

from typing import Final, final

from sidecar.model.instance import Instance
from sidecar.model.instance_set import EMPTY, InstanceSet
from sidecar.routing.router import resolve
from sidecar.routing.rule import LEVEL_SEPARATOR, TagRule
from sidecar.routing.sets import SetEdits, edited

FALLBACK: Final = "tag_fallback"  # why a tag router degraded: untagged ones for a tagged call
SLICE: Final = 4096  # instances put into sets at a time: their edits are lists, which take memory
_UNTAGGED: Final = ""  # the key of the instances without a static tag
_LISTED: Final = ""  # the key of the instances that any tag of the rule names


@final
class TagSets:
    """Static and dynamic tag sets of some instances under one rule.

    ``rule`` is None when there is none or it is switched off: then only static tags exist.
    """

    def __init__(
        self,
        rule: TagRule | None = None,
        members: InstanceSet = EMPTY,
        static: dict[str, InstanceSet] | None = None,
        dynamic: dict[str, InstanceSet] | None = None,
    ) -> None:
        self.rule: Final = rule
        self.members: Final = members
        self._static: Final = {} if static is None else static
        self._dynamic: Final = {} if dynamic is None else dynamic

    def changed(
        self,
        rule: TagRule | None,
        removed: list[Instance],
        added: list[Instance],
        instances: list[Instance | None],
    ) -> TagSets:
        """Return the sets after a change; itself when nothing changed."""
        active = rule if rule is not None and rule.is_enabled else None
        if not removed and not added and active is self.rule:
            return self
        members = edited(self.members, [i.id for i in removed], [i.id for i in added])
        static = SetEdits()
        for instance in removed:
            static.drop(instance.tag, instance.id)
        for instance in added:
            static.add(instance.tag, instance.id)
        if active is self.rule:
            dynamic = _dynamic_edits(active, removed, added).applied_to(self._dynamic)
        else:
            dynamic = _dynamic_sets(active, resolve(instances, members))
        return TagSets(active, members, static.applied_to(self._static), dynamic)

    @property
    def untagged(self) -> InstanceSet:
        """Instances without a static tag."""
        return self._static.get(_UNTAGGED, EMPTY)

    @property
    def listed(self) -> InstanceSet:
        """Instances that any tag of the rule names."""
        return self._dynamic.get(_LISTED, EMPTY)

    def static(self, tag: str) -> InstanceSet:
        """Instances registered with the static tag; ``tag`` is not empty."""
        return self._static.get(tag, EMPTY)

    def dynamic(self, tag: str) -> InstanceSet:
        """Instances that the rule puts under ``tag``, which is not empty."""
        return self._dynamic.get(tag, EMPTY)

    def defined_level(self, tag: str, exact: bool) -> str:
        """Return the name under which the rule defines a tag, ``""`` when it does not.

        Unless ``exact``, a tag of levels ``a|b|c`` falls back to ``a|b`` and then to ``a``. A tag
        defined by addresses is defined even when none of them is alive; one defined by ``match``
        only while an instance matches.
        """
        rule = self.rule
        if rule is not None and len(tag) > rule.longest and not exact:
            # Callers send what they like: looked at one by one, levels would take quadratic time.
            tag = tag[: rule.longest + 1].rpartition(LEVEL_SEPARATOR)[0]
        while rule is not None and tag:
            if tag in rule.names or tag in self._dynamic:
                return tag
            tag = "" if exact else tag.rpartition(LEVEL_SEPARATOR)[0]
        return ""

    def knows(self, tag: str) -> bool:
        """Tell whether the exact tag, not empty, means anything here."""
        return tag in self._static or bool(self.defined_level(tag, True))

    def tags_of(self, instance: Instance) -> str:
        """Describe the tags of an instance for explain; ``""`` when it has none."""
        by_rule = sorted(self.rule.tags_of(instance)) if self.rule is not None else []
        texts = [f"tagged {tag} by rule" for tag in by_rule]
        if instance.tag:
            texts.append(f"tagged {instance.tag}")
        return ", ".join(texts)


def _dynamic_sets(rule: TagRule | None, instances: list[Instance]) -> dict[str, InstanceSet]:
    """Build the sets of a rule over instances that are in none yet."""
    sets: dict[str, InstanceSet] = {}
    if rule is not None:
        for start in range(0, len(instances), SLICE):
            sets = _dynamic_edits(rule, [], instances[start : start + SLICE]).applied_to(sets)
    return sets


def _dynamic_edits(
    rule: TagRule | None, removed: list[Instance], added: list[Instance]
) -> SetEdits:
    edits = SetEdits()
    if rule is None:
        return edits
    for instance in removed:
        tags = rule.tags_of(instance)
        for tag in tags:
            edits.drop(tag, instance.id)
        if tags:
            edits.drop(_LISTED, instance.id)
    for instance in added:
        tags = rule.tags_of(instance)
        for tag in tags:
            edits.add(tag, instance.id)
        if tags:
            edits.add(_LISTED, instance.id)
    return edits
