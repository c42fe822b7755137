"""The rule nodes in use: who needs which, what the registries say, and the rule in force.

A node is watched in every registry while somebody needs it. When several registries have it, the
one listed first in the configuration wins. The first answer matters: a service is not published
before its rules have been read, or a call could reach an instance that a rule keeps it away from.
"""

from __future__ import annotations

from typing import Any, Final, final

from sidecar.discovery.slot import RULE, Slot, WatchQueue
from sidecar.model.service import NO_VERSION, ServiceKey
from sidecar.routing.rule import RuleSlot, TagRule, application_rule_name, service_rule_name

RULE_KIND: Final = "tag"  # the label of sidecar_rule_invalid_total
_SUFFIX: Final = ".tag-router"


def service_rule_names(key: ServiceKey) -> list[str]:
    """Return the names of a service's rule node; the first that exists is the one that counts.

    Java keeps a version of ``0.0.0`` in the name and dubbo-go drops it; older consoles wrote the
    bare interface.
    """
    names = [service_rule_name(key)]
    if not key.version:
        names.append(f"{key.interface}:{NO_VERSION}:{key.group}{_SUFFIX}")
    names.append(f"{key.interface}{_SUFFIX}")
    return names


@final
class _Node:
    """One rule node: its text in each registry that has answered, and the compiled rule."""

    def __init__(self, name: str, max_size: int) -> None:
        self.name: Final = name
        self.users: Final[dict[str, int]] = {}
        self.texts: Final[dict[str, tuple[str, int]]] = {}
        self.failed: Final[set[str]] = set()
        self.slot: Final = RuleSlot(name.removesuffix(_SUFFIX), max_size)
        self.source = ""  # the registry whose text counts
        self.text = ""

    @property
    def exists(self) -> bool:
        return self.source != ""


@final
class RuleBook:
    """All rule nodes of one sidecar; ``registries`` are names in the order of the configuration.

    ``invalid`` counts texts that were no rules. ``queue`` is told which nodes to watch.
    """

    def __init__(self, registries: list[str], max_size: int, queue: WatchQueue) -> None:
        self._registries: Final = registries
        self._queue: Final = queue
        self._max_size: Final = max_size
        self._nodes: Final[dict[str, _Node]] = {}
        self.invalid = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def users(self, name: str) -> list[str]:
        """Return the interfaces that use a node."""
        node = self._nodes.get(name)
        return [] if node is None else list(node.users)

    def acquire(self, name: str, user: str) -> None:
        """An interface needs a node; as often as it does, it must ``release`` it."""
        node = self._nodes.get(name)
        if node is None:
            node = _Node(name, self._max_size)
            self._nodes[name] = node
            self._queue.begin(Slot(RULE, name))
        node.users[user] = node.users.get(user, 0) + 1

    def release(self, name: str, user: str) -> None:
        """An interface does not need a node any longer."""
        node = self._nodes[name]
        node.users[user] -= 1
        if node.users[user] == 0:
            del node.users[user]
        if not node.users:
            del self._nodes[name]
            self._queue.end(Slot(RULE, name))

    def offer(self, registry: str, name: str, text: str, version: int, now_ms: int) -> bool:
        """Take what a registry says a node contains, "" for nothing; True when anything changed.

        ``version`` is the registry's own number for this text, 0 when it has none. The first answer
        is a change even if there is no rule: somebody may be waiting for it.
        """
        node = self._nodes.get(name)
        if node is None:
            return False
        is_first = registry not in node.texts
        node.texts[registry] = (text, version)
        node.failed.discard(registry)
        existed = node.exists
        is_new_rule = self._read(node, now_ms)
        return is_first or is_new_rule or node.exists != existed

    def fail(self, registry: str, name: str) -> bool:
        """A registry could not be asked; True when somebody may have been waiting for it."""
        node = self._nodes.get(name)
        if node is None or registry in node.failed:
            return False
        node.failed.add(registry)
        return registry not in node.texts

    def error(self, name: str) -> str:
        """Return what is wrong with the newest text of a node, "" when it is in use."""
        node = self._nodes.get(name)
        return "" if node is None else node.slot.error

    def is_settled(self, name: str, registry: str) -> bool:
        """Tell whether a registry has given its first answer about a node, were it a refusal."""
        node = self._nodes[name]
        return registry in node.texts or registry in node.failed

    def rule_of_application(self, application: str) -> TagRule | None:
        """Return the rule in force for a provider application."""
        node = self._nodes.get(application_rule_name(application))
        return None if node is None else node.slot.rule

    def rule_of_service(self, key: ServiceKey) -> TagRule | None:
        """Return the rule of the first of a service's rule nodes that exists."""
        for name in service_rule_names(key):
            node = self._nodes.get(name)
            if node is not None and node.exists:
                return node.slot.rule
        return None

    def views(self, now_ms: int) -> list[dict[str, Any]]:
        """Return every node that exists, for people."""
        return [
            {**node.slot.view(now_ms), "registry": node.source}
            for node in self._nodes.values()
            if node.exists
        ]

    def _read(self, node: _Node, now_ms: int) -> bool:
        text, version, source = "", 0, ""
        for registry in self._registries:
            candidate, number = node.texts.get(registry, ("", 0))
            if candidate.strip():
                text, version, source = candidate, number, registry
                break
        if (source, text) == (node.source, node.text):
            return False
        if node.source and source != node.source:
            version = 0  # numbers of two registries do not compare
        node.source, node.text = source, text
        before = node.slot.invalid_count
        is_new = node.slot.offer(text, version, now_ms)
        self.invalid += node.slot.invalid_count - before
        return is_new
