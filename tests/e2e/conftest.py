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
    Reference,
    Version,
    build,
    free_port,
    wait_until,
)
from tests.e2e.sidecar_process import SidecarProcess
from tests.e2e.stub import StubProvider
from tests.fixtures.zookeeper import ZooKeeperServer, find_classpath

INTERFACE = "org.example.peer.Greeter"

SKIPPED = "java peers skipped: "
"""The start of the reason that a run without Maven reports; CI looks for it."""


class JavaPeers:
    """One consumer process and one provider process per Dubbo version."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._consumers: dict[Version, Consumer] = {}
        self._hosts: dict[Version, ProviderHost] = {}
        self._offers: dict[tuple[Version, str], int] = {}
        self._references: dict[tuple[Version, str, str], Reference] = {}

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

    def reference(self, version: Version, url: str, /, **words: object) -> Reference:
        """Return the consumer's reference for these words, made once."""
        key = (version, url, repr(sorted(words.items())))
        if key not in self._references:
            self._references[key] = self.consumer(version).refer(url, **words)
        return self._references[key]

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


class Fleet:
    """The Java peers, the registry they use and the sidecar between them."""

    def __init__(self, peers: JavaPeers, zookeeper: ZooKeeperServer, sidecar: SidecarProcess):
        self.peers = peers
        self.zookeeper = zookeeper
        self.sidecar = sidecar
        self.registry = f"zookeeper://{zookeeper.hosts}"
        self.ports = {version: free_port() for version in VERSIONS}

    def offer(self, version: Version, name: str, /, **words: object) -> int:
        """Register a service of the version's provider process once and return its port.

        Unless a port is given, the services of one process share one, as they do in real life.
        """
        words.setdefault("port", self.ports[version])
        port = self.peers.offer(version, name, registry=self.registry, **words)
        self.wait_known()
        return port

    def wait_known(self) -> None:
        """Wait until the sidecar has read what the registry lists."""
        path = f"/dubbo/{INTERFACE}/providers"
        wait_until(
            lambda: self.sidecar.listed(INTERFACE) == len(self.zookeeper.admin.get_children(path)),
            what="the sidecar has read every name",
        )

    def reference(self, version: Version, /, **words: object) -> Reference:
        """Return the version's reference through the sidecar for these words."""
        return self.peers.reference(version, self.sidecar.url, **words)


@pytest.fixture(scope="session")
def fleet(java_peers: JavaPeers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One fleet for the session; its ZooKeeper is never wiped, so each test has its own group."""
    directory = tmp_path_factory.mktemp("fleet")
    zookeeper = ZooKeeperServer(directory, find_classpath())
    with contextlib.closing(zookeeper):
        zookeeper.start()
        with contextlib.closing(SidecarProcess(directory, zookeeper.url)) as sidecar:
            yield Fleet(java_peers, zookeeper, sidecar)


@pytest.fixture
def stub() -> Iterator[StubProvider]:
    """A provider that answers with chosen bytes."""
    with contextlib.closing(StubProvider(lambda _: b"")) as provider:
        yield provider
