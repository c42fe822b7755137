"""From a request's headers to its instance: names, deadlines, waiting, refusals."""

from __future__ import annotations

import json

import pytest

from sidecar.model.service import ServiceKey
from sidecar.proxy.waiting import MAX_WAITING_BYTES
from sidecar.settings.schema import (
    Consumer,
    Listener,
    ServiceOverride,
    Services,
    Timeouts,
    Upstream,
)
from sidecar.settings.units import Duration
from tests.fixtures.services import instance
from tests.fixtures.triple_rig import SERVICE, Rig, connected

JSON = "application/json"
LATER = "com.x.Later:1.0.0"
ADDRESS = "127.0.0.1:20880"


def serve(rig, *, max_streams=-1):
    """Open the connection that is asked for."""
    provider = rig.open(max_streams=max_streams)
    rig.settle()
    return provider


def texts(stream):
    return {name.decode(): value.decode() for name, value in stream.head}


# Deadlines


def test_fc_70_a_deadline_is_answered_4_and_the_provider_is_told():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(grpc_timeout="100m")
    rig.settle()
    request = provider.request()
    assert texts(request)["grpc-timeout"] == "100m"
    rig.advance(0.095)
    assert stream.status == -1
    rig.advance(0.03)
    assert stream.status == 4
    assert stream.message.startswith(f"TIMEOUT {SERVICE}: no answer in 1")
    assert request.reset == 8
    provider.push()
    assert rig.outcomes() == {"timeout": 1}
    rig.assert_empty()


@pytest.mark.parametrize(("seconds", "code", "status"), [(0.09, 8, 4), (0.05, 8, 1), (0.09, 2, 13)])
def test_a_provider_that_cancels_at_the_deadline_has_timed_out(seconds, code, status):
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(grpc_timeout="100m")
    rig.settle()
    rig.loop.now += seconds
    provider.reset(provider.request(), code)
    rig.settle()
    assert stream.status == status
    rig.assert_empty()


def test_fc_70_an_answer_past_the_deadline_is_dropped_although_the_timer_has_not_run():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(grpc_timeout="100m")
    rig.settle()
    provider.answer(provider.request(), b"late")
    rig.loop.now += 0.1005
    provider.push()
    rig.settle()
    assert (stream.body, stream.status) == (b"", 4)
    assert rig.outcomes() == {"timeout": 1}
    rig.assert_empty()


def test_fc_70_what_was_spent_waiting_is_taken_off():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    consumer.ask(grpc_timeout="1S")
    rig.settle()
    rig.advance(0.12)
    request = serve(rig).request()
    left = texts(request)["grpc-timeout"]
    assert (left[-1], len(left)) == ("u", 7)
    assert 878_000 <= int(left[:-1]) <= 880_000


def test_fc_70_a_long_deadline_is_cut():
    rig, consumer, (provider,) = connected(20880, timeouts=Timeouts(longest=Duration(30.0)))
    stream = consumer.ask(grpc_timeout="1H")
    rig.settle()
    assert texts(provider.request())["grpc-timeout"] == "30000000u"
    rig.advance(29.9)
    assert stream.status == -1
    rig.advance(0.15)
    assert stream.status == 4
    rig.assert_empty()


def test_fc_70_a_call_without_a_deadline_has_the_configured_one():
    rig, consumer, (provider,) = connected(20880, timeouts=Timeouts(call=Duration(2.0)))
    stream = consumer.ask()
    rig.settle()
    assert "grpc-timeout" not in texts(provider.request())
    rig.advance(1.9)
    assert stream.status == -1
    rig.advance(0.15)
    assert stream.status == 4
    rig.assert_empty()


def test_fc_70_a_call_without_any_deadline_waits():
    rig, consumer, (provider,) = connected(20880)
    rig.publish(20880, timeout_ms=1000)
    stream = consumer.ask()
    rig.settle()
    rig.watch(3600)
    assert stream.status == -1, "what providers register is meant for unary calls"
    provider.answer(provider.request())
    rig.settle()
    assert stream.status == 0
    rig.assert_empty()


