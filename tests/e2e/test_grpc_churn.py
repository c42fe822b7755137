"""gRPC servers that die or leave while they are called: through the sidecar as without it."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Iterator

import grpc
import pytest

from tests.e2e.grpc_scene import DIRECT, GROUP, Scene, connect, provider
from tests.e2e.interop import Empty, InputRequest, SimpleRequest, Stub, output_request, payload
from tests.e2e.interop_cases import LIMIT, Requests, bodies
from tests.e2e.server_process import ServerProcess
from tests.e2e.sidecar_process import SidecarProcess

NUMBERS = itertools.count()
ROUND_ROBIN = '{"loadBalancingConfig": [{"round_robin": {}}]}'
STREAM = 15
"""Responses of a long call, each after a tenth of a second."""


@contextlib.contextmanager
def registered(scene: Scene, group: str, *servers: ServerProcess) -> Iterator[None]:
    """Register servers in a group for a while."""
    for server in servers:
        server.wait_ready()
    scene.register(group, scene.grouped(group, *(server.port for server in servers)))
    try:
        yield
    finally:
        scene.register(group, [])
        for server in servers:
            server.kill()


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_server_that_dies_ends_its_calls_as_unavailable(scene, route, kind):
    name = f"mortal{next(NUMBERS)}"
    server = scene.launch(name, kind)
    with registered(scene, name, server), scene.stub(route, name) as stub:
        requests = Requests()
        answering = stub.call("StreamingOutputCall", output_request(1, *[1] * 99), timeout=LIMIT)
        asking = stub.future("StreamingInputCall", iter(requests), timeout=LIMIT)
        requests.put(InputRequest(payload=payload(10)))
        slow = output_request(*[1] * 100, interval_us=100_000)
        waiting = stub.call("StreamingOutputCall", slow, timeout=LIMIT)
        assert bodies(answering) == [1] * 100
        assert bodies([next(waiting)]) == [1]
        begin = time.monotonic()
        server.kill()
        with pytest.raises(grpc.RpcError):
            list(waiting)  # the status comes after the messages, read or not
        assert waiting.code() == grpc.StatusCode.UNAVAILABLE
        assert asking.code() == grpc.StatusCode.UNAVAILABLE
        requests.close()
        assert stub.future("EmptyCall", Empty(), timeout=5).code() == grpc.StatusCode.UNAVAILABLE
        assert time.monotonic() - begin < 6


class Load:
    """Calls made one after the other by some threads; ``failures`` says what went wrong."""

    def __init__(self, stub: Stub, threads: int = 4) -> None:
        self._stub = stub
        self._ended = threading.Event()
        self.good = 0
        self.failures: list[str] = []
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._stub.call("UnaryCall", SimpleRequest(), timeout=LIMIT)
                self.good += 1
            except grpc.RpcError as error:
                self.failures.append(str(error))

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(LIMIT)


# grpcio's servers cancel calls that come while they stop, so only one in Go can show this.
@pytest.mark.go
@pytest.mark.timeout(120, func_only=True)
def test_a_server_that_leaves_in_order_fails_no_call(scene, route, go_peers):
    group = f"leaving{next(NUMBERS)}"
    servers = [scene.adopt(f"{group}-{each}", go_peers.serve(f"{group}-{each}")) for each in "ab"]
    with registered(scene, group, *servers):
        target = "ipv4:" + ",".join(server.address for server in servers)
        if route != DIRECT:
            target = scene.sidecar.triple
        with connect(target, service_config=ROUND_ROBIN) as channel:
            stub = Stub(channel, ((GROUP, group),))
            stub.call("EmptyCall", Empty(), timeout=LIMIT)
            time.sleep(0.3)  # a client that balances connects to the second server, too
            request = output_request(*[1] * STREAM, interval_us=100_000)
            streams = [stub.call("StreamingOutputCall", request, timeout=LIMIT) for _ in range(12)]
            for stream in streams:
                next(stream)
            load = Load(stub)
            time.sleep(0.3)
            begin = time.monotonic()
            servers[0].terminate()
            assert servers[0].wait() == 0
            assert time.monotonic() - begin > 0.5  # it had calls to finish
            time.sleep(0.3)
            load.end()
            assert not load.failures
            assert load.good > 100
            assert [len(list(stream)) for stream in streams] == [STREAM - 1] * len(streams)


def test_a_sidecar_that_ends_finishes_its_calls(scene, tmp_path):
    registry = tmp_path / "registry.yaml"
    registry.write_text(json.dumps({"providers": [provider(scene.servers["sync"].port)]}))
    with contextlib.closing(SidecarProcess(tmp_path, f"file://{registry}", preload=())) as sidecar:
        with connect(sidecar.triple) as channel:
            stub = Stub(channel)
            request = output_request(*[1] * STREAM, interval_us=100_000)
            stream = stub.call("StreamingOutputCall", request, timeout=LIMIT)
            next(stream)
            end = threading.Thread(target=sidecar.stop)
            end.start()
            time.sleep(0.3)
            stub.call(
                "EmptyCall", Empty(), timeout=LIMIT
            )  # new ones are taken until the last phase
            assert len(list(stream)) == STREAM - 1
            end.join()
            late = stub.future("EmptyCall", Empty(), timeout=LIMIT)
            assert late.code() == grpc.StatusCode.UNAVAILABLE
        assert sidecar.stop() == 0
