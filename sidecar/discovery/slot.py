"""What discovery asks a registry to watch."""

from __future__ import annotations

from typing import Final, NamedTuple, final

PROVIDERS: Final = "providers"
CONFIGURATORS: Final = "configurators"
ROUTERS: Final = "routers"
RULE: Final = "rule"
CATEGORIES: Final = (PROVIDERS, CONFIGURATORS, ROUTERS)  # Dubbo's categories of an interface


class Slot(NamedTuple):
    """One list or one text of a registry.

    ``kind`` is a category and ``name`` an interface, or ``kind`` is RULE and ``name`` is that of a
    rule node, such as ``greeter.tag-router``.
    """

    kind: str
    name: str


class Watch(NamedTuple):
    """A command to every registry: begin to watch a slot, or end it."""

    slot: Slot
    is_wanted: bool


@final
class WatchQueue:
    """Commands in their order: a slot that is given up and wanted again must be read anew."""

    def __init__(self) -> None:
        self._commands: list[Watch] = []

    def begin(self, slot: Slot) -> None:
        """The slot is wanted from now on."""
        self._commands.append(Watch(slot, True))

    def end(self, slot: Slot) -> None:
        """The slot is not wanted any longer."""
        self._commands.append(Watch(slot, False))

    def take(self) -> list[Watch]:
        """Return what was commanded since the last call."""
        commands, self._commands = self._commands, []
        return commands
