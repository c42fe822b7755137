"""The ZooKeeper nodes of a Dubbo fleet, written as providers and consoles write them."""

from __future__ import annotations

import logging
from typing import Final, final
from urllib.parse import quote_plus

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from sidecar.model.errors import RegistryError
from sidecar.settings.forms import parse_registry_url

SESSION: Final = 4.0  # seconds; short, so that the end of a killed provider is noticed soon
CONNECT: Final = 10.0


@final
class ZooKeeperNodes:
    """One session; its provider nodes vanish with it."""

    def __init__(self, url: str) -> None:
        parts = parse_registry_url(url)
        hosts = ",".join(f"{host}:{port}" for host, port in parts.hosts)
        self._root = parts.path
        self._client = KazooClient(hosts=hosts, timeout=SESSION, logger=_quiet_logger())
        try:
            self._client.start(timeout=CONNECT)
        except KazooTimeoutError:
            raise RegistryError(f"no ZooKeeper answers at {hosts}") from None

    def add_provider(self, interface: str, url: str) -> None:
        """Register a provider for as long as this session lasts."""
        self._client.create(self._provider(interface, url), ephemeral=True, makepath=True)

    def remove_provider(self, interface: str, url: str) -> None:
        """Take a registration back."""
        self._client.delete(self._provider(interface, url))

    def put_rule(self, name: str, text: str) -> None:
        """Write a rule node of the configuration centre."""
        self._client.create(self._rule(name), text.encode(), makepath=True)

    def remove_rule(self, name: str) -> None:
        """Delete a rule node."""
        self._client.delete(self._rule(name))

    def remove_root(self) -> None:
        """Delete everything below the root."""
        self._client.delete(self._root, recursive=True)

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    def _rule(self, name: str) -> str:
        return f"{self._root}/config/dubbo/{name}"

    def _provider(self, interface: str, url: str) -> str:
        return f"{self._root}/{interface}/providers/{quote_plus(url, safe='*')}"


def _quiet_logger() -> logging.Logger:
    """What kazoo reports is part of the show: killed providers, stopped servers."""
    logger = logging.getLogger("sidecar.demo.kazoo")
    logger.propagate = False
    logger.handlers[:] = [logging.NullHandler()]
    return logger
