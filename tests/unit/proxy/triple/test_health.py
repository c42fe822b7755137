"""gRPC's health service, answered by the sidecar."""

from __future__ import annotations

import pytest

from sidecar.proxy.triple.health import MAX_UNREAD
from sidecar.settings.schema import Services
from sidecar.settings.units import Duration
from tests.fixtures.triple_rig import SERVICE, Rig

UNKNOWN, SERVING, NOT_SERVING, SERVICE_UNKNOWN = 0, 1, 2, 3
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
HEALTH = "grpc.health.v1.Health"


def question(service: str) -> bytes:
    name = service.encode()
    message = b"\x0a" + bytes([len(name)]) + name if name else b""
    return b"\0" + len(message).to_bytes(4, "big") + message


def states(stream) -> list[int]:
    body = bytes(stream.body)
    assert len(body) % 7 == 0
    parts = [body[at : at + 7] for at in range(0, len(body), 7)]
    assert {part[:6] for part in parts} <= {b"\0\0\0\0\x02\x08"}
    return [part[6] for part in parts]


def ask(rig, path, service, **more):
    stream = rig.consumer().ask(path, body=question(service), version="", **more)
    rig.settle()
    return stream


def counted(rig, method):
    return rig.outcomes_of("triple", HEALTH, method)


# Check


@pytest.mark.parametrize("service", ["", SERVICE, "com.x.Demo"])
def test_a_service_with_instances_serves_and_so_does_the_sidecar_itself(service):
    rig = Rig()
    rig.publish(20880)
    rig.publish(service="com.x.Demo")
    stream = ask(rig, CHECK, service)
    assert states(stream) == [SERVING]
    assert (stream.status, stream.closed) == (0, 0)
    assert counted(rig, "Check") == {"ok": 1}
    rig.assert_empty()


@pytest.mark.parametrize("service", [SERVICE, "com.x.Demo:2.0.0", "a/com.x.Demo"])
def test_a_service_without_instances_does_not_serve(service):
    rig = Rig()
    for each in (SERVICE, "com.x.Demo:2.0.0", "a/com.x.Demo", "a/com.x.Demo:1.0.0"):
        rig.publish(service=each)
    stream = ask(rig, CHECK, service)
    assert (states(stream), stream.status) == ([NOT_SERVING], 0)
    rig.assert_empty()


def test_instances_of_another_protocol_do_not_serve():
    rig = Rig()
    rig.services.publish(20880)
    assert states(ask(rig, CHECK, SERVICE)) == [NOT_SERVING]


def test_a_check_waits_for_the_first_list():
    rig = Rig()
    stream = ask(rig, CHECK, SERVICE)
    assert rig.resolved == [SERVICE]
    assert stream.head is None
    rig.publish(20880)
    rig.wake(SERVICE)
    assert (states(stream), stream.status) == ([SERVING], 0)
    rig.assert_empty()


def test_a_check_waits_for_the_list_of_the_usual_version():
    rig = Rig()
    rig.publish(service="com.x.Demo")
    stream = ask(rig, CHECK, "com.x.Demo")
    assert rig.resolved == [SERVICE]
    assert stream.head is None
    rig.publish(20880)
    rig.wake(SERVICE)
    assert states(stream) == [SERVING]
    rig.assert_empty()


@pytest.mark.parametrize(("limits", "after"), [({"grpc_timeout": "300m"}, 0.3), ({}, 5.0)])
def test_a_check_waits_until_its_deadline_and_not_for_ever(limits, after):
    rig = Rig(services=Services(wait=Duration(5.0)))
    stream = ask(rig, CHECK, SERVICE, **limits)
    rig.advance(after - 0.01)
    assert stream.status == -1
    rig.advance(0.05)
    assert stream.status == 4
    assert counted(rig, "Check") == {"timeout": 1}
    rig.assert_empty()