@pytest.mark.parametrize("limit", ["0m", "0n", "999n"])
def test_fc_70_a_deadline_that_is_over_is_answered_at_once(limit):
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(grpc_timeout=limit)
    rig.settle()
    assert stream.status == 4
    assert provider.requests() == []
    rig.assert_empty()


@pytest.mark.parametrize("limit", ["", "1", "m", "1h", "-5m", "123456789m"])
def test_fc_70_what_is_no_deadline_passes_and_limits_nothing(limit):
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(grpc_timeout=limit)
    rig.settle()
    assert texts(provider.request())["grpc-timeout"] == limit
    rig.watch(100)
    assert stream.status == -1


def test_fc_70_a_deadline_after_the_head_ends_the_answer_with_trailers():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(grpc_timeout="100m")
    rig.settle()
    request = provider.request()
    provider.head(request)
    provider.data(request, b"one")
    rig.settle()
    rig.advance(0.13)
    assert (stream.body, stream.status, stream.reset) == (b"one", 4, None)
    assert request.reset == 8
    rig.assert_empty()


def test_fc_70_a_deadline_drops_what_the_consumer_has_not_read():
    rig, consumer, (provider,) = connected(20880)
    consumer.reads = False
    stream = consumer.ask(grpc_timeout="100m")
    rig.settle()
    request = provider.request()
    provider.head(request)
    provider.data(request, b"x" * 200_000)
    rig.settle()
    assert consumer.protocol.held_bytes > 0
    rig.advance(0.13)
    assert (stream.is_ended, stream.reset) == (False, 8)
    assert request.reset == 8
    assert rig.outcomes() == {"timeout": 1}
    rig.assert_empty()


@pytest.mark.parametrize("has_head", [True, False])
def test_fc_70_deadlines_of_json_calls(has_head):
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(kind=JSON, tri_service_timeout="100")
    rig.settle()
    request = provider.request()
    if has_head:
        provider.head(request, ((b":status", b"200"),))
        rig.settle()
    rig.advance(0.13)
    if has_head:
        assert (stream.http_status, stream.reset) == (200, 2)
    else:
        assert (stream.http_status, json.loads(stream.body)["reason"]) == (504, "TIMEOUT")
    assert request.reset == 8
    rig.assert_empty()


def test_fc_70_what_was_spent_is_taken_off_json_deadlines():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    consumer.ask(kind=JSON, tri_service_timeout="1000")
    rig.settle()
    rig.advance(0.12)
    assert 878 <= int(texts(serve(rig).request())["tri-service-timeout"]) <= 880


def test_a_service_may_have_a_time_limit_of_its_own():
    services = Services(overrides={SERVICE: ServiceOverride(timeout=Duration(0.5))})
    rig, consumer, _ = connected(20880, services=services)
    stream = consumer.ask()
    rig.settle()
    rig.advance(0.55)
    assert stream.status == 4


# Waiting for the registry


def test_a_call_waits_for_the_first_list_while_its_data_arrives():
    rig = Rig()
    consumer = rig.consumer()
    stream = consumer.ask("/com.x.Later/hi", body=b"one", end=False)
    rig.settle()
    assert rig.resolved == [LATER]
    assert rig.engine.waiting == 1
    consumer.data(stream, b"two", end=True)
    rig.advance(0.3)
    rig.publish(20880, service=LATER)
    rig.wake(LATER)
    assert rig.engine.waiting == 0
    provider = serve(rig)
    request = provider.request()
    assert (request.body, request.is_ended) == (b"onetwo", True)
    provider.answer(request)
    rig.settle()
    assert stream.status == 0
    assert rig.outcomes(LATER) == {"ok": 1}
    rig.assert_empty()


