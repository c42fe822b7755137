"""Providers that leave, refuse, break off, or speak something else."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Any

import pytest

from sidecar.model.protocol import TRIPLE
from sidecar.protocol.http2 import codes
from sidecar.settings.schema import Timeouts, Upstream
from sidecar.settings.units import Duration
from sidecar.telemetry import names
from tests.fixtures import http2_peers as frames
from tests.fixtures.dubbo_peer import eventually
from tests.fixtures.h2_peer import (
    BIG,
    MAX_STREAMS,
    OK,
    REPLY,
    RESPONSE,
    STREAM_WINDOW,
    Peer,
    Provider,
    Stream,
)
from tests.fixtures.http2_peers import frame

INTERNAL, UNAVAILABLE, CANCELLED, DEADLINE, EXHAUSTED = 13, 14, 1, 4, 8


def mute(link: Peer, stream: Stream) -> None:
    """Answer nothing."""


async def heard(provider: Provider, count: int) -> None:
    await eventually(lambda: len(provider.calls) >= count)


# GOAWAY


@pytest.mark.parametrize("alone", [True, False])
async def test_fc_68_a_goaway_in_two_steps(h2_world: Any, alone: bool) -> None:
    leaver = await h2_world.h2_provider()
    leaver.on_end = mute
    consumer = await h2_world.h2_serve(leaver)
    streams = [consumer.request() for _ in range(3)]
    await heard(leaver, 3)
    first, third, fifth = leaver.calls
    assert [first.id, third.id, fifth.id] == [1, 3, 5]
    (link,) = leaver.links
    other = leaver if alone else await h2_world.h2_provider()
    if not alone:
        h2_world.publish(leaver.port, other.port)
    leaver.on_end = other.on_end = lambda link, stream: other.answer(link, stream, b"new")
    link.goaway(BIG)
    await link.pong()
    for _ in range(5):
        answer = await consumer.call()
        assert (answer.status, bytes(answer.body)) == (0, b"new")
    assert link.heads == 3
    link.goaway(3)
    leaver.answer(link, first)
    leaver.answer(link, third)
    moved = [await consumer.answer(each) for each in streams]
    assert [each.status for each in moved] == [0, 0, 0]
    assert [bytes(each.body) for each in moved] == [REPLY, REPLY, b"new"]
    await link.gone()
    assert link.heads == 3
    await h2_world.at_rest()
    assert h2_world.count(names.RETRIES.name, "refused") == 1
    assert h2_world.count(names.UPSTREAM_CLOSED.name, "left") == 1
    assert h2_world.outcomes() == {"ok": 8}


async def test_fc_68_a_call_that_cannot_be_sent_again(h2_world: Any) -> None:
    """One is answered in part, one has sent more than is kept."""
    leaver = await h2_world.h2_provider()
    leaver.on_head = lambda link, stream: link.head(stream.id, RESPONSE) if stream.id == 1 else None
    leaver.on_end = mute
    consumer = await h2_world.h2_serve(leaver)
    begun = consumer.request()
    large = consumer.request(body=None, end=False)
    await consumer.stream_body(large.id, bytes(100_000))
    await eventually(lambda: len(leaver.calls) == 2 and leaver.calls[1].size == 100_000)
    leaver.links[0].goaway(0)
    for stream in (begun, large):
        assert (await consumer.answer(stream)).status == UNAVAILABLE
    consumer.reset(large.id)
    await h2_world.at_rest()
    assert h2_world.count(names.RETRIES.name, "refused") == 0


async def test_a_stream_in_the_making_is_sent_again_with_what_follows(h2_world: Any) -> None:
    """A client stream of which half was sent goes on at another instance."""
    leaver = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(leaver)
    stream = consumer.request(body=b"one", end=False)
    await eventually(lambda: leaver.calls and leaver.calls[0].size == 3)
    other = await h2_world.h2_provider()
    h2_world.publish(other.port)
    leaver.links[0].goaway(0)
    await heard(other, 1)
    consumer.data(stream.id, b"two", end=True)
    assert (await consumer.answer(stream)).status == 0
    assert bytes(other.calls[0].body) == b"onetwo"
    await h2_world.at_rest()


async def test_a_goaway_on_each_new_connection(h2_world: Any) -> None:
    """Calls end, and the provider is not dialled without a pause."""
    provider = await h2_world.h2_provider()
    provider.on_connect = lambda link: link.goaway(0)
    consumer = await h2_world.h2_serve(provider)
    answers = await asyncio.gather(*[consumer.call() for _ in range(20)])
    assert {each.status for each in answers} == {UNAVAILABLE}
    await h2_world.at_rest()
    count = len(provider.links)
    await asyncio.sleep(0.3)
    assert len(provider.links) <= count + 20


async def test_a_goaway_with_a_complaint(h2_world: Any) -> None:
    """A provider that finds us too busy ends its connection; a new one is used."""
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    assert (await consumer.call()).status == 0
    provider.links[0].goaway(1, codes.ENHANCE_YOUR_CALM)
    provider.links[0].close()
    await h2_world.at_rest()
    assert (await consumer.call()).status == 0
    assert len(provider.links) == 2


async def test_a_goaway_without_an_end(h2_world: Any) -> None:
    """A provider that leaves but never closes: we do, when its last stream is over."""
    provider = await h2_world.h2_provider()
    provider.on_end = mute
    consumer = await h2_world.h2_serve(provider)
    stream = consumer.request()
    await heard(provider, 1)
    (link,) = provider.links
    link.goaway(1)
    provider.answer(link, provider.calls[0])
    assert (await consumer.answer(stream)).status == 0
    await link.gone()


# Refusals


async def test_a_stream_that_is_refused_everywhere(h2_world: Any) -> None:
    providers = [await h2_world.h2_provider() for _ in range(3)]
    for provider in providers:
        provider.on_head = lambda link, stream: link.reset(stream.id, codes.REFUSED_STREAM)
    consumer = await h2_world.h2_serve(*providers)
    assert (await consumer.call()).status == UNAVAILABLE
    assert sum(len(each.calls) for each in providers) <= 8
    assert all(each.calls for each in providers)
    await h2_world.at_rest()


async def test_one_that_refuses_all(h2_world: Any) -> None:
    refuser, other = await h2_world.h2_provider(), await h2_world.h2_provider()
    refuser.on_head = lambda link, stream: link.reset(stream.id, codes.REFUSED_STREAM)
    consumer = await h2_world.h2_serve(refuser, other)
    answers = await asyncio.gather(*[consumer.call() for _ in range(300)])
    assert {each.status for each in answers} == {0}
    assert refuser.calls
    assert refuser.open_links == refuser.links  # no connection is blamed, however many there are
    assert h2_world.count(names.RETRIES.name, "refused") == len(refuser.calls)


# Resets and lost connections, in each phase of an answer


def nothing(link: Peer, stream: Stream) -> None:
    pass


def the_head(link: Peer, stream: Stream) -> None:
    link.head(stream.id, RESPONSE)


def half_a_message(link: Peer, stream: Stream) -> None:
    the_head(link, stream)
    link.data(stream.id, REPLY[:3])


def a_message(link: Peer, stream: Stream) -> None:
    the_head(link, stream)
    link.data(stream.id, REPLY)


PHASES = [nothing, the_head, half_a_message, a_message]
RESETS = {
    codes.NO_ERROR: INTERNAL,
    codes.PROTOCOL_ERROR: INTERNAL,
    codes.INTERNAL_ERROR: INTERNAL,
    codes.CANCEL: CANCELLED,
    codes.ENHANCE_YOUR_CALM: EXHAUSTED,
}


@pytest.mark.parametrize("code", RESETS)
@pytest.mark.parametrize("phase", PHASES)
async def test_fc_69_a_reset(h2_world: Any, phase: Any, code: int) -> None:
    provider = await h2_world.h2_provider()

    def answer(link: Peer, stream: Stream) -> None:
        phase(link, stream)
        link.reset(stream.id, code)

    provider.on_end = answer
    consumer = await h2_world.h2_serve(provider)
    ended = await consumer.call()
    assert ended.status == RESETS[code]
    assert ended.token == "STREAM_RESET"
    assert REPLY.startswith(bytes(ended.body))
    assert bool(ended.trailers) == (phase is not nothing)
    provider.on_end = provider.answer
    assert (await consumer.call()).status == 0
    assert len(provider.links) == 1
    await h2_world.at_rest()
    assert h2_world.outcomes() == {"provider_error": 1, "ok": 1}


@pytest.mark.parametrize("way", ["close", "abort"])
@pytest.mark.parametrize("phase", PHASES)
async def test_fc_69_a_connection_that_is_lost(h2_world: Any, phase: Any, way: str) -> None:
    provider = await h2_world.h2_provider()

    def answer(link: Peer, stream: Stream) -> None:
        phase(link, stream)
        asyncio.get_running_loop().call_later(0.01, getattr(link, way))

    provider.on_end = answer
    consumer = await h2_world.h2_serve(provider)
    ended = await consumer.call()
    assert ended.status == UNAVAILABLE
    assert ended.token == "CONNECTION_LOST"
    assert REPLY.startswith(bytes(ended.body))
    await h2_world.at_rest()
    provider.on_end = provider.answer
    assert (await consumer.call()).status == 0
    assert len(provider.links) == 2
    assert h2_world.count(names.UPSTREAM_CLOSED.name, "peer") == 1


@pytest.mark.parametrize("way", ["close", "abort"])
async def test_a_connection_that_is_lost_after_the_answer(h2_world: Any, way: str) -> None:
    provider = await h2_world.h2_provider()

    def answer(link: Peer, stream: Stream) -> None:
        provider.answer(link, stream)
        asyncio.get_running_loop().call_later(0.01, getattr(link, way))

    provider.on_end = answer
    consumer = await h2_world.h2_serve(provider)
    for _ in range(3):
        assert (await consumer.call()).status == 0
        await eventually(lambda: not provider.open_links)
        await h2_world.at_rest()


async def test_a_connection_that_is_lost_with_many_calls(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    provider.on_end = mute
    consumer = await h2_world.h2_serve(provider)
    streams = [consumer.request() for _ in range(1000)]
    await heard(provider, 1000)
    provider.links[0].abort()
    for stream in streams:
        assert (await consumer.answer(stream)).status == UNAVAILABLE
    await h2_world.at_rest()
    assert h2_world.outcomes() == {"connection_lost": 1000}


# Answers that are none


def answers(*parts: bytes | list[tuple[bytes, bytes]], end: bool = True) -> Any:
    """Make an ``on_end`` that sends heads and bodies in turn; the last one ends the stream."""

    def answer(link: Peer, stream: Stream) -> None:
        for number, part in enumerate(parts):
            is_end = end and number == len(parts) - 1
            send = link.data if isinstance(part, bytes) else link.head
            send(stream.id, part, is_end)  # type: ignore[operator]

    return answer


GRPC = RESPONSE[1]
NOT_FOUND = [*RESPONSE, (b"grpc-status", b"5"), (b"grpc-message", b"no%20such")]
ANSWERS: dict[str, tuple[Any, int, str]] = {
    "trailers only": (answers(NOT_FOUND), 5, "business_error"),
    "no trailers": (answers(RESPONSE, REPLY), INTERNAL, "provider_error"),
    "no trailers, empty end": (answers(RESPONSE, REPLY, b""), INTERNAL, "provider_error"),
    "no status in trailers": (answers(RESPONSE, [(b"x", b"y")]), INTERNAL, "provider_error"),
    "no status in the only head": (answers(RESPONSE), INTERNAL, "provider_error"),
    "http 503": (
        answers([(b":status", b"503"), (b"content-type", b"text/plain")], b"sorry"),
        UNAVAILABLE,
        "provider_error",
    ),
    "http 404": (answers([(b":status", b"404")]), 12, "provider_error"),
    "trailers without a head": (answers(OK), INTERNAL, "provider_error"),
    "a head without status": (answers([GRPC], REPLY, OK), INTERNAL, "provider_error"),
    "two heads": (answers(RESPONSE, RESPONSE, OK), INTERNAL, "provider_error"),
    "longer than announced": (
        answers([*RESPONSE, (b"content-length", b"2")], REPLY, OK),
        INTERNAL,
        "provider_error",
    ),
    "an upper case name": (answers([*RESPONSE, (b"X-A", b"b")], REPLY), INTERNAL, "provider_error"),
    "hop by hop": (answers([*RESPONSE, (b"connection", b"x")]), INTERNAL, "provider_error"),
    "switching protocols": (answers([(b":status", b"101")]), INTERNAL, "provider_error"),
    "a status that is no number": (
        answers([*RESPONSE, (b"grpc-status", b"ok")]),
        -1,
        "business_error",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_fc_69_an_answer_that_is_none(h2_world: Any, name: str) -> None:
    provider = await h2_world.h2_provider()
    script, status, outcome = ANSWERS[name]
    provider.on_end = script
    consumer = await h2_world.h2_serve(provider)
    answer = await consumer.call()
    assert answer.status == status, answer.message
    provider.on_end = provider.answer
    assert (await consumer.call()).status == 0
    assert len(provider.links) == 1
    await h2_world.at_rest()
    assert h2_world.outcomes() == {outcome: 1, "ok": 1}


async def test_fc_69_trailers_only_stay_one_frame(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    provider.on_end = answers(NOT_FOUND)
    consumer = await h2_world.h2_serve(provider)
    answer = await consumer.call()
    assert answer.kinds == [frames.HEADERS]
    assert answer.headers == NOT_FOUND


async def test_fc_69_a_local_error_is_one_frame(h2_world: Any) -> None:
    h2_world.publish()
    consumer = await h2_world.h2_consumer()
    answer = await consumer.call()
    assert answer.kinds == [frames.HEADERS]
    assert answer.headers[:2] == [
        (b":status", b"200"),
        (b"content-type", b"application/grpc+proto"),
    ]
    assert answer.status == UNAVAILABLE
    assert answer.message.isascii()
    assert answer.token == "EMPTY_REGISTRY"


async def test_an_answer_before_the_request_has_ended(h2_world: Any) -> None:
    """It arrives whole; then both ends are told that nothing more is wanted."""
    provider = await h2_world.h2_provider()
    provider.on_head = provider.answer
    consumer = await h2_world.h2_serve(provider)
    stream = consumer.request(end=False)
    await consumer.until(lambda: stream.reset is not None)
    assert (stream.status, bytes(stream.body), stream.reset) == (0, REPLY, codes.NO_ERROR)
    await eventually(lambda: provider.calls[0].reset == codes.NO_ERROR)
    consumer.data(stream.id, bytes(10_000))  # was on its way
    assert consumer.window == 65_535 + 16 * 2**20 - 65_535 - len(REPLY) - 10_000
    provider.on_head = mute
    assert (await consumer.call()).status == 0
    await h2_world.at_rest()


async def test_informational_heads_pass(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    hints = [(b":status", b"103"), (b"link", b"x")]

    def answer(link: Peer, stream: Stream) -> None:
        link.head(stream.id, [(b":status", b"100")])
        link.head(stream.id, hints)
        provider.answer(link, stream)

    provider.on_end = answer
    consumer = await h2_world.h2_serve(provider)
    stream = await consumer.call()
    assert (stream.status, stream.informational) == (0, [[(b":status", b"100")], hints])


async def test_informational_heads_without_end(h2_world: Any) -> None:
    """They are bound by no window, so few of them are passed on."""
    provider = await h2_world.h2_provider()
    hints = [(b":status", b"103"), (b"link", b"x" * 1000)]
    provider.on_end = mute
    consumer = await h2_world.h2_serve(provider)
    stream = consumer.request()
    await heard(provider, 1)
    (link,) = provider.links
    for _ in range(1000):
        link.head(1, hints)
        await link.drain()
    provider.answer(link, provider.calls[0])
    assert (await consumer.answer(stream)).status == 0
    assert 1 <= len(stream.informational) <= 100
    await h2_world.at_rest()


# What providers announce


async def test_no_streams_at_all(h2_worlds: Any) -> None:
    """Calls wait for a stream as long as they may."""
    world = await h2_worlds()
    provider = await world.h2_provider(settings={MAX_STREAMS: 0})
    consumer = await world.h2_serve(provider)
    await consumer.call(metadata=[(b"grpc-timeout", b"50m")])
    answer = await consumer.call(metadata=[(b"grpc-timeout", b"100m")])
    assert answer.status == DEADLINE
    waiting = consumer.request()
    await consumer.pong()
    for link in provider.links:
        link.announce({MAX_STREAMS: 1})
    assert (await consumer.answer(waiting)).status == 0
    assert len(provider.links) <= world.settings.upstream.max_connections
    await world.at_rest()


async def test_one_stream_at_a_time(h2_world: Any) -> None:
    provider = await h2_world.h2_provider(settings={MAX_STREAMS: 1})
    consumer = await h2_world.h2_serve(provider)
    answers = await asyncio.gather(*[consumer.call() for _ in range(100)])
    assert {each.status for each in answers} == {0}
    assert len(provider.links) <= h2_world.settings.upstream.max_connections
    await h2_world.at_rest()


async def test_fewer_streams_later(h2_world: Any) -> None:
    """Those that are open go on; the limit is kept from then on, over all connections."""
    provider = await h2_world.h2_provider()
    provider.on_end = mute
    consumer = await h2_world.h2_serve(provider)
    streams = [consumer.request() for _ in range(20)]
    await heard(provider, 20)
    (link,) = provider.links
    link.announce({MAX_STREAMS: 2})
    await link.pong()
    provider.script = {"settings": {MAX_STREAMS: 2}}
    most = 2 * h2_world.settings.upstream.max_connections
    more = [consumer.request() for _ in range(30)]
    await consumer.pong()
    await asyncio.sleep(0.05)
    assert link.heads == 20
    assert len(provider.calls) <= 20 + most
    provider.on_end = provider.answer
    for each in provider.links:
        for call in list(each.streams.values()):
            provider.answer(each, call)
    for stream in (*streams, *more):
        assert (await consumer.answer(stream)).status == 0
    await h2_world.at_rest()


async def test_a_tiny_window(h2_world: Any) -> None:
    provider = await h2_world.h2_provider(settings={STREAM_WINDOW: 1})
    consumer = await h2_world.h2_serve(provider)
    body = bytes(range(200))
    assert (await consumer.call(body=body)).status == 0
    # The first call may be under way before the window is known.
    assert (await consumer.call(body=body)).status == 0
    assert [bytes(each.body) for each in provider.calls] == [body, body]
    await h2_world.at_rest()


async def test_a_window_below_zero(h2_world: Any) -> None:
    provider = await h2_world.h2_provider(returns_window=False)
    consumer = await h2_world.h2_serve(provider)
    stream = consumer.request(body=None, end=False)
    await consumer.stream_body(stream.id, bytes(60_000))
    await eventually(lambda: provider.calls and provider.calls[0].size == 60_000)
    (link,) = provider.links
    link.announce({STREAM_WINDOW: 1000})  # now it is 59,000 below zero
    await link.pong()
    consumer.data(stream.id, b"x" * 3000, end=True)
    await consumer.pong()
    assert provider.calls[0].size == 60_000
    link.open_window(0, 1 << 20)
    link.open_window(stream.id, 59_000)
    await link.pong()
    assert provider.calls[0].size == 60_000
    link.open_window(stream.id, 3000)
    assert (await consumer.answer(stream)).status == 0
    assert provider.calls[0].size == 63_000
    await h2_world.at_rest()


async def test_a_promise_is_refused(h2_world: Any) -> None:
    """Before our settings are acknowledged it is no error; afterwards it is one."""
    provider = await h2_world.h2_provider(is_silent=True, returns_window=False)
    provider.on_connect = lambda link: link.announce({})
    provider.on_end = mute
    promise = frame(frames.PUSH_PROMISE, 4, 1, b"\0\0\0\2" + frames.BLOCK)
    consumer = await h2_world.h2_serve(provider)
    stream = consumer.request()
    await heard(provider, 1)
    (link,) = provider.links
    link.send(promise)
    await link.until(lambda: link.stream(2).reset == codes.CANCEL)
    assert not stream.is_over
    link.send(frame(frames.SETTINGS, frames.ACK), promise)
    assert (await consumer.answer(stream)).status == UNAVAILABLE
    assert link.goaways[0][1] == codes.PROTOCOL_ERROR
    await h2_world.at_rest()


# Something else at that address


GARBAGE = {
    "http/1.1": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    "dubbo": bytes.fromhex("dabb22140000000000000007000000014e"),
    "tls": b"\x15\x03\x01\x00\x02\x02\x46" * 2,
    "zeros": bytes(100),
    "noise": bytes(range(200, 256)) * 10,
    "no settings first": frame(frames.PING, 0, 0, bytes(8)),
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_something_else_at_that_address(h2_world: Any, name: str) -> None:
    """No call is sent to it, so all go elsewhere; alone it is out of reach."""
    wrong = await h2_world.h2_provider(is_silent=True, returns_window=False)
    good = await h2_world.h2_provider()
    wrong.on_connect = lambda link: link.send(GARBAGE[name])
    consumer = await h2_world.h2_serve(wrong)
    answer = await consumer.call()
    assert (answer.status, answer.token) == (UNAVAILABLE, "CONNECT_FAILED"), answer.message
    assert h2_world.plane.connect_error(wrong.address) == "no HTTP/2 is spoken there"
    h2_world.publish(wrong.port, good.port)
    assert {(await consumer.call()).status for _ in range(20)} == {0}
    assert wrong.calls == []
    await h2_world.at_rest()
    assert h2_world.count(names.UPSTREAM_CLOSED.name, "protocol") >= 1
    assert h2_world.count(names.CONNECT_FAILURES.name) >= 1


@pytest.mark.parametrize("way", ["close", "abort"])
async def test_a_connection_that_ends_at_once(h2_world: Any, way: str) -> None:
    """As behind a load balancer that has nobody left."""
    wrong = await h2_world.h2_provider(is_silent=True, returns_window=False)
    good = await h2_world.h2_provider()
    wrong.on_connect = lambda link: getattr(link, way)()
    consumer = await h2_world.h2_serve(wrong, good)
    assert {(await consumer.call()).status for _ in range(20)} == {0}
    await h2_world.at_rest()
    assert h2_world.plane.connect_error(wrong.address) == "closed at once"


async def test_a_process_that_stands_still(h2_worlds: Any) -> None:
    """Its connections are accepted and nothing is ever said: calls go elsewhere after a while."""
    world = await h2_worlds(timeouts=Timeouts(connect=Duration(0.2)))
    still = await world.h2_provider(is_silent=True, returns_window=False)
    good = await world.h2_provider()
    consumer = await world.h2_serve(still)
    assert (await consumer.call()).token == "CONNECT_FAILED"
    assert world.plane.connect_error(still.address) == "timed out"
    world.publish(still.port, good.port)
    answers = await asyncio.gather(*[consumer.call() for _ in range(20)])
    assert {each.status for each in answers} == {0}
    assert still.calls == []
    await world.at_rest()
    await eventually(lambda: not still.open_links)


async def test_a_process_that_comes_to_a_stand(h2_worlds: Any) -> None:
    """Its calls end at their deadline, then its connection is given up."""
    world = await h2_worlds(
        upstream=Upstream(heartbeat=Duration(0.1), reconnect_after=Duration(0.3))
    )
    provider = await world.h2_provider(is_silent=True, returns_window=False)
    provider.on_connect = lambda link: link.announce({})
    provider.on_end = mute
    consumer = await world.h2_serve(provider)
    answer = await consumer.call(metadata=[(b"grpc-timeout", b"50m")])
    assert answer.status == DEADLINE
    lost = await consumer.call()
    assert (lost.status, lost.token) == (UNAVAILABLE, "CONNECTION_LOST")
    await world.at_rest()
    assert world.count(names.UPSTREAM_CLOSED.name, "dead") == 1


ERRORS = {
    "a body without a head": frame(frames.DATA, 0, 1, REPLY),
    "a stream of its own": frames.open_stream(2),
    "an idle stream": frame(frames.HEADERS, 5, 99, b"\x88"),
    "data of the connection": frame(frames.DATA, 0, 0, b"x"),
    "no window": frame(frames.WINDOW_UPDATE, 0, 0, bytes(4)),
    "undecodable": frame(frames.HEADERS, 4, 1, b"\xff" * 9),
    "a frame too large": frame(frames.DATA, 0, 1, bytes(16_385)),
    "noise": bytes(range(200, 256)) * 10,
}


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_ends_the_connection_and_its_calls(h2_world: Any, name: str) -> None:
    provider, other = await h2_world.h2_provider(), await h2_world.h2_provider()
    provider.on_end = mute
    consumer = await h2_world.h2_serve(provider)
    h2_world.services.publish(
        other.port, service="com.x.Other:1.0.0", protocol="tri", protocols=TRIPLE
    )
    other.on_end = mute
    streams = [consumer.request() for _ in range(3)]
    theirs = consumer.request(path=b"/com.x.Other/hi")
    await heard(provider, 3)
    await heard(other, 1)
    provider.links[0].send(ERRORS[name])
    for stream in streams:
        ended = await consumer.answer(stream)
        assert (ended.status, ended.token) == (UNAVAILABLE, "CONNECTION_LOST")
    other.answer(other.links[0], other.calls[0])
    assert (await consumer.answer(theirs)).status == 0
    provider.on_end = provider.answer
    assert (await consumer.call()).status == 0
    await h2_world.at_rest()
    assert h2_world.count(names.UPSTREAM_CLOSED.name, "protocol") == 1


async def test_a_connection_that_is_never_accepted(h2_worlds: Any) -> None:
    """The calls that wait for it go elsewhere when the time to connect is over."""
    world = await h2_worlds(timeouts=Timeouts(connect=Duration(0.2)))
    good = await world.h2_provider()
    with socket.socket() as trap:
        trap.bind(("127.0.0.1", 0))
        trap.listen(0)
        port = trap.getsockname()[1]
        fillers = [socket.socket() for _ in range(2)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        consumer = await world.h2_consumer()
        world.publish(port)
        assert (await consumer.call()).token == "CONNECT_FAILED"
        world.publish(port, good.port)
        answers = await asyncio.gather(*[consumer.call() for _ in range(20)])
        assert {each.status for each in answers} == {0}
        for filler in fillers:
            filler.close()
    assert world.count(names.CONNECT_FAILURES.name) >= 1


# Floods


async def flooded(world: Any, piece: bytes, count: int = 20_000) -> str:
    """Have a provider send something without end beside a call; return how that call ended."""
    provider = await world.h2_provider()
    provider.on_end = mute
    consumer = await world.h2_serve(provider)
    stream = consumer.request()
    await heard(provider, 1)
    (link,) = provider.links
    link.head(1, RESPONSE)
    await link.pong()
    for _ in range(0, count, 100):
        link.send(piece * 100)
        await link.drain()
        if link.is_closed or link.has_eof:
            break
    await link.gone()
    assert (await consumer.answer(stream)).status == UNAVAILABLE
    provider.on_end = provider.answer
    assert (await consumer.call()).status == 0
    assert len(provider.links) == 2
    await world.at_rest()
    return str(stream.token)


FLOODS: dict[str, tuple[bytes, str]] = {
    "pings": (frame(frames.PING, 0, 0, bytes(8)), "control"),
    "settings": (frame(frames.SETTINGS), "control"),
    "windows": (frame(frames.WINDOW_UPDATE, 0, 0, b"\0\0\0\1"), "control"),
    "empty data": (frame(frames.DATA, 0, 1), "control"),
    "padding alone": (frame(frames.DATA, frames.PADDED, 1, b"\0"), "control"),
    "priorities": (frame(frames.PRIORITY, 0, 1, bytes(5)), "control"),
    "unknown": (frame(0x77, 0, 0, b"abc"), "control"),
    "goaways": (frame(frames.GOAWAY, 0, 0, BIG.to_bytes(4, "big") + bytes(4)), "control"),
}


@pytest.mark.parametrize("name", FLOODS)
async def test_a_flood_of_a_provider(h2_world: Any, name: str) -> None:
    piece, word = FLOODS[name]
    assert await flooded(h2_world, piece) == "CONNECTION_LOST"
    assert h2_world.count(names.UPSTREAM_CLOSED.name, word) == 1


async def test_resets_of_a_provider_that_nobody_asked_for(h2_world: Any) -> None:
    """It may reset what was opened on it, once."""
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    for _ in range(10):
        assert (await consumer.call()).status == 0
    (link,) = provider.links
    for _ in range(10):
        link.send(frame(frames.RST_STREAM, 0, 1, bytes(4)) * 100)
    await link.gone()
    await eventually(lambda: h2_world.count(names.UPSTREAM_CLOSED.name, "resets") == 1)
    assert (await consumer.call()).status == 0


PIECES = {
    "continuation": b"",
    "header_size": b"\0\1x\x7f\x81\x7c" + bytes([97]) * 16_000,
    "limit": b"\0\1x\x01y" * 3000,
}


@pytest.mark.parametrize("word", PIECES)
async def test_a_head_of_a_provider_without_end(h2_world: Any, word: str) -> None:
    provider = await h2_world.h2_provider()
    provider.on_end = mute
    consumer = await h2_world.h2_serve(provider)
    stream = consumer.request()
    await heard(provider, 1)
    (link,) = provider.links
    await link.pong()
    link.send(frame(frames.HEADERS, 0, 1, b"\x88"))
    for _ in range(100):
        link.send(frame(frames.CONTINUATION, 0, 1, PIECES[word]))
        await link.drain()
    assert (await consumer.answer(stream)).status == UNAVAILABLE
    await link.gone()
    await h2_world.at_rest()
    assert h2_world.count(names.UPSTREAM_CLOSED.name, word) == 1


async def test_more_than_the_window_allows(h2_world: Any) -> None:
    """A provider that ignores its window is given up before much is kept."""
    provider = await h2_world.h2_provider()
    provider.on_end = mute
    consumer = await h2_world.h2_serve(provider, returns_window=False)
    stream = consumer.request()
    await heard(provider, 1)
    (link,) = provider.links
    link.head(1, RESPONSE)
    for _ in range(200):
        link.data(1, bytes(16_384))
        await link.drain()
    await link.gone()
    consumer.open_window(0, 4 << 20)
    consumer.open_window(stream.id, 4 << 20)
    assert (await consumer.answer(stream)).status == UNAVAILABLE
    await h2_world.at_rest()
    assert h2_world.count(names.UPSTREAM_CLOSED.name, "protocol") == 1


async def test_a_provider_that_goes_on_after_a_cancel(h2_world: Any) -> None:
    """What it sends is thrown away and its window returned: others are not held up."""
    provider = await h2_world.h2_provider()
    provider.on_end = provider.begin
    consumer = await h2_world.h2_serve(provider)
    for _ in range(25):
        stream = consumer.request()
        await consumer.until(partial(bool, stream.body))
        consumer.reset(stream.id)
        (link,) = provider.links
        await link.until(lambda: provider.calls[-1].reset is not None)
        for _ in range(60):
            link.data(provider.calls[-1].id, bytes(16_384))
        await link.pong()
    assert link.window > 8 << 20  # 25 MiB were sent
    provider.on_end = provider.answer
    assert (await consumer.call()).status == 0
    await h2_world.at_rest()
