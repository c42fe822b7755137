"""Where gRPC calls go: groups, versions, tags, and what is said when nobody can take them."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from urllib.parse import quote_plus

import grpc
import pytest

from tests.e2e.dubbo_python import SERVICE as PYTHON_GREETER
from tests.e2e.grpc_scene import GROUP, TAG, VERSION, connect, provider
from tests.e2e.interop import SERVICE, Empty, SimpleRequest, Stub
from tests.e2e.interop_cases import LIMIT
from tests.e2e.peers import free_port, wait_until
from tests.e2e.server_process import ServerProcess
from tests.e2e.sidecar_process import COALESCE, SidecarProcess

FORCE = "dubbo.force.tag"
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.fixture
def stub(scene):
    with connect(scene.sidecar.triple) as channel:
        yield Stub(channel)


def answered(stub: Stub, *metadata: tuple[str, str], calls: int = 20) -> Counter[str]:
    """Make calls that must all succeed; return how many each server answered."""
    return Counter(
        stub.call("UnaryCall", SimpleRequest(), metadata, timeout=LIMIT).hostname
        for _ in range(calls)
    )


def refused(stub: Stub, *metadata: tuple[str, str]) -> str:
    """Make a call that nobody can take and return the reason's token."""
    call = stub.future("EmptyCall", Empty(), metadata, timeout=LIMIT)
    assert call.code() == UNAVAILABLE
    details: str = call.details()
    return details.split()[0].rstrip(":")


class TestIdentity:
    def test_a_group_and_a_version(self, stub):
        group = (GROUP, "versions")
        assert answered(stub, group, (VERSION, "1.0.0")) == {"sync": 20}
        assert answered(stub, group, (VERSION, "2.0.0")) == {"aio": 20}
        assert refused(stub, group, (VERSION, "3.0.0")) == "VERSION_MISMATCH"

    def test_nobody_of_that_group(self, stub):
        assert refused(stub, (GROUP, "nobody")) == "GROUP_MISMATCH"

    def test_nobody_at_all(self, stub):
        nobody = Stub(stub.channel, service="org.example.Nobody")
        begin = time.monotonic()
        assert refused(nobody) == "EMPTY_REGISTRY"
        assert time.monotonic() - begin < 1


class TestTags:
    GROUP = (GROUP, "tagged")

    def test_a_tagged_call_goes_to_tagged_instances_only(self, stub):
        assert answered(stub, self.GROUP, (TAG, "gray")) == {"aio": 20}
        assert answered(stub, self.GROUP, ("dubbo-tag", "gray")) == {"aio": 20}
        assert answered(stub, self.GROUP) == {"sync": 20}

    def test_nobody_with_that_tag(self, stub):
        assert answered(stub, self.GROUP, (TAG, "nobody")) == {"sync": 20}
        reason = refused(stub, self.GROUP, (TAG, "nobody"), (FORCE, "true"))
        assert reason == "TAG_FORCED_EMPTY"


def test_metrics_count_the_calls(scene, stub):
    scene.register("counted", scene.grouped("counted", scene.servers["sync"].port))
    answered(stub, (GROUP, "counted"), calls=7)
    label = f'service="counted/{SERVICE}"'
    lines = [line for line in scene.sidecar.get("/metrics").splitlines() if label in line]
    requests = [line for line in lines if line.startswith("sidecar_requests_total")]
    assert sum(float(line.split()[-1]) for line in requests) == 7
    assert all('protocol="triple"' in line for line in requests)


def test_providers_in_zookeeper(scene, zookeeper, tmp_path):
    """Dubbo for Python registers itself; the nodes of the others are written as Dubbo does."""
    port = free_port()
    command = [sys.executable, "-m", "tests.e2e.dubbo_python", "server", str(port), "python"]
    address = f"zookeeper://{zookeeper.hosts}"
    server = ServerProcess(tmp_path / "python.log", port, *command, address)
    with contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        for name, query in (("sync", ""), ("aio", "dubbo.tag=gray&weight=100")):
            node = provider(scene.servers[name].port, SERVICE, query, protocol="tri")
            path = f"/dubbo/{SERVICE}/providers/{quote_plus(node)}"
            zookeeper.admin.create(path, ephemeral=True, makepath=True)
        sidecar = SidecarProcess(tmp_path, zookeeper.url, preload=(SERVICE, PYTHON_GREETER))
        stack.enter_context(contextlib.closing(sidecar))
        server.wait_ready()
        channel = stack.enter_context(connect(sidecar.triple))
        stub = Stub(channel)
        assert answered(stub) == {"sync": 20}
        assert answered(stub, (TAG, "gray")) == {"aio": 20}
        wait_until(lambda: sidecar.listed(PYTHON_GREETER) == 1, what="the new provider is known")
        hello = channel.unary_unary(f"/{PYTHON_GREETER}/hello")
        assert hello(b"bob", timeout=LIMIT) == b"hello bob from python"
        server.kill()
        zookeeper.admin.delete(f"/dubbo/{PYTHON_GREETER}", recursive=True)
        time.sleep(3 * COALESCE)
        assert hello.future(b"bob", timeout=LIMIT).code() == UNAVAILABLE