def test_a_check_of_a_service_whose_registry_fails_says_why():
    rig = Rig()
    stream = ask(rig, CHECK, SERVICE)
    rig.services.fail("REGISTRY_NOAUTH")
    rig.wake(SERVICE)
    assert stream.status == 14
    assert stream.message == f"REGISTRY_NOAUTH {SERVICE}: the registry refuses access"
    assert counted(rig, "Check") == {"rejected": 1}
    rig.assert_empty()


def test_a_check_of_a_service_whose_usual_version_fails_does_not_serve():
    rig = Rig()
    rig.publish(service="com.x.Demo")
    rig.services.fail("REGISTRY_NOAUTH")
    assert states(ask(rig, CHECK, "com.x.Demo")) == [NOT_SERVING]
    rig.assert_empty()


def test_what_may_not_be_watched_is_not_found():
    rig = Rig(services=Services(on_demand=False))
    stream = ask(rig, CHECK, SERVICE)
    assert rig.resolved == []
    assert stream.status == 5
    assert stream.message == f"UNKNOWN_SERVICE {SERVICE}: the service is not watched"
    rig.assert_empty()


def test_what_is_no_name_is_not_found():
    rig = Rig()
    stream = ask(rig, CHECK, "a/:1.0.0")
    assert (stream.status, stream.message) == (5, f"UNKNOWN_SERVICE {HEALTH}: no service name")
    assert rig.resolved == []
    rig.assert_empty()


# Requests


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the request has no message"),
        (b"\0\0\0\0", "the request has no message"),
        (b"\x01\0\0\0\0", "compressed message"),
        (b"\0\0\0\0\x02\x0a\x05", "message ends inside a value"),
        (b"\0\x7f\0\0\0", "message longer than 4096 bytes"),
    ],
)
def test_what_is_no_question_is_refused(body, why):
    rig = Rig()
    stream = rig.consumer().ask(CHECK, body=body, version="")
    rig.settle()
    assert (stream.status, stream.message) == (3, f"BAD_REQUEST {HEALTH}: {why}")
    assert counted(rig, "Check") == {"rejected": 1}
    rig.assert_empty()


def test_a_question_may_come_in_pieces_and_end_with_trailers():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    body = question(SERVICE)
    stream = consumer.ask(CHECK, body=body[:3], end=False)
    rig.settle()
    consumer.data(stream, body[3:9])
    rig.settle()
    assert stream.head is None
    consumer.data(stream, body[9:])
    consumer.trailers(stream, [(b"x", b"1")])
    rig.settle()
    assert states(stream) == [SERVING]
    rig.assert_empty()


def test_a_question_that_ends_with_trailers_before_it_is_whole_is_refused():
    rig = Rig()
    consumer = rig.consumer()
    stream = consumer.ask(CHECK, body=question(SERVICE)[:3], end=False)
    rig.settle()
    consumer.trailers(stream, [(b"x", b"1")])
    rig.settle()
    assert stream.status == 3
    rig.assert_empty()


def test_what_follows_the_question_is_ignored():
    rig = Rig()
    consumer = rig.consumer()
    stream = consumer.ask(WATCH, body=question(""), end=False)
    rig.settle()
    consumer.data(stream, b"x" * 5000, end=True)
    rig.settle()
    assert states(stream) == [SERVING]
    assert rig.ledgers[0].owed == 0


def test_other_methods_are_no_health_calls():
    rig = Rig()
    stream = ask(rig, "/grpc.health.v1.Health/List", "")
    assert rig.resolved == ["grpc.health.v1.Health"]
    assert stream.head is None


# Watch


def test_a_watch_is_told_of_each_change():
    rig = Rig()
    stream = ask(rig, WATCH, SERVICE)
    assert states(stream) == [SERVICE_UNKNOWN]
    for ports in ((20880,), (20880, 20881), (), (20881,)):
        rig.publish(*ports)
        rig.wake(SERVICE)
    assert states(stream) == [SERVICE_UNKNOWN, SERVING, NOT_SERVING, SERVING]
    assert not stream.is_ended
    assert len(rig.desk) == 1


