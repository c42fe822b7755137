"""Changing frozen sets by difference: the cost is that of the change, not of the fleet."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, final

from sidecar.model.instance_set import EMPTY, InstanceSet, MutableInstanceSet


def edited(old: InstanceSet, dropped: Collection[int], added: Collection[int]) -> InstanceSet:
    """Return ``old`` without ``dropped`` and with ``added``; an id in both is in the result."""
    if not dropped and not added:
        return old
    return (old - MutableInstanceSet(dropped)) | MutableInstanceSet(added)


@final
class SetEdits:
    """Collects changes to many sets, each named by a key, and applies them in one step."""

    def __init__(self) -> None:
        self._dropped: Final[dict[str, list[int]]] = {}
        self._added: Final[dict[str, list[int]]] = {}

    def drop(self, key: str, id: int) -> None:  # noqa: A002
        """Take an id out of the set ``key``; an ``add`` of the same id wins."""
        self._dropped.setdefault(key, []).append(id)

    def add(self, key: str, id: int) -> None:  # noqa: A002
        """Put an id into the set ``key``."""
        self._added.setdefault(key, []).append(id)

    def applied_to(self, sets: dict[str, InstanceSet]) -> dict[str, InstanceSet]:
        """Return the changed sets (the same dict when nothing changed); empty ones are left out."""
        if not self._dropped and not self._added:
            return sets
        result = dict(sets)
        for key in self._dropped.keys() | self._added.keys():
            new = edited(
                result.get(key, EMPTY), self._dropped.get(key, ()), self._added.get(key, ())
            )
            if new:
                result[key] = new
            else:
                result.pop(key, None)
        return result
