"""Other ways in: Unix sockets and TLS; and what clients ask besides: health and reflection."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from tests.e2e.grpc_scene import DIRECT, GROUP, SIDECAR, connect
from tests.e2e.interop import METHODS, SERVICE, Empty, Stub
from tests.e2e.interop_cases import LIMIT, SyncCases

CASES = ["empty_unary", "large_unary", "ping_pong", "custom_metadata", "special_status_message"]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
NOBODY = health_pb2.HealthCheckRequest(service="org.example.Nobody")


def run(case: str, channel: grpc.Channel, group: str) -> None:
    getattr(SyncCases(), case)(Stub(channel, ((GROUP, group),)))


class TestUnixSocket:
    @pytest.mark.parametrize("case", CASES)
    def test_calls(self, scene, route, case):
        socket = scene.server_socket if route == DIRECT else scene.sidecar_socket
        scene.target(route, "sync")
        with connect(f"unix://{socket}") as channel:
            run(case, channel, "sync")


@pytest.mark.parametrize("case", CASES)
def test_a_listener_that_tells_protocols_apart(scene, case):
    scene.target(SIDECAR, "sync")
    with connect(f"127.0.0.1:{scene.auto_port}") as channel:
        run(case, channel, "sync")


class TestTls:
    @pytest.fixture
    def target(self, scene, route):
        scene.target(route, "tls")
        port = scene.servers["tls"].port if route == DIRECT else scene.tls_port
        return f"127.0.0.1:{port}"

    @pytest.mark.parametrize("case", CASES)
    def test_calls(self, scene, target, case):
        authority = scene.certificates.authority.read_bytes()
        with connect(target, grpc.ssl_channel_credentials(authority)) as channel:
            run(case, channel, "tls")

    def test_a_client_that_does_not_trust_the_certificate(self, scene, target):
        with connect(target, grpc.ssl_channel_credentials()) as channel:
            call = Stub(channel).future("EmptyCall", Empty(), timeout=LIMIT)
            assert call.code() == grpc.StatusCode.UNAVAILABLE

    def test_a_client_without_tls(self, target):
        with connect(target) as channel:
            call = Stub(channel).future("EmptyCall", Empty(), timeout=LIMIT)
            assert call.code() == grpc.StatusCode.UNAVAILABLE

    def test_towards_the_provider_alone(self, scene):
        with connect(scene.sidecar.triple) as channel:
            run("large_unary", channel, "tls")

    def test_towards_the_consumer_alone(self, scene):
        authority = scene.certificates.authority.read_bytes()
        scene.target(SIDECAR, "sync")
        target = f"127.0.0.1:{scene.tls_port}"
        with connect(target, grpc.ssl_channel_credentials(authority)) as channel:
            run("large_unary", channel, "sync")


class TestHealth:
    @pytest.fixture
    def stub(self, scene, route):
        with connect(scene.target(route, "sync")) as channel:
            # A watch of the sidecar begins with SERVICE_UNKNOWN when it came before the registry.
            Stub(channel).call("EmptyCall", Empty(), timeout=LIMIT)
            yield health_pb2_grpc.HealthStub(channel)

    @pytest.mark.parametrize("service", ["", SERVICE])
    def test_of_what_is_there(self, stub, service):
        request = health_pb2.HealthCheckRequest(service=service)
        assert stub.Check(request, timeout=LIMIT).status == SERVING
        watch = stub.Watch(request, timeout=LIMIT)
        assert next(watch).status == SERVING
        watch.cancel()
        assert watch.code() == grpc.StatusCode.CANCELLED

    def test_of_a_service_that_a_server_does_not_know(self, scene):
        with connect(scene.servers["sync"].address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            assert stub.Check.future(NOBODY, timeout=LIMIT).code() == grpc.StatusCode.NOT_FOUND
            watch = stub.Watch(NOBODY, timeout=LIMIT)
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
            watch.cancel()

    def test_of_a_service_that_nobody_offers(self, scene):
        """The sidecar cannot tell one that never was from one whose providers are all gone."""
        with connect(scene.sidecar.triple) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            assert stub.Check(NOBODY, timeout=LIMIT).status == NOT_SERVING
            watch = stub.Watch(NOBODY, timeout=LIMIT)
            assert next(watch).status == NOT_SERVING
            watch.cancel()

    def test_a_watch_tells_when_providers_come_and_go(self, scene):
        request = health_pb2.HealthCheckRequest(service=f"watched/{SERVICE}")
        with connect(scene.sidecar.triple) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            assert stub.Check(request, timeout=LIMIT).status == NOT_SERVING
            watch = stub.Watch(request, timeout=LIMIT)
            assert next(watch).status == NOT_SERVING
            scene.register("watched", scene.grouped("watched", scene.servers["sync"].port))
            assert next(watch).status == SERVING
            scene.register("watched", [])
            assert next(watch).status == NOT_SERVING
            watch.cancel()

    def test_a_watch_ends_at_its_deadline(self, stub):
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=0.3)
        assert next(watch).status == SERVING
        assert watch.code() == grpc.StatusCode.DEADLINE_EXCEEDED


class TestReflection:
    def test_services_and_messages(self, scene, route):
        """The first service with an instance describes itself; here that is the test service."""
        with connect(scene.target(route, "sync")) as channel:
            Stub(channel).call("EmptyCall", Empty(), timeout=LIMIT)
            database = ProtoReflectionDescriptorDatabase(channel)
            assert SERVICE in database.get_services()
            service = DescriptorPool(database).FindServiceByName(SERVICE)
            assert [method.name for method in service.methods] == list(METHODS)
            assert service.methods_by_name["UnaryCall"].input_type.name == "SimpleRequest"
