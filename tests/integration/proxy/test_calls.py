"""Calls through the data plane between scripted peers on real sockets."""

from __future__ import annotations

import asyncio
import time

import pytest

from sidecar.model.protocol import DUBBO
from sidecar.settings.schema import Limits, Services, Upstream
from sidecar.settings.units import Duration, Size
from tests.fixtures.dubbo_frames import frame, heartbeat, heartbeat_reply, readonly, reply, request
from tests.fixtures.dubbo_peer import eventually

SERVICE = "com.x.Demo:1.0.0"


def outcomes(world, method="hi"):
    from sidecar.model import outcome

    stats = world.counters.methods["dubbo", SERVICE, method]
    return {outcome.NAMES[n]: count for n, count in enumerate(stats.outcomes) if count}


async def test_a_call_and_its_answer(world):
    provider = await world.provider("hello")
    consumer = await world.serve(provider)
    assert (await consumer.call()).value == "hello"
    assert outcomes(world) == {"ok": 1}
    assert world.plane.connections()["ready"] == 1
    await world.settled()


async def test_two_frames_in_one_segment_and_one_frame_in_three(world):
    provider = await world.provider()
    consumer = await world.serve(provider)
    consumer.send(request(1) + request(2))
    assert {(await consumer.next_frame()).number for _ in range(2)} == {1, 2}
    raw = request(3)
    for part in (raw[:1], raw[1:15], raw[15:17], raw[17:]):
        consumer.send(part)
        await asyncio.sleep(0.005)
    assert (await consumer.next_frame()).raw == reply(3)


async def test_two_consumers_with_the_same_ids(world):
    provider = await world.provider()
    provider.on_call = lambda link, call: link.send(
        reply(call.number, "one" if b"first" in call.body else "two")
    )
    one = await world.serve(provider)
    two = await world.consumer()
    for number in range(50):
        one.send(request(number, argument="first"))
        two.send(request(number, argument="second"))
    for number in range(50):
        assert (await one.reply_to(number)).value == "one"
        assert (await two.reply_to(number)).value == "two"
    assert len({call.number for call in provider.calls}) == 100
    assert len(provider.links) == 1


async def test_replies_nobody_waits_for_are_ignored(world):
    provider = await world.provider(is_silent=True)
    consumer = await world.serve(provider)
    consumer.send(request(1), request(2, two_way=False))
    await eventually(lambda: len(provider.calls) == 2)
    link, (two_way, one_way) = provider.links[0], provider.calls
    link.send(reply(10**9), reply(one_way.number), heartbeat_reply(5), reply(two_way.number))
    assert (await consumer.next_frame()).number == 1
    assert consumer.frames == []


async def test_fc_63_provider_that_leaves_finishes_what_it_has(world):
    leaving = await world.provider("leaving", is_silent=True)
    consumer = await world.serve(leaving)
    consumer.send(request(1), request(2))
    await eventually(lambda: len(leaving.calls) == 2)
    staying = await world.provider("staying")
    world.services.publish(leaving.port, staying.port)
    link = leaving.links[0]
    link.send(readonly())
    await eventually(lambda: world.plane.draining() == [leaving.address])
    replies = await asyncio.gather(*[consumer.call() for _ in range(10)])
    assert {each.value for each in replies} == {"staying"}
    link.send(*[reply(call.number, "leaving") for call in leaving.calls])
    link.close()
    assert {(await consumer.reply_to(number)).value for number in (1, 2)} == {"leaving"}
    assert consumer.frames == [], "the event is not passed on"
    world.plane.addresses_changed([leaving.address])
    await eventually(lambda: world.plane.connections()["ready"] == 1)
    assert world.plane.draining() == []


async def test_a_late_answer_is_not_forwarded(world):
    provider = await world.provider(delay=0.6)
    consumer = await world.serve(provider)
    started = time.monotonic()
    answer = await consumer.call(timeout="100")
    assert answer.status == 31
    assert 0.099 <= time.monotonic() - started < 0.6
    await eventually(lambda: world.count("sidecar_late_replies_total", "late") == 1)
    assert consumer.frames == []
    assert outcomes(world) == {"timeout": 1}


async def test_an_attachment_s_name_inside_an_argument_is_no_tag(world):
    plain = await world.provider("untagged")
    consumer = await world.serve(plain)
    answer = await consumer.call(argument="\x09dubbo.tag\x04gray\x05group\x01g")
    assert answer.value == "untagged"


