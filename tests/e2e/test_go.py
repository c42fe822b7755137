"""grpc-go against our other peers: through the sidecar as without it."""

from __future__ import annotations

import asyncio

import grpc.aio
import pytest

from tests.e2e import interop_cases
from tests.e2e.go_peers import CASES
from tests.e2e.grpc_scene import DIRECT, GROUP
from tests.e2e.interop import Empty, Stub, output_request
from tests.e2e.interop_cases import LIMIT, bodies

pytestmark = [
    pytest.mark.go,
    pytest.mark.timeout(120, func_only=True),  # the first build takes as long as it takes
    pytest.mark.usefixtures("go_server"),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("server", ["go", "aio"])
def test_a_client_in_go(scene, go_peers, route, server, case):
    go_peers.run(case, scene.target(route, server), server)


# grpc-go resets a stream at its deadline, which grpcio takes for a cancellation when its own clock
# is a little behind: with a deadline of a millisecond either may come first.
RACE = "timeout_on_sleeping_server"


@pytest.mark.parametrize("case", [case for case in interop_cases.CASES if case != RACE])
def test_a_server_in_go(scene, route, case):
    interop_cases.run_sync(case, scene.target(route, "go"), ((GROUP, "go"),))


def test_a_client_in_go_that_knows_nothing_of_dubbo(scene, go_peers, route):
    for case in ("large_unary", "ping_pong", "health"):  # a watch comes after the registry
        go_peers.run(case, scene.target(route, "sync"))


@pytest.fixture(scope="session")
def narrow(scene, go_peers):
    """A server that takes four streams on a connection."""
    server = scene.adopt("narrow", go_peers.serve("narrow", streams=4))
    server.wait_ready()
    scene.register("narrow", scene.grouped("narrow", server.port))


def test_more_streams_than_a_connection_of_the_server_takes(scene, route, aio_loop, narrow):
    async def run() -> None:
        async with grpc.aio.insecure_channel(scene.target(route, "narrow")) as channel:
            stub = Stub(channel, ((GROUP, "narrow"),))
            if route == DIRECT:
                # grpcio opens too many streams until it knows the limit, and does not try again.
                await stub.call("EmptyCall", Empty(), timeout=LIMIT)

            async def one() -> None:
                request = output_request(1, 1, interval_us=100_000)
                call = stub.call("StreamingOutputCall", request, timeout=LIMIT)
                assert bodies([response async for response in call]) == [1, 1]

            await asyncio.gather(*(one() for _ in range(20)))

    aio_loop.run(run())
