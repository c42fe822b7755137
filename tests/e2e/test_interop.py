"""gRPC's interop cases between real clients and servers: through the sidecar as without it."""

from __future__ import annotations

import pytest

from tests.e2e.grpc_scene import GROUP
from tests.e2e.interop_cases import CASES, run_aio, run_sync

pytestmark = pytest.mark.parametrize("case", CASES)


@pytest.mark.parametrize("server", ["sync", "aio"])
class TestGrpcio:
    def test_sync_client(self, scene, route, server, case):
        run_sync(case, scene.target(route, server), ((GROUP, server),))

    def test_aio_client(self, scene, aio_loop, route, server, case):
        aio_loop.run(run_aio(case, scene.target(route, server), ((GROUP, server),)))


def test_a_client_that_knows_nothing_of_dubbo(scene, route, case):
    run_sync(case, scene.target(route, "sync"))
