"""Session-wide peers: each process is started at most once, when the first test needs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.e2e.certificates import Certificates
from tests.e2e.fleet import Fleet, JavaPeers
from tests.e2e.go_peers import GoPeers
from tests.e2e.grpc_scene import DIRECT, SIDECAR, Loop, Scene
from tests.e2e.peers import VERSIONS, PeersUnavailableError, build
from tests.e2e.server_process import ServerProcess
from tests.e2e.stub import StubProvider
from tests.fixtures.zookeeper import ZooKeeperServer, find_classpath

SKIPPED = "java peers skipped: "
"""The start of the reason that a run without Maven reports; CI looks for it."""

GO_SKIPPED = "go peers skipped: "
"""The same without Go or its modules."""


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
        with contextlib.closing(Fleet(java_peers, zookeeper, directory)) as fleet:
            yield fleet


@pytest.fixture
def stub() -> Iterator[StubProvider]:
    """A provider that answers with chosen bytes."""
    with contextlib.closing(StubProvider(lambda _: b"")) as provider:
        yield provider


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The gRPC servers and the sidecar of this session."""
    directory = tmp_path_factory.mktemp("grpc")
    with contextlib.closing(Scene(directory, Certificates(directory))) as scene:
        scene.open()
        yield scene


@pytest.fixture(scope="session")
def go_peers(scene: Scene) -> GoPeers:
    """The peers in Go; skips without Go, fails when the sources are wrong."""
    try:
        return GoPeers(scene.directory)
    except PeersUnavailableError as reason:
        pytest.skip(f"{GO_SKIPPED}{reason}")


@pytest.fixture(scope="session")
def go_server(scene: Scene, go_peers: GoPeers) -> ServerProcess:
    """The server in Go, in a group of its name."""
    server = scene.adopt("go", go_peers.serve("go"))
    server.wait_ready()
    scene.register("go", scene.grouped("go", server.port))
    return server


@pytest.fixture(scope="session")
def aio_loop() -> Iterator[Loop]:
    """The event loop of every asyncio client of grpcio."""
    with contextlib.closing(Loop()) as loop:
        yield loop


@pytest.fixture(params=[DIRECT, SIDECAR])
def route(request: pytest.FixtureRequest) -> str:
    """Whether the client connects to the server itself; what it sees must be the same."""
    name: str = request.param
    return name
