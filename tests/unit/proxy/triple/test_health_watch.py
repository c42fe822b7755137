"""What an open ``Watch`` of the health service holds up, and what it keeps alive."""

from __future__ import annotations

from sidecar.settings.schema import Services
from tests.fixtures.http2_ends import ConsumerEnd, Stream
from tests.fixtures.triple_rig import SERVICE, Rig


def health(consumer: ConsumerEnd, method: str, service: str) -> Stream:
    text = service.encode()
    message = b"\x0a" + bytes([len(text)]) + text if text else b""
    body = b"\0" + len(message).to_bytes(4, "big") + message
    return consumer.ask(f"/grpc.health.v1.Health/{method}", body, version="")


def state(stream: Stream) -> int:
    return stream.body[-1]


def test_a_watch_does_not_hold_up_the_end_of_the_process():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    watch = health(consumer, "Watch", SERVICE)
    rig.settle()
    assert state(watch) == 1
    assert rig.engine.inflight == 1
    assert rig.engine.unfinished == 0
    rig.engine.refuse_new()
    rig.settle()
    assert watch.status == 14
    assert watch.message.startswith("SHUTTING_DOWN")
    assert consumer.is_closed
    rig.assert_empty()


def test_a_check_that_waits_is_refused_at_the_end_of_the_process():
    rig = Rig()
    consumer = rig.consumer()
    check = health(consumer, "Check", SERVICE)
    unread = consumer.ask("/grpc.health.v1.Health/Check", b"\0", end=False, version="")
    rig.settle()
    rig.engine.refuse_new()
    rig.settle()
    assert (check.status, unread.status) == (14, 14)
    rig.assert_empty()


def test_a_service_whose_health_is_watched_is_in_use():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    watch = health(consumer, "Watch", SERVICE)
    health(consumer, "Watch", "")
    health(consumer, "Watch", "com.x.Unknown")
    rig.settle()
    service = rig.services.directory.find(SERVICE)
    rig.advance(3600.0)
    rig.check()
    used = service.last_used
    assert used == int(rig.loop.now * 1000) + rig.engine.walk.surroundings.wall_offset_ms
    consumer.reset(watch)
    rig.settle()
    rig.advance(3600.0)
    rig.check()
    assert service.last_used == used


def test_nothing_is_watched_on_demand_when_that_is_switched_off():
    rig = Rig(services=Services(on_demand=False, preload=[SERVICE]))
    consumer = rig.consumer()
    check = health(consumer, "Check", "com.x.Other")
    watch = health(consumer, "Watch", "com.x.Other")
    rig.settle()
    assert rig.resolved == []
    assert check.status == 5
    assert state(watch) == 3
