"""Dubbo for Python, a Triple client and server: through the sidecar as without it."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable

import grpc
import pytest

from tests.e2e.dubbo_python import CASES, LARGE, SERVICE
from tests.e2e.grpc_scene import DIRECT, SIDECAR, connect, provider
from tests.e2e.interop_cases import LIMIT
from tests.e2e.peers import environment, free_port
from tests.e2e.server_process import ServerProcess

CLIENT_LIMIT = 60.0


@pytest.fixture(scope="session")
def greeters(scene) -> None:
    """A server for each route: it answers on the newest of its connections only.

    The one for the sidecar is registered, as its own protocol.
    """
    for route in (DIRECT, SIDECAR):
        port = free_port()
        command = [sys.executable, "-m", "tests.e2e.dubbo_python", "server", str(port), "python"]
        log = scene.directory / f"dubbo-python-{route}.log"
        scene.adopt(route, ServerProcess(log, port, *command))
    for route in (DIRECT, SIDECAR):
        scene.servers[route].wait_ready()
    scene.register("python", [provider(scene.servers[SIDECAR].port, SERVICE, protocol="tri")])


@pytest.fixture(scope="session")
def outcomes(scene, greeters) -> Callable[[str], dict[str, str]]:
    """What came of each case by a route; one client process runs them all."""

    @functools.cache
    def run(route: str) -> dict[str, str]:
        run = subprocess.run(
            [sys.executable, "-m", "tests.e2e.dubbo_python", "client",
             scene.target(route, DIRECT), *CASES],
            capture_output=True, text=True, timeout=CLIENT_LIMIT, env=environment(), check=True,
        )  # fmt: skip
        found: dict[str, str] = json.loads(run.stdout.strip().split("\n")[-1])
        return found

    return run


@pytest.mark.parametrize("case", CASES)
def test_client_and_server(outcomes, route, case):
    assert outcomes(route)[case] == "good"


@pytest.fixture
def channel(scene, greeters, route):
    with connect(scene.target(route, DIRECT)) as channel:
        yield channel


class TestGrpcioClient:
    """The methods take and give plain bytes, which is what a channel without serializers does."""

    def test_unary(self, channel):
        call = channel.unary_unary(f"/{SERVICE}/hello")
        assert call(b"bob", timeout=LIMIT) == b"hello bob from python"
        large = bytes(range(250)) * (LARGE // 250)
        assert channel.unary_unary(f"/{SERVICE}/echo")(large, timeout=LIMIT) == large

    def test_streams(self, channel):
        count = channel.unary_stream(f"/{SERVICE}/count")
        assert list(count(b"3", timeout=LIMIT)) == [b"0", b"1", b"2"]
        gather = channel.stream_unary(f"/{SERVICE}/gather")
        assert gather(iter([b"a", b"b"]), timeout=LIMIT) == b"a,b"
        chat = channel.stream_stream(f"/{SERVICE}/chat")
        assert list(chat(iter([b"a", b"b"]), timeout=LIMIT)) == [b"re: a", b"re: b"]

    def test_errors(self, channel):
        call = channel.unary_unary(f"/{SERVICE}/fail").future(b"no tea", timeout=LIMIT)
        assert call.code() == grpc.StatusCode.INTERNAL
        assert "no tea" in call.details()
        call = channel.unary_unary(f"/{SERVICE}/nothing").future(b"", timeout=LIMIT)
        assert call.code() == grpc.StatusCode.UNIMPLEMENTED