def test_the_time_of_waiting_counts_for_the_deadline():
    rig = Rig()
    consumer = rig.consumer()
    stream = consumer.ask("/com.x.Later/hi", grpc_timeout="1S")
    rig.settle()
    rig.advance(0.5)
    rig.publish(20880, service=LATER)
    rig.wake(LATER)
    request = serve(rig).request()
    assert int(texts(request)["grpc-timeout"][:-1]) <= 500_000
    rig.advance(0.55)
    assert (stream.status, request.reset) == (4, 8)
    rig.assert_empty()


def test_a_deadline_ends_the_waiting():
    rig = Rig()
    consumer = rig.consumer()
    stream = consumer.ask("/com.x.Later/hi", grpc_timeout="200m")
    rig.settle()
    rig.advance(0.25)
    assert stream.status == 4
    assert rig.engine.waiting == 0
    rig.assert_empty()


def test_a_list_that_does_not_come_is_unavailable():
    rig = Rig(services=Services(wait=Duration(3.0)))
    consumer = rig.consumer()
    stream = consumer.ask("/com.x.Later/hi", grpc_timeout="10S")
    rig.settle()
    rig.advance(3.05)
    assert stream.status == 14
    assert stream.message.startswith(f"REGISTRY_UNAVAILABLE {LATER}")
    rig.assert_empty()


def test_a_registry_that_fails_says_why():
    rig = Rig()
    consumer = rig.consumer()
    stream = consumer.ask("/com.x.Later/hi")
    rig.settle()
    rig.services.fail("REGISTRY_NOAUTH", service=LATER)
    rig.wake(LATER)
    again = consumer.ask("/com.x.Later/hi")
    rig.settle()
    assert (stream.status, again.status) == (14, 14)
    assert stream.message.startswith(f"REGISTRY_NOAUTH {LATER}")
    rig.assert_empty()


def test_a_call_cancelled_while_it_waits_is_forgotten():
    rig = Rig()
    consumer = rig.consumer()
    stream = consumer.ask("/com.x.Later/hi", body=b"x" * 100)
    rig.settle()
    consumer.reset(stream)
    rig.settle()
    assert rig.engine.waiting == 0
    rig.publish(20880, service=LATER)
    rig.wake(LATER)
    assert rig.connects == []
    rig.assert_empty()


def test_too_many_calls_do_not_wait():
    rig = Rig(services=Services(max_waiting=2))
    consumer = rig.consumer()
    streams = [consumer.ask("/com.x.Later/hi") for _ in range(3)]
    rig.settle()
    assert [stream.status for stream in streams] == [-1, -1, 8]
    assert streams[2].message.startswith(f"OVERLOADED {LATER}")
    assert MAX_WAITING_BYTES > 0


def test_a_service_that_may_not_be_watched_is_refused():
    rig = Rig(services=Services(on_demand=False))
    consumer = rig.consumer()
    stream = consumer.ask("/com.x.Later/hi")
    rig.settle()
    assert stream.status == 14
    assert stream.message.startswith(f"UNKNOWN_SERVICE {LATER}")
    assert rig.resolved == []
    rig.assert_empty()


# Names


def test_a_call_without_a_version_finds_the_usual_one_and_is_counted_under_it():
    rig = Rig()
    rig.publish(20880)
    rig.services.publish_instances(
        [instance(20880, ServiceKey.parse(SERVICE), protocol="tri", protocols=2)], "com.x.Demo"
    )
    consumer = rig.consumer()
    stream = consumer.ask(version="")
    rig.settle()
    provider = serve(rig)
    request = provider.request()
    assert texts(request)["tri-service-version"] == "1.0.0"
    provider.answer(request)
    rig.settle()
    assert stream.status == 0
    assert rig.outcomes(SERVICE) == {"ok": 1}
    assert rig.outcomes_of("triple", "_unknown", "_other") == {}
    rig.assert_empty()


def test_a_call_without_a_version_waits_for_the_usual_one():
    rig = Rig()
    rig.services.publish_instances(
        [instance(20880, ServiceKey.parse(SERVICE), protocol="tri", protocols=2)], "com.x.Demo"
    )
    consumer = rig.consumer()
    stream = consumer.ask(version="")
    rig.settle()
    assert rig.resolved == [SERVICE]
    rig.publish(20880)
    rig.wake(SERVICE)
    provider = serve(rig)
    provider.answer(provider.request())
    rig.settle()
    assert stream.status == 0
    rig.assert_empty()