async def test_a_class_defined_in_the_first_argument_and_used_by_the_second(world):
    definition = b"C\x05com.A\x91\x01a"
    body = request(1)[16:].replace(
        b"\x12Ljava/lang/String;\x03bob",
        b"\x0eLcom/A;Lcom/A;" + definition + b"\x60\x91" + b"\x60\x92",
    )
    provider = await world.provider()
    consumer = await world.serve(provider)
    consumer.send(frame(0xC2, 0, 1, body))
    assert (await consumer.next_frame()).status == 20
    assert provider.calls[0].body == body


async def test_an_oversize_reply_is_refused_and_the_stream_stays_in_step(world):
    provider = await world.provider(is_silent=True)
    consumer = await world.serve(provider)
    consumer.send(request(1), request(2))
    await eventually(lambda: len(provider.calls) == 2)
    one, two = provider.calls
    body = b"\x91" + b"\xda\xbb" * 4_500_000
    provider.links[0].send(frame(0x02, 20, one.number, body), reply(two.number))
    refused = await consumer.reply_to(1)
    assert refused.status == 50
    assert refused.message.startswith(f"PAYLOAD_TOO_LARGE {SERVICE}")
    assert (await consumer.reply_to(2)).status == 20
    assert (await asyncio.gather(consumer.call(), _answer(provider, 3)))[0].status == 20


async def _answer(provider, count):
    await eventually(lambda: len(provider.calls) == count)
    provider.answer(provider.links[0], provider.calls[-1])


async def test_fc_51_heartbeats_need_no_provider(world):
    consumer = await world.consumer()
    consumer.send(heartbeat(7))
    assert (await consumer.next_frame()).raw == heartbeat_reply(7)
    assert world.resolved == []


async def test_fc_55_oversize_request_costs_no_memory_and_the_link_stays(world):
    provider = await world.provider()
    consumer = await world.serve(provider)
    await consumer.call()
    consumer.send(frame(0xC2, 0, 5, b"")[:12] + (8_388_609).to_bytes(4, "big"))
    refused = await consumer.next_frame()
    assert (refused.status, refused.number) == (40, 5)
    before = _resident()
    for _ in range(128):
        consumer.send(b"\xda\xbb" * (1 << 15))
        await asyncio.sleep(0)
    consumer.send(b"x")
    assert (await consumer.call()).status == 20
    assert _resident() - before < 16 << 20  # the test's own buffers are in it, too
    assert world.count("sidecar_oversize_total", "request") == 1


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


async def test_a_big_payload_arrives_whole_both_ways(world):
    provider = await world.provider(is_silent=True)
    consumer = await world.serve(provider)
    raw = request(1)
    body = raw[16:-1].replace(b"\x03bob", b"B\xff\xff" + b"q" * 65_535)
    big = frame(0xC2, 0, 1, body + b"Z")
    consumer.send(big)
    await eventually(lambda: provider.calls)
    assert provider.calls[0].body == big[16:]
    answer = frame(0x02, 20, provider.calls[0].number, b"\x91" + b"A\xff\xff" + b"r" * 6_000_000)
    provider.links[0].send(answer)
    assert (await consumer.reply_to(1)).body == answer[16:]


async def test_fc_60_unknown_serialization(world):
    consumer = await world.consumer()
    consumer.send(bytes.fromhex("dabbdd00000000000000002b00000007") + b'{"a":1}')
    refused = await consumer.next_frame()
    assert (refused.status, refused.number) == (40, 43)
    assert "29" in refused.message


async def test_fc_61_one_way_calls_to_a_slow_reader_are_bounded(worlds):
    world = await worlds(limits=Limits(upstream_buffer=Size(100_000)))
    provider = await world.provider()
    consumer = await world.serve(provider)
    await consumer.call()
    link = provider.links[0]
    link.transport.pause_reading()
    raw = request(5, two_way=False, argument="x" * 1000)
    for _ in range(200):
        consumer.send(raw * 100)
        await asyncio.sleep(0)
    await eventually(lambda: world.count("sidecar_oneway_dropped_total", "OVERLOADED") > 1000)
    (upstream,) = world.plane._dubbo._pool.endpoints[provider.address].links
    assert upstream.queued_bytes < 200_000
    link.transport.resume_reading()
    await eventually(lambda: upstream.queued_bytes == 0)
    assert (await consumer.call()).status == 20
    sent = world.count("sidecar_oneway_sent_total")
    await eventually(lambda: len(provider.calls) == sent + 2)
    dropped = world.count("sidecar_oneway_dropped_total", "OVERLOADED")
    assert sent + dropped == 20_000
    assert consumer.frames == []


