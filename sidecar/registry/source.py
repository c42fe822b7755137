"""The contract between the driver and one registry, whatever is behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sidecar.discovery.slot import Slot


class Source(Protocol):
    """One registry. Everything is called in the event loop and returns at once."""

    @property
    def name(self) -> str:
        """The name in the configuration."""

    def start(self) -> None:
        """Begin to connect, and go on for ever."""

    async def stop(self) -> None:
        """Disconnect; bounded in time."""

    def watch(self, slot: Slot) -> None:
        """Tell the receiver what the slot has, and again whenever that changes."""

    def unwatch(self, slot: Slot) -> None:
        """Tell nothing more about the slot."""

    def view(self) -> dict[str, Any]:
        """Return the state for people."""


class Receiver(Protocol):
    """Who a registry tells. ``registry`` is its name."""

    def linked(self, registry: str) -> None:
        """The registry is connected; every watched slot will be told anew."""

    def lost(self, registry: str) -> None:
        """The registry is not connected; nothing is known to have changed."""

    def listed(self, registry: str, slot: Slot, names: Sequence[str]) -> None:
        """A slot has this list; a node that does not exist has an empty one."""

    def text(self, registry: str, slot: Slot, text: str, version: int) -> None:
        """A rule node has this text, "" when it does not exist; 0 is "no version"."""

    def failed(self, registry: str, slot: Slot, kind: str) -> None:
        """A request for a slot failed and will be repeated; ``kind`` is a short word."""
