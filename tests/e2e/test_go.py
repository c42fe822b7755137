"""grpc-go against our other peers: through the sidecar as without it."""

from __future__ import annotations

import pytest

from tests.e2e import interop_cases
from tests.e2e.go_peers import CASES
from tests.e2e.grpc_scene import GROUP

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
    for case in ("large_unary", "ping_pong", "health"):
        go_peers.run(case, scene.target(route, "sync"))