async def test_a_consumer_that_does_not_read_is_closed_and_stalls_no_one(worlds):
    world = await worlds(limits=Limits(consumer_buffer=Size(200_000)))
    provider = await world.provider("x" * 60_000)
    slow = await world.serve(provider)
    other = await world.consumer()
    provider.is_silent = True
    slow.send(*[request(number) for number in range(400)])
    await eventually(lambda: len(provider.calls) == 400)
    provider.is_silent = False
    slow.transport.pause_reading()
    (link,) = provider.links
    for number, call in enumerate(provider.calls[:400]):  # 24 MB, more than any socket buffer
        provider.answer(link, call)
        if number % 50 == 0:
            assert (await other.call()).status == 20
    await eventually(lambda: world.count("sidecar_consumers_closed_total", "buffer") == 1)
    assert (await other.call()).status == 20
    assert len(provider.links) == 1, "the connection they share is the same all the time"
    slow.transport.abort()
    await world.settled()


async def test_nothing_is_logged_per_call(world, caplog):
    provider = await world.provider()
    consumer = await world.serve(provider)
    world.services.publish(service="com.x.Nobody")
    await consumer.call()
    with caplog.at_level("DEBUG", logger="sidecar"):
        caplog.clear()
        for _ in range(20):
            assert (await consumer.call()).status == 20
            assert (await consumer.call(service="com.x.Nobody", version="")).status == 60
        assert caplog.records == []


async def test_fc_79_consumer_that_half_closes_gets_its_answers(world):
    provider = await world.provider(delay=0.05)
    consumer = await world.serve(provider)
    consumer.send(request(1), request(2))
    consumer.half_close()
    assert {(await consumer.next_frame()).number for _ in range(2)} == {1, 2}
    await consumer.gone()
    await eventually(lambda: world.plane.consumers == 0)


async def test_fc_79_provider_that_answers_and_closes(world):
    provider = await world.provider()

    def answer_and_finish(link, call):
        link.send(reply(call.number))
        link.half_close()

    provider.on_call = answer_and_finish
    consumer = await world.serve(provider)
    for _ in range(5):
        assert (await consumer.call()).status == 20
    assert len(provider.links) == 5, "a connection with FIN seen is not used again"


async def test_fc_79_our_idle_limit_below_the_peer_s_leaves_no_race(worlds):
    world = await worlds(upstream=Upstream(idle_close=Duration(0.04)))
    provider = await world.provider()
    loop = asyncio.get_running_loop()
    closers = {}

    def answer(link, call):
        if link in closers:
            closers[link].cancel()
        closers[link] = loop.call_later(0.1, link.close)
        link.send(reply(call.number))

    provider.on_call = answer
    consumer = await world.serve(provider)
    for number in range(25):
        assert (await consumer.call()).status == 20
        await asyncio.sleep(0.098 + number % 5 / 1000)
    for closer in closers.values():
        closer.cancel()
    assert len(provider.links) > 10
    assert world.count("sidecar_upstream_closed_total", "peer") == 0


async def test_fc_79_a_peer_that_closes_first_costs_nothing_but_a_connection(world):
    provider = await world.provider()
    loop = asyncio.get_running_loop()
    provider.on_call = lambda link, call: (
        link.send(reply(call.number)),
        loop.call_later(0.02, link.close),
    )
    consumer = await world.serve(provider)
    lost = 0
    for number in range(60):
        answer = await consumer.call()
        lost += answer.status == 35
        assert answer.status in (20, 35)
        await asyncio.sleep(0.018 + number % 5 / 1000)
    assert lost < 30, "only a call that crosses the close on the wire may be lost"
    assert len(provider.calls) >= 60 - lost


async def test_a_reset_in_flight_is_35(world):
    provider = await world.provider(is_silent=True)
    consumer = await world.serve(provider)
    call = asyncio.ensure_future(consumer.call())
    await eventually(lambda: provider.calls)
    provider.links[0].reset()
    answer = await call
    assert answer.status == 35
    assert answer.message.startswith(f"CONNECTION_LOST {SERVICE}")
    assert len(provider.calls) == 1
    await world.settled()


async def test_a_provider_that_refuses_is_passed_over_silently(world):
    dead = await world.provider()
    dead.refuse()
    alive = await world.provider("alive")
    consumer = await world.serve(dead, alive)
    replies = await asyncio.gather(*[consumer.call() for _ in range(50)])
    assert {each.value for each in replies} == {"alive"}
    assert world.plane.unavailable(DUBBO) == {dead.address: 2}