def test_a_watch_without_a_version_is_told_of_the_usual_one():
    rig = Rig()
    stream = ask(rig, WATCH, "com.x.Demo")
    rig.publish(service="com.x.Demo")
    rig.wake("com.x.Demo")
    assert states(stream) == [SERVICE_UNKNOWN]
    rig.publish(20880)
    rig.wake(SERVICE)
    rig.publish(service=SERVICE)
    rig.wake(SERVICE)
    rig.publish(20881, service="com.x.Demo")
    rig.wake("com.x.Demo")
    assert states(stream) == [SERVICE_UNKNOWN, SERVING, NOT_SERVING, SERVING]


def test_a_watch_has_no_time_limit_of_the_sidecar():
    rig = Rig()
    stream = ask(rig, WATCH, SERVICE)
    rig.watch(3000)
    assert not stream.is_ended


def test_a_watch_ends_with_its_deadline():
    rig = Rig()
    stream = ask(rig, WATCH, SERVICE, grpc_timeout="2S")
    rig.advance(2.1)
    assert (states(stream), stream.status) == ([SERVICE_UNKNOWN], 4)
    assert counted(rig, "Watch") == {"timeout": 1}
    rig.assert_empty()


def test_a_watch_ends_with_its_consumer():
    rig = Rig()
    consumer = rig.consumer()
    one = consumer.ask(WATCH, body=question(SERVICE))
    two = consumer.ask(WATCH, body=question(SERVICE), end=False)
    other = consumer.ask(WATCH, body=b"", end=False)
    rig.settle()
    consumer.reset(one)
    rig.settle()
    assert len(rig.desk) == 2
    rig.publish(20880)
    rig.wake(SERVICE)
    assert states(two) == [SERVICE_UNKNOWN, SERVING]
    consumer.reset(other)
    rig.settle()
    consumer.finish()
    rig.settle()
    assert counted(rig, "Watch") == {"cancelled": 3}
    rig.assert_empty()


def test_a_watched_service_counts_as_used():
    rig = Rig()
    ask(rig, WATCH, SERVICE)
    ask(rig, WATCH, "")
    service = rig.services.directory.find(SERVICE)
    assert service.last_used == 0
    rig.advance(100)
    rig.check()
    assert service.last_used == int((rig.loop.now + 1_700_000_000) * 1000)


def test_a_watch_of_what_may_not_be_watched_is_told_so_and_stays():
    rig = Rig(services=Services(on_demand=False))
    stream = ask(rig, WATCH, SERVICE)
    assert states(stream) == [SERVICE_UNKNOWN]
    rig.check()
    assert not stream.is_ended


def test_a_watcher_that_does_not_read_is_ended():
    rig = Rig()
    consumer = rig.consumer(window=10)
    consumer.reads = False
    stream = consumer.ask(WATCH, body=question(SERVICE))
    rig.settle()
    changes = 0
    while len(rig.desk):
        rig.publish(*((20880,) if changes % 2 else ()))
        rig.wake(SERVICE)
        changes += 1
    assert MAX_UNREAD // 7 < changes < MAX_UNREAD // 7 + 5
    assert consumer.protocol.held_bytes < MAX_UNREAD + 7
    assert counted(rig, "Watch") == {"rejected": 1}
    consumer.reads = True
    consumer.read_all()
    rig.settle()
    assert stream.status == 8
    assert stream.message == f"OVERLOADED {SERVICE}: the changes are not read"
    rig.assert_empty()


def test_a_wake_that_ends_one_watch_tells_the_others():
    rig = Rig()
    streams = [ask(rig, CHECK, SERVICE) for _ in range(3)]
    rig.publish(20880)
    rig.wake(SERVICE)
    assert [states(stream) for stream in streams] == [[SERVING]] * 3
    rig.wake(SERVICE)
    rig.assert_empty()
