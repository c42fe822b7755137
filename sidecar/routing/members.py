"""The first step of every route: which instances of an interface belong to a service at all.

Group and version decide as Dubbo's UrlUtils.isMatch does: a consumer may name a group, several
(comma list) or all (``*``), and a version or all; absent equals absent, and ``0.0.0`` is absent.
An instance that is switched off (``disabled=true``, or ``enabled`` anything but true) belongs to
none. Calls of one protocol see those members only that speak it.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.instance_set import EMPTY, InstanceSet
from sidecar.model.protocol import EVERY
from sidecar.model.service import NO_VERSION, ServiceKey
from sidecar.routing.sets import SetEdits

MEMBER: Final = ""
# What to answer when there is no member: the reason that took the instances nearest to a match.
_NEAREST_FIRST: Final = (reason.DISABLED, reason.VERSION_MISMATCH, reason.GROUP_MISMATCH)
# The keys of the sets of members, by the set of protocols that they speak.
_SPEAKERS: Final = ["none", "dubbo", "triple", "both"]


@final
class MemberSets:
    """The instances of the interface, each in one set: of what a member speaks, or why it is none.

    ``members`` are the ids of the instances that belong to the service.
    """

    def __init__(self, key: ServiceKey, sets: dict[str, InstanceSet] | None = None) -> None:
        self._key: Final = key
        self._groups: Final = key.group.split(",")
        self._sets: Final = {} if sets is None else sets
        self.members: Final = self.speaking(EVERY)

    def speaking(self, protocols: int) -> InstanceSet:
        """Return the members that speak any of the protocols.

        It is the same object for two protocols when every member speaks both, or none either.
        """
        found: list[InstanceSet] = []
        for spoken, key in enumerate(_SPEAKERS):
            if spoken & protocols and key in self._sets:
                found.append(self._sets[key])
        if not found:
            return EMPTY
        return found[0] if len(found) == 1 else EMPTY.union(*found)

    @property
    def empty_reason(self) -> str:
        """The reason token when there is no member, else ``""``."""
        if self.members:
            return ""
        for token in _NEAREST_FIRST:
            if token in self._sets:
                return token
        return reason.EMPTY_REGISTRY

    def verdict(self, instance: Instance) -> str:
        """Return ``MEMBER`` or the reason token that keeps the instance out."""
        wanted = self._key
        group = instance.group
        if wanted.group != "*" and group != wanted.group and not (group and group in self._groups):
            return reason.GROUP_MISMATCH
        version = "" if instance.version == NO_VERSION else instance.version
        if wanted.version not in ("*", version):
            return reason.VERSION_MISMATCH
        parameters = instance.parameters
        is_enabled = parameters.get("enabled", "").lower() in ("", "true")
        is_disabled = parameters.get("disabled", "").lower() == "true"
        return MEMBER if is_enabled and not is_disabled else reason.DISABLED

    def changed(self, removed: list[Instance], added: list[Instance]) -> MemberSets:
        """Return the sets after a change of the interface's table."""
        edits = SetEdits()
        for instance in removed:
            edits.drop(self._place(instance), instance.id)
        for instance in added:
            edits.add(self._place(instance), instance.id)
        return MemberSets(self._key, edits.applied_to(self._sets))

    def _place(self, instance: Instance) -> str:
        return self.verdict(instance) or _SPEAKERS[instance.protocols]