def test_a_call_with_another_version_does_not_find_the_usual_one():
    rig = Rig()
    rig.services.publish_instances(
        [instance(20880, ServiceKey.parse(SERVICE), protocol="tri", protocols=2)],
        "com.x.Demo:2.0.0",
    )
    consumer = rig.consumer()
    stream = consumer.ask(version="2.0.0")
    rig.settle()
    assert stream.status == 14
    assert stream.message.startswith("VERSION_MISMATCH com.x.Demo:2.0.0")
    rig.assert_empty()


def test_a_call_that_finds_nobody_under_the_usual_version_either_says_so_once():
    rig = Rig()
    others = [instance(20880, ServiceKey.parse("com.x.Demo:3.0.0"), protocols=2)]
    rig.services.publish_instances(others, "com.x.Demo")
    rig.services.publish_instances(others, SERVICE)
    consumer = rig.consumer()
    stream = consumer.ask(version="")
    rig.settle()
    assert stream.status == 14
    assert stream.message.startswith(f"VERSION_MISMATCH {SERVICE}")
    assert rig.outcomes_of("triple", "_unknown", "_other") == {"no_provider": 1}
    rig.assert_empty()


def test_groups_are_services_of_their_own():
    rig = Rig()
    rig.publish(20881, service="blue/com.x.Demo:1.0.0")
    consumer = rig.consumer()
    consumer.ask(tri_service_group="blue")
    rig.settle()
    request = serve(rig).request()
    assert texts(request)["tri-service-group"] == "blue"


@pytest.mark.parametrize(
    ("fields", "default_tag", "port"),
    [
        ({"dubbo__tag": "gray"}, "", 20881),
        ({"dubbo_tag": "gray"}, "", 20881),
        ({}, "gray", 20881),
        ({}, "", 20880),
        ({"dubbo__tag": "none"}, "", 20880),
    ],
)
def test_a_call_is_routed_by_its_tag(fields, default_tag, port):
    rig = Rig(consumer=Consumer(tag=default_tag))
    key = ServiceKey.parse(SERVICE)
    rig.services.publish_instances(
        [
            instance(20880, key, protocol="tri", protocols=2),
            instance(20881, key, protocol="tri", protocols=2, tag="gray"),
        ]
    )
    consumer = rig.consumer()
    consumer.ask(**fields)
    rig.settle()
    assert [each.port for each in rig.connects] == [port]


def test_a_forced_tag_without_instances_is_unavailable():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    stream = consumer.ask(dubbo__tag="gray", dubbo__force__tag="true")
    rig.settle()
    assert stream.status == 14
    assert stream.message.split()[0] in ("TAG_FORCED_EMPTY", "TAG_EMPTY")
    rig.assert_empty()


# Paths


PATHS = {"/v1": "com.x.Demo:1.0.0", "/v1/orders": "com.x.Order", "/grpc.reflection.": "com.x.Refl"}


@pytest.mark.parametrize(
    ("path", "service"),
    [("/v1/carts/7", SERVICE), ("/v1/orders/9?q=1", "com.x.Order"), ("/v2/x", "v2")],
)
def test_paths_of_a_listener_name_services(path, service):
    rig = Rig()
    consumer = rig.consumer(Listener(protocol="triple", paths=PATHS))
    consumer.ask(path, kind=JSON, method="GET", version="")
    rig.settle()
    assert rig.resolved == [service]


def test_a_path_that_was_configured_passes_as_it_is():
    rig = Rig()
    rig.publish(20880, path="ctx/com.x.Demo")
    consumer = rig.consumer(Listener(protocol="triple", paths=PATHS))
    consumer.ask("/v1/carts/7", kind=JSON, version="")
    rig.settle()
    assert texts(serve(rig).request())[":path"] == "/v1/carts/7"