async def test_fc_17_a_host_name_that_does_not_resolve_is_passed_over(world):
    from sidecar.model.service import ServiceKey
    from tests.fixtures.services import instance

    alive = await world.provider("alive")
    key = ServiceKey.parse(SERVICE)
    bad = [
        instance(20880, key, host=host)
        for host in ("cart-7f9c.invalid", "x" * 80 + ".invalid", "not a name")
    ]
    world.services.publish_instances([*bad, instance(alive.port, key)])
    consumer = await world.consumer()
    for _ in range(20):
        assert (await consumer.call()).value == "alive"
    assert alive.address not in world.plane.unavailable(DUBBO)


async def test_connection_refused_everywhere_is_80_and_a_restart_is_noticed(world):
    provider = await world.provider()
    provider.refuse()
    consumer = await world.serve(provider)
    answer = await consumer.call()
    assert answer.status == 80
    assert answer.message.startswith(f"CONNECT_FAILED {SERVICE}")
    await provider.start(provider.port)
    await asyncio.sleep(0.15)
    assert (await consumer.call()).status == 20
    assert world.plane.unavailable(DUBBO) == {}


async def test_the_first_call_of_a_service_waits_for_its_list(world):
    provider = await world.provider()
    consumer = await world.consumer()
    calls = [asyncio.ensure_future(consumer.call(timeout="2000")) for _ in range(3)]
    await eventually(lambda: world.plane.waiting == 3)
    assert world.resolved == [SERVICE]
    world.services.publish(provider.port)
    world.plane.wake(SERVICE)
    assert [each.status for each in await asyncio.gather(*calls)] == [20, 20, 20]


async def test_a_list_that_does_not_come_is_status_60(worlds):
    world = await worlds(services=Services(wait=Duration(0.05)))
    consumer = await world.consumer()
    answer = await consumer.call()
    assert answer.status == 60
    assert answer.message.startswith(f"REGISTRY_UNAVAILABLE {SERVICE}")


async def test_a_provider_s_heartbeat_and_reverse_call(world):
    provider = await world.provider()
    consumer = await world.serve(provider)
    await consumer.call()
    link = provider.links[0]
    link.frames.clear()
    link.send(heartbeat(9), request(10))
    first, second = await link.next_frame(), await link.next_frame()
    assert first.raw == heartbeat_reply(9)
    assert (second.status, second.number) == (40, 10)


async def test_a_silent_provider_is_asked_and_given_up(worlds):
    upstream = Upstream(heartbeat=Duration(0.1), reconnect_after=Duration(0.3))
    world = await worlds(upstream=upstream)
    provider = await world.provider()
    consumer = await world.serve(provider)
    await consumer.call()
    await eventually(lambda: len(provider.events) >= 3)
    assert len(provider.open_links) == 1, "an answered heartbeat keeps the connection"
    provider.links[0].transport.pause_reading()
    await eventually(lambda: world.count("sidecar_upstream_closed_total", "dead") == 1)
    assert (await consumer.call()).status == 20
    provider.links[0].transport.resume_reading()


async def test_garbage_from_either_side_ends_that_connection_only(world):
    provider = await world.provider()
    consumer = await world.serve(provider)
    bad = await world.consumer()
    bad.send(b"GET / HTTP/1.1\r\n\r\n")
    await bad.gone()
    provider.on_call = lambda link, call: link.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert (await consumer.call()).status == 35
    provider.on_call = None
    assert (await consumer.call()).status == 20


async def test_consumers_above_the_cap_are_turned_away(worlds, caplog):
    world = await worlds(limits=Limits(max_consumers=1))
    provider = await world.provider()
    first = await world.serve(provider)
    second = await world.consumer()
    await second.gone()
    assert (await first.call()).status == 20
    assert world.count("sidecar_consumers_closed_total", "too_many") == 1
    assert "more than 1 consumers; a new one is refused" in caplog.text


@pytest.mark.parametrize("connections", [1, 3])
async def test_many_calls_of_many_consumers(worlds, connections):
    world = await worlds(upstream=Upstream(connections=connections))
    providers = [await world.provider(f"p{n}") for n in range(3)]
    await world.serve(*providers)
    consumers = [await world.consumer() for _ in range(10)]
    for consumer in consumers:
        consumer.send(*[request(n, argument=str(n)) for n in range(100)])
    names = [(await consumer.reply_to(n)).value for consumer in consumers for n in range(100)]
    shares = {name: names.count(name) for name in set(names)}
    assert set(shares) == {"p0", "p1", "p2"}
    assert min(shares.values()) > 200
    assert all(len(each.links) <= connections for each in providers)
    await world.settled()
