"""Session-wide Java peers: each JVM is started at most once, when the first test needs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.e2e.fleet import Fleet, JavaPeers
from tests.e2e.peers import VERSIONS, PeersUnavailableError, build
from tests.e2e.sidecar_process import SidecarProcess
from tests.e2e.stub import StubProvider
from tests.fixtures.zookeeper import ZooKeeperServer, find_classpath

SKIPPED = "java peers skipped: "
"""The start of the reason that a run without Maven reports; CI looks for it."""


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