def test_the_default_service_of_a_listener_gets_what_names_none():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer(Listener(protocol="triple", default_service=SERVICE))
    stream = consumer.ask("/carts", kind=JSON, version="")
    rig.settle()
    provider = serve(rig)
    request = provider.request()
    assert texts(request)[":path"] == "/carts"
    provider.head(request, ((b":status", b"204"),), end=True)
    rig.settle()
    assert stream.http_status == 204
    assert rig.outcomes(method="carts") == {"ok": 1}
    rig.assert_empty()


@pytest.mark.parametrize("path", ["/", "/x", "/com.x.Demo/", "//x"])
def test_a_path_that_names_no_service_is_unimplemented(path):
    rig = Rig()
    consumer = rig.consumer()
    grpc = consumer.ask(path)
    rest = consumer.ask(path, kind=JSON)
    rig.settle()
    assert grpc.status == 12
    assert grpc.message.startswith("UNKNOWN_PATH: no service is known for the path")
    assert (rest.http_status, json.loads(rest.body)["reason"]) == (404, "UNKNOWN_PATH")
    assert rig.resolved == []
    rig.assert_empty()


# Reflection

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def test_reflection_is_answered_by_any_instance():
    rig = Rig()
    rig.publish(service="com.x.Nobody")
    rig.services.watch("com.x.Waiting")
    rig.publish(20880)
    consumer = rig.consumer()
    stream = consumer.ask(REFLECTION, end=False, version="")
    rig.settle()
    provider = serve(rig)
    request = provider.request()
    assert texts(request)[":path"] == REFLECTION
    provider.answer(request, b"services")
    rig.settle()
    assert (stream.body, stream.status) == (b"services", 0)
    assert rig.resolved == []
    rig.assert_empty()


def test_reflection_without_instances_is_unimplemented():
    rig = Rig()
    stream = rig.consumer().ask(REFLECTION, version="")
    rig.settle()
    assert stream.status == 12


def test_reflection_may_have_a_service_of_its_own():
    rig = Rig()
    consumer = rig.consumer(Listener(protocol="triple", paths=PATHS))
    consumer.ask(REFLECTION, version="")
    rig.settle()
    assert rig.resolved == ["com.x.Refl"]


def test_reflection_goes_to_the_default_service_of_a_listener():
    rig = Rig()
    consumer = rig.consumer(Listener(protocol="triple", default_service="com.x.Any"))
    consumer.ask(REFLECTION, version="")
    rig.settle()
    assert rig.resolved == ["com.x.Any"]


# The end


def test_a_call_that_comes_too_late_is_unavailable():
    rig, consumer, (provider,) = connected(20880)
    before = consumer.ask()
    rig.settle()
    consumer.is_silent = True
    rig.engine.refuse_new()
    rig.loop.turn()
    consumer.is_silent = False
    late = consumer.ask()
    consumer.push()
    rig.settle()
    assert late.status == 14
    assert late.message == f"SHUTTING_DOWN {SERVICE}: the sidecar is stopping"
    assert rig.engine.unfinished == 1
    provider.answer(provider.request())
    rig.settle()
    assert before.status == 0
    assert consumer.is_closed
    assert rig.engine.unfinished == 0
    rig.assert_empty()


def test_a_call_that_comes_back_too_late_is_unavailable():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask()
    rig.settle()
    rig.engine.refuse_new()
    provider.reset(provider.request(), 7)
    rig.settle()
    assert stream.status == 14
    assert stream.message.startswith("SHUTTING_DOWN")
    rig.assert_empty()


def test_dead_addresses_are_left_alone():
    rig = Rig(upstream=Upstream(backoff_min=Duration(5.0)))
    rig.publish(20880)
    consumer = rig.consumer()
    consumer.ask()
    rig.settle()
    rig.refuse()
    again = consumer.ask()
    rig.settle()
    assert again.status == 14
    assert again.message.startswith(f"CONNECT_FAILED {SERVICE}: no connection to {ADDRESS}")
    assert rig.connects == []
    rig.assert_empty()
