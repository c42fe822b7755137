"""The registry of the demo as the demo itself uses it: a file, or a ZooKeeper."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, final

import yaml

from sidecar.demo.nodes import ZooKeeperNodes

RULE: Final = "greeter.tag-router"  # the application's tag rule, as Dubbo names it


class DemoRegistry(Protocol):
    """What the demo does with its registry; providers register themselves if they can."""

    name: str
    url: str  # for the sidecar's configuration
    provider_url: str  # for the providers; empty when the demo registers for them

    async def put_providers(self, urls: Sequence[str]) -> None:
        """List these providers, unless they register themselves."""

    async def put_rule(self, text: str) -> None:
        """Write the application's tag rule."""

    async def remove_rule(self) -> None:
        """Delete the rule."""

    async def close(self) -> None:
        """Leave nothing behind."""


@final
class FileRegistry:
    """A YAML file, replaced as a whole, as a deployment tool would do it."""

    provider_url = ""

    def __init__(self, path: Path) -> None:
        self.name = f"file {path}"
        self.url = f"file://{path}"
        self._path = path
        self._providers: list[str] = []
        self._rules: dict[str, str] = {}
        self._write()

    async def put_providers(self, urls: Sequence[str]) -> None:
        """Write the providers into the file."""
        self._providers = list(urls)
        self._write()

    async def put_rule(self, text: str) -> None:
        """Write the rule into the file."""
        self._rules[RULE] = text
        self._write()

    async def remove_rule(self) -> None:
        """Take the rule out of the file."""
        del self._rules[RULE]
        self._write()

    async def close(self) -> None:
        """Nothing to do: the file is in the demo's own directory."""

    def _write(self) -> None:
        draft = self._path.with_suffix(".new")
        draft.write_text(
            yaml.safe_dump({"providers": self._providers, "rules": self._rules}, width=1000)
        )
        os.replace(draft, self._path)


@final
class ZooKeeperRegistry:
    """A ZooKeeper; the providers' nodes are their own and end with them."""

    def __init__(self, name: str, url: str, nodes: ZooKeeperNodes) -> None:
        self.name = name
        self.url = self.provider_url = url
        self._nodes = nodes

    @classmethod
    async def connect(cls, name: str, url: str) -> ZooKeeperRegistry:
        """Open the demo's own session; raises RegistryError when nothing answers."""
        return cls(name, url, await asyncio.to_thread(ZooKeeperNodes, url))

    async def put_providers(self, urls: Sequence[str]) -> None:
        """Nothing to do: providers register themselves."""

    async def put_rule(self, text: str) -> None:
        """Write the rule node."""
        await asyncio.to_thread(self._nodes.put_rule, RULE, text)

    async def remove_rule(self) -> None:
        """Delete the rule node."""
        await asyncio.to_thread(self._nodes.remove_rule, RULE)

    async def close(self) -> None:
        """Delete what the demo wrote and end the session."""
        await asyncio.to_thread(self._nodes.remove_root)
        await asyncio.to_thread(self._nodes.close)
