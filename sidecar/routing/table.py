"""The instances of one interface, with dense ids that stay while an identity stays registered.

The identity of an instance is address, group and version: the same provider that registers again
(another start time, another weight, another protocol on the same port) keeps its id, so its
statistics and connections stay.
A table has one writer, the discovery engine of its interface. Readers never see it: they hold
``instances``, a list that is replaced as a whole by each change and never changed in place. An id
that a change frees is given out again by later changes only, so one change never names two
instances by one id unless the second replaces the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from sidecar.model.instance import Instance


@final
class Change:
    """What one ``apply`` did: instances that left and that came, with their ids.

    An instance that was replaced is in both lists, under the same id. ``previous`` and ``version``
    are the table's versions before and after.
    """

    def __init__(
        self, previous: int, version: int, removed: list[Instance], added: list[Instance]
    ) -> None:
        self.previous: Final = previous
        self.version: Final = version
        self.removed: Final = removed
        self.added: Final = added

    @property
    def is_empty(self) -> bool:
        """True when every draft was already known as it is and nothing left."""
        return not self.removed and not self.added


@final
class InstanceTable:
    """Every instance of one interface, whatever its group and version.

    ``instances`` maps id to Instance (None where an id is free), ``applications`` counts the
    instances of each provider application, ``version`` grows by one with each change.
    """

    def __init__(self) -> None:
        self.instances: list[Instance | None] = []
        self.applications: dict[str, int] = {}
        self.version = 0
        self.size = 0
        # (group, version) -> address -> instance: no key text per instance
        self._known: Final[dict[tuple[str, str], dict[str, Instance]]] = {}
        self._free: list[int] = []

    def find(self, draft: Instance) -> Instance | None:
        """Return the table's instance of the same identity."""
        of_key = self._known.get(_key(draft))
        return None if of_key is None else of_key.get(draft.address)

    def apply(self, drafts: Iterable[Instance], gone: Iterable[Instance] = ()) -> Change:
        """Take in ``drafts`` (new or changed registrations) and drop those in ``gone``.

        Only the identity of an instance in ``gone`` counts; one that is unknown is ignored, and one
        that is also among the drafts stays. A draft's own id is ignored; of two drafts with one
        identity the later wins. A draft that says nothing new is no change. A call that changes
        nothing keeps the version.
        """
        latest = {_identity(draft): draft for draft in drafts}
        instances = self.instances.copy()
        removed: list[Instance] = []
        added: list[Instance] = []
        freed: list[int] = []
        for leaver in gone:
            if _identity(leaver) not in latest:
                self._drop(leaver, instances, removed, freed)
        for draft in latest.values():
            self._put(draft, instances, removed, added)
        previous = self.version
        self._free.extend(freed)
        if removed or added:
            self.version += 1
            self.instances = instances
            self.size += len(added) - len(removed)
        return Change(previous, self.version, removed, added)

    def _drop(
        self,
        leaver: Instance,
        instances: list[Instance | None],
        removed: list[Instance],
        freed: list[int],
    ) -> None:
        known = self.find(leaver)
        if known is None:
            return
        key = _key(known)
        del self._known[key][known.address]
        if not self._known[key]:
            del self._known[key]
        instances[known.id] = None
        removed.append(known)
        freed.append(known.id)
        self._count(known.application, -1)

    def _put(
        self,
        draft: Instance,
        instances: list[Instance | None],
        removed: list[Instance],
        added: list[Instance],
    ) -> None:
        of_key = self._known.setdefault(_key(draft), {})
        known = of_key.get(draft.address)
        if known is not None:
            if known.is_same(draft):
                return
            removed.append(known)
            self._count(known.application, -1)
            instance = draft.with_id(known.id)
        elif self._free:
            instance = draft.with_id(self._free.pop())
        else:
            instance = draft.with_id(len(instances))
            instances.append(None)
        instances[instance.id] = instance
        of_key[instance.address] = instance
        added.append(instance)
        self._count(instance.application, 1)

    def _count(self, application: str, difference: int) -> None:
        count = self.applications.get(application, 0) + difference
        if count:
            self.applications[application] = count
        else:
            del self.applications[application]


def _key(instance: Instance) -> tuple[str, str]:
    return instance.group, instance.version


def _identity(instance: Instance) -> tuple[str, str, str]:
    return instance.address, instance.group, instance.version
