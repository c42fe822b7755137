"""Frames that break the rules, and connections that never become one."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from sidecar.protocol.http2 import codes
from sidecar.settings.schema import Http2, Limits
from sidecar.settings.units import Duration
from sidecar.telemetry import names
from tests.fixtures import http2_peers as frames
from tests.fixtures.dubbo_frames import request
from tests.fixtures.dubbo_peer import eventually
from tests.fixtures.h2_peer import (
    BIG,
    CALL,
    OK,
    PATH,
    REPLY,
    RESPONSE,
    STREAM_WINDOW,
    Consumer,
    open_call,
)
from tests.fixtures.http2_peers import PREFACE, frame

SETTINGS = frame(frames.SETTINGS)
SHORT = 0.3  # s
# Makes the data plane look every 20 ms at what time asks for.
OFTEN = Limits(consumer_stall=Duration(0.08))


def window(stream_id: int, amount: int) -> bytes:
    return frame(frames.WINDOW_UPDATE, 0, stream_id, amount.to_bytes(4, "big"))


def settings(key: int, value: int) -> bytes:
    return frame(frames.SETTINGS, 0, 0, key.to_bytes(2, "big") + value.to_bytes(4, "big"))


async def is_ended(world: Any, consumer: Consumer, word: str, *codes: int) -> None:
    """The connection was closed for a reason that was told and counted; nothing is left of it."""
    await consumer.gone()
    assert [each[1] for each in consumer.goaways] == list(codes)
    await world.at_rest()
    await eventually(lambda: world.count(names.CONSUMERS_CLOSED.name, word) == 1)


# Errors of the connection. Stream 1 is a call under way, stream 3 one that was answered.
PROTOCOL, FLOW, CLOSED, SIZE, TABLE = (
    codes.PROTOCOL_ERROR,
    codes.FLOW_CONTROL_ERROR,
    codes.STREAM_CLOSED,
    codes.FRAME_SIZE_ERROR,
    codes.COMPRESSION_ERROR,
)
ERRORS: dict[str, tuple[bytes, int]] = {
    "data of the connection": (frame(frames.DATA, 0, 0, b"x"), PROTOCOL),
    "headers of the connection": (open_call(0), PROTOCOL),
    "reset of the connection": (frame(frames.RST_STREAM, 0, 0, bytes(4)), PROTOCOL),
    "continuation of nothing": (frame(frames.CONTINUATION, 4, 1, b""), PROTOCOL),
    "settings of a stream": (frame(frames.SETTINGS, 0, 1), PROTOCOL),
    "ping of a stream": (frame(frames.PING, 0, 1, bytes(8)), PROTOCOL),
    "goaway of a stream": (frame(frames.GOAWAY, 0, 1, bytes(8)), PROTOCOL),
    "data of an idle stream": (frame(frames.DATA, 0, 99, b"x"), PROTOCOL),
    "reset of an idle stream": (frame(frames.RST_STREAM, 0, 99, bytes(4)), PROTOCOL),
    "window of an idle stream": (window(99, 1), PROTOCOL),
    "headers of an even stream": (open_call(8), PROTOCOL),
    "a promise": (frame(frames.PUSH_PROMISE, 4, 1, b"\0\0\0\2" + CALL), PROTOCOL),
    "headers between the pieces": (open_call(5, 0) + open_call(7), PROTOCOL),
    "data between the pieces": (open_call(5, 0) + frame(frames.DATA, 0, 1, b"x"), PROTOCOL),
    "no window of a stream": (window(1, 0), PROTOCOL),
    "no window": (window(0, 0), PROTOCOL),
    "too much window of a stream": (window(1, BIG), FLOW),
    "too much window": (window(0, BIG), FLOW),
    "windows too large": (settings(STREAM_WINDOW, BIG + 1), FLOW),
    "frames too large": (settings(5, 1), PROTOCOL),
    "push neither on nor off": (settings(2, 2), PROTOCOL),
    "settings too short": (frame(frames.SETTINGS, 0, 0, b"\0\3\0"), SIZE),
    "an acknowledgement with settings": (frame(frames.SETTINGS, 1, 0, bytes(6)), SIZE),
    "an acknowledgement of nothing": (frame(frames.SETTINGS, 1), PROTOCOL),
    "a short ping": (frame(frames.PING, 0, 0, bytes(7)), SIZE),
    "a short reset": (frame(frames.RST_STREAM, 0, 1, bytes(3)), SIZE),
    "a short window": (frame(frames.WINDOW_UPDATE, 0, 1, bytes(3)), SIZE),
    "a frame too large": (frame(frames.DATA, 0, 1, bytes(16_385)), SIZE),
    "more padding than frame": (frame(frames.DATA, frames.PADDED, 1, b"\xff"), PROTOCOL),
    "headers that cannot be decoded": (frame(frames.HEADERS, 4, 5, b"\xff" * 9), TABLE),
    "a table that was never allowed": (frame(frames.HEADERS, 4, 5, b"\x3f\xff\xff\x7f"), TABLE),
    "data after the end": (frame(frames.DATA, 0, 3, b"x"), CLOSED),
    "headers after the end": (open_call(3), CLOSED),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_ends_the_connection_and_its_calls(h2_world: Any, name: str) -> None:
    provider = await h2_world.h2_provider()
    provider.on_end = lambda link, stream: None
    other = await h2_world.h2_serve(provider)
    theirs = other.request()
    consumer = await h2_world.h2_consumer()
    consumer.request(end=False)
    ended = consumer.request()
    await eventually(lambda: len(provider.calls) == 3)
    assert not ended.is_over
    data, code = ERRORS[name]
    consumer.send(data)
    await consumer.gone()
    assert [each[1] for each in consumer.goaways] == [code]
    cancelled = [each for each in provider.calls if each.id != theirs.id]
    await eventually(lambda: all(each.reset == codes.CANCEL for each in cancelled))
    (link,) = provider.links
    (call,) = [each for each in provider.calls if each.reset is None]
    provider.answer(link, call)
    assert (await other.answer(theirs)).status == 0
    await h2_world.at_rest()
    await eventually(lambda: h2_world.count(names.CONSUMERS_CLOSED.name, "protocol") == 1)


async def test_what_is_allowed_although_it_is_odd(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    assert (await consumer.call()).status == 0
    consumer.send(
        frame(0x77, 0xFF, 0, b"unknown"),
        frame(0x77, 0xFF, 99, b"unknown"),
        settings(0x7777, 1),
        frame(frames.PRIORITY, 0, 0, bytes(5)),  # RFC 9113 wants to hear nothing of priorities
        frame(frames.PRIORITY, 0, 77, bytes(5)),
        frame(frames.PRIORITY, 0, 1, b"\0\0\0\1\0"),
        window(1, 5),  # of a stream that is over
        frame(frames.RST_STREAM, 0, 1, bytes(4)),
        frame(frames.PING, frames.ACK, 0, b"not ours"),
    )
    assert (await consumer.call()).status == 0


async def test_more_than_the_window_allows(h2_world: Any) -> None:
    """A sender that ignores its window is ended before much is kept."""
    provider = await h2_world.h2_provider(returns_window=False)
    consumer = await h2_world.h2_serve(provider)
    consumer.request(end=False)
    await consumer.pong()
    for _ in range(100):
        consumer.data(1, bytes(16_384))
        await consumer.drain()
    await consumer.gone()
    assert [each[1] for each in consumer.goaways] == [codes.FLOW_CONTROL_ERROR]
    await h2_world.at_rest()


# Handshakes

GARBAGE = {
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "dubbo": request(1),
    "zeros": bytes(1000),
    "noise": random.Random(7).randbytes(1000),
    "almost a preface": PREFACE[:-1] + b"x" + SETTINGS,
    "no settings": PREFACE + frame(frames.PING, 0, 0, bytes(8)),
    "no preface": SETTINGS + open_call(1),
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_garbage_instead_of_http2(h2_world: Any, name: str) -> None:
    other = await h2_world.h2_serve(await h2_world.h2_provider())
    consumer = await h2_world.h2_consumer(is_silent=True)
    consumer.send(GARBAGE[name])
    await consumer.gone()
    assert [each[1] for each in consumer.goaways] in ([codes.PROTOCOL_ERROR], [])
    assert (await other.call()).status == 0


@pytest.mark.parametrize("cut", range(len(PREFACE) + 1))
async def test_a_preface_in_two_pieces(h2_world: Any, cut: int) -> None:
    consumer = await h2_world.h2_serve(await h2_world.h2_provider(), is_silent=True)
    hello = PREFACE + SETTINGS
    consumer.send(hello[:cut])
    await asyncio.sleep(0.001)
    consumer.send(hello[cut:])
    assert (await consumer.call()).status == 0


async def test_a_call_byte_by_byte(h2_world: Any) -> None:
    consumer = await h2_world.h2_serve(await h2_world.h2_provider(), is_silent=True)
    stream = consumer.stream(1)
    for byte in PREFACE + SETTINGS + open_call(1) + frame(frames.DATA, 1, 1, REPLY):
        consumer.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await consumer.answer(stream)).status == 0
    assert bytes(stream.body) == REPLY


async def test_a_call_in_the_first_packet(h2_world: Any) -> None:
    """Nothing has to wait for the settings of the other end."""
    consumer = await h2_world.h2_serve(await h2_world.h2_provider(), is_silent=True)
    stream = consumer.stream(1)
    consumer.send(PREFACE + SETTINGS + open_call(1) + frame(frames.DATA, 1, 1, REPLY))
    assert (await consumer.answer(stream)).status == 0


# Before the preface is whole it cannot be told that the consumer speaks HTTP/2.
CALM = codes.ENHANCE_YOUR_CALM
SLOW = [(b"", []), (PREFACE[:5], []), (PREFACE, [CALM]), (PREFACE + SETTINGS[:4], [CALM])]


@pytest.mark.parametrize(("sent", "told"), SLOW)
async def test_a_handshake_that_never_ends(h2_worlds: Any, sent: bytes, told: list[int]) -> None:
    world = await h2_worlds(http2=Http2(slow_header=Duration(SHORT)), limits=OFTEN)
    consumer = await world.h2_serve(await world.h2_provider(), is_silent=True)
    consumer.send(sent)
    await is_ended(world, consumer, "slow_handshake", *told)


@pytest.mark.parametrize("cut", [9, 30])
async def test_a_header_list_that_never_ends(h2_worlds: Any, cut: int) -> None:
    """It does not help to send a byte now and then."""
    world = await h2_worlds(http2=Http2(slow_header=Duration(SHORT)), limits=OFTEN)
    consumer = await world.h2_serve(await world.h2_provider())
    assert (await consumer.call()).status == 0
    consumer.send(open_call(consumer.take_id())[:cut])
    await asyncio.sleep(SHORT / 2)
    consumer.send(open_call(1)[cut : cut + 1])
    await is_ended(world, consumer, "slow_header", codes.ENHANCE_YOUR_CALM)


async def test_a_header_list_in_frames_that_never_end(h2_worlds: Any) -> None:
    world = await h2_worlds(http2=Http2(slow_header=Duration(SHORT)), limits=OFTEN)
    consumer = await world.h2_serve(await world.h2_provider())
    assert (await consumer.call()).status == 0
    consumer.send(open_call(consumer.take_id(), 0))
    await is_ended(world, consumer, "slow_header", codes.ENHANCE_YOUR_CALM)


async def test_a_connection_without_streams_is_idle(h2_worlds: Any) -> None:
    world = await h2_worlds(http2=Http2(idle=Duration(SHORT)), limits=OFTEN)
    provider = await world.h2_provider()
    provider.on_end = lambda link, stream: None
    consumer = await world.h2_serve(provider)
    busy = await world.h2_consumer()
    stream = busy.request()
    await consumer.gone()
    assert consumer.goaways == [(BIG, 0), (0, 0)]
    await eventually(lambda: world.count(names.CONSUMERS_CLOSED.name, "idle") == 1)
    assert world.plane.inflight == 1
    provider.answer(provider.links[0], provider.calls[0])
    assert (await busy.answer(stream)).status == 0
    await busy.gone()
    await eventually(lambda: world.count(names.CONSUMERS_CLOSED.name, "idle") == 2)


# Consumers that leave


async def test_a_goaway_of_a_consumer_ends_no_call(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    provider.on_end = provider.begin
    consumer = await h2_world.h2_serve(provider)
    streams = [consumer.request() for _ in range(3)]
    await consumer.until(lambda: all(each.size for each in streams))
    consumer.goaway(0)
    await consumer.pong()
    for call in provider.calls:
        provider.links[0].data(call.id, REPLY)
        provider.links[0].head(call.id, OK, end=True)
    for stream in streams:
        assert (await consumer.answer(stream)).status == 0
        assert bytes(stream.body) == 2 * REPLY
    consumer.close()
    await h2_world.at_rest()
    assert h2_world.outcomes() == {"ok": 3}


@pytest.mark.parametrize("way", ["close", "abort", "half"])
async def test_a_consumer_that_goes_cancels_its_calls(h2_world: Any, way: str) -> None:
    """Before they were sent, before their answer, in the middle of it, in the middle of asking."""
    provider = await h2_world.h2_provider()
    provider.on_head = lambda link, stream: link.head(stream.id, RESPONSE)
    provider.on_end = lambda link, stream: link.data(stream.id, REPLY)
    consumer = await h2_world.h2_serve(provider)
    consumer.request(end=False)
    consumer.request()
    await consumer.until(lambda: consumer.streams[3].size)
    h2_world.services.watch("com.x.Late:1.0.0")
    consumer.request(path=b"/com.x.Late/hi")
    await consumer.pong()
    assert h2_world.plane.waiting == 1
    {"close": consumer.close, "abort": consumer.abort, "half": consumer.transport.write_eof}[way]()
    await h2_world.at_rest()
    await eventually(lambda: [each.reset for each in provider.calls] == [codes.CANCEL] * 2)
    assert len(provider.open_links) == 1
    assert {dict(each.headers)[b":path"] for each in provider.calls} == {PATH}
