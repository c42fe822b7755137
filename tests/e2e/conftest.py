"""Session-wide Java peers: each JVM is started at most once, when the first test needs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.peers import (
    VERSIONS,
    Consumer,
    PeersUnavailableError,
    ProviderHost,
    Version,
    build,
)
from tests.e2e.stub import StubProvider

SKIPPED = "java peers skipped: "
"""The start of the reason that a run without Maven reports; CI looks for it."""


class JavaPeers:
    """One consumer process and one provider process per Dubbo version."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._consumers: dict[Version, Consumer] = {}
        self._hosts: dict[Version, ProviderHost] = {}
        self._offers: dict[tuple[Version, str], int] = {}

    def start(self) -> None:
        """Start every process at once, which takes less time than one after the other."""
        for version in VERSIONS:
            self._consumers[version] = Consumer(version, self.directory)
            self._hosts[version] = ProviderHost(version, self.directory)
        for peer in [*self._consumers.values(), *self._hosts.values()]:
            peer.wait_ready()

    def consumer(self, version: Version) -> Consumer:
        """The consumer process of a version."""
        return self._consumers[version]

    def host(self, version: Version) -> ProviderHost:
        """The provider process of a version."""
        return self._hosts[version]

    def offer(self, version: Version, name: str, /, **words: object) -> int:
        """Let the version's provider process offer a service once and return its port."""
        key = (version, name)
        if key not in self._offers:
            self._offers[key] = self.host(version).export(name=name, **words)
        return self._offers[key]

    def close(self) -> None:
        """End every process."""
        for peer in [*self._consumers.values(), *self._hosts.values()]:
            peer.close()


@pytest.fixture(scope="session")
def java_peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPeers]:
    """The Java processes of this session; skips without Maven, fails when the sources are wrong."""
    try:
        for version in VERSIONS:
            build(version)
    except PeersUnavailableError as reason:
        pytest.skip(f"{SKIPPED}{reason}")
    peers = JavaPeers(tmp_path_factory.mktemp("java"))
    with contextlib.closing(peers):
        peers.start()
        yield peers


@pytest.fixture
def stub() -> Iterator[StubProvider]:
    """A provider that answers with chosen bytes."""
    with contextlib.closing(StubProvider(lambda _: b"")) as provider:
        yield provider
