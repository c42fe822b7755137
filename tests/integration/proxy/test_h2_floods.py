"""What a consumer can do too much of: its connection is ended, and nobody else is hurt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sidecar.protocol.http2 import codes
from sidecar.settings.schema import Limits
from sidecar.telemetry import names
from tests.fixtures import http2_peers as frames
from tests.fixtures.dubbo_peer import eventually
from tests.fixtures.h2_peer import CALL, FRAME_SIZE, PATH, REPLY, Consumer, open_call
from tests.fixtures.http2_peers import frame

RESETS = 200
CONTROL_FRAMES = 1000
CANCEL = codes.CANCEL.to_bytes(4, "big")
CALM = codes.ENHANCE_YOUR_CALM

Piece = Callable[[int], bytes]


async def flood(consumer: Consumer, piece: Piece, count: int) -> int:
    """Send ``piece(stream id)`` so many times, or until the other end closes; return how often."""
    for sent in range(0, count, 100):
        if consumer.is_closed or consumer.has_eof:
            return sent
        consumer.send(*[piece(consumer.take_id()) for _ in range(100)])
        await consumer.drain()
    return count


@asynccontextmanager
async def bystander(world: Any) -> AsyncIterator[None]:
    """Have another consumer call all the while: no call fails, none takes long."""
    other = await world.h2_consumer()
    first = await other.call(path=b"/com.x.Demo/other")
    assert first.status == 0, first.message
    slowest = [0.0, 0.0]
    is_over = False

    async def call() -> None:
        while not is_over:
            began = time.perf_counter()
            assert (await other.call(path=b"/com.x.Demo/other")).status == 0
            slowest.append(time.perf_counter() - began)
            await asyncio.sleep(0.002)

    async with asyncio.TaskGroup() as group:
        group.create_task(call())
        try:
            yield
        finally:
            is_over = True
    assert max(slowest) < 0.5


async def is_ended(world: Any, consumer: Consumer, word: str, code: int = CALM) -> None:
    """The connection was closed for a reason that was told and counted; nothing is left of it."""
    await consumer.gone()
    assert [each[1] for each in consumer.goaways] == [code]
    await world.at_rest()
    await eventually(lambda: world.count(names.CONSUMERS_CLOSED.name, word) == 1)


def reset_at_once(stream_id: int) -> bytes:
    return open_call(stream_id) + frame(frames.RST_STREAM, 0, stream_id, CANCEL)


def longer_than_announced(stream_id: int) -> bytes:
    block = CALL + b"\0\x0econtent-length\x011"
    return frame(frames.HEADERS, frames.END_HEADERS, stream_id, block) + frame(
        frames.DATA, 0, stream_id, b"xx"
    )


def bad_trailers(stream_id: int) -> bytes:
    flags = frames.END_HEADERS | frames.END_STREAM
    return open_call(stream_id) + frame(frames.HEADERS, flags, stream_id, b"\0\x01A\x01x")


def malformed(stream_id: int) -> bytes:
    return frame(frames.HEADERS, frames.END_HEADERS, stream_id, CALL + b"\0\x01A\x01x")


async def test_fc_65_a_reset_storm(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    async with bystander(h2_world):
        await flood(consumer, reset_at_once, 20_000)
        await is_ended(h2_world, consumer, "resets")
    stormy = [each for each in provider.calls if dict(each.headers)[b":path"] == PATH]
    assert len(stormy) <= RESETS + 10
    await eventually(lambda: all(each.reset == codes.CANCEL for each in stormy))
    began = time.process_time()
    await asyncio.sleep(0.2)
    assert time.process_time() - began < 0.1  # nothing goes on behind it


async def test_fc_65_resets_of_calls_under_way(h2_world: Any) -> None:
    """The provider hears of every call of the storm, and of its end."""
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    assert (await consumer.call()).status == 0
    provider.calls.clear()
    provider.is_mute = True
    count = RESETS + 1 + 1  # one was answered
    for _ in range(count):
        stream = consumer.request()
        await consumer.pong()
        consumer.reset(stream.id)
    await is_ended(h2_world, consumer, "resets")
    assert len(provider.calls) == count
    await eventually(lambda: all(each.reset == codes.CANCEL for each in provider.calls))
    assert h2_world.outcomes() == {"cancelled": count, "ok": 1}


async def test_the_first_message_is_enough(h2_world: Any) -> None:
    """A consumer that reads one message of each answer, and wants no more of it."""
    provider = await h2_world.h2_provider()
    provider.on_end = provider.begin
    consumer = await h2_world.h2_serve(provider)
    for _ in range(2 * RESETS):
        stream = consumer.request()
        await consumer.until(lambda stream=stream: stream.body)
        consumer.reset(stream.id)
    await consumer.pong()
    assert not consumer.has_eof
    assert h2_world.outcomes() == {"cancelled": 2 * RESETS}


async def test_fc_65_one_hundred_and_fifty_cancels_in_a_minute(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    provider.is_mute = True
    consumer = await h2_world.h2_serve(provider)
    for _ in range(150):
        stream = consumer.request()
        await consumer.pong()
        consumer.reset(stream.id)
        h2_world.skip(0.4)
    provider.is_mute = False
    assert (await consumer.call()).status == 0
    assert h2_world.outcomes() == {"cancelled": 150, "ok": 1}


@pytest.mark.parametrize("piece", [longer_than_announced, bad_trailers, malformed])
async def test_fc_65_streams_that_the_sidecar_has_to_reset(h2_world: Any, piece: Piece) -> None:
    """They are counted as the resets are written, after all of one read was dealt with."""
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    async with bystander(h2_world):
        sent = await flood(consumer, piece, 20_000)
        await is_ended(h2_world, consumer, "resets")
    stormy = [each for each in provider.calls if dict(each.headers)[b":path"] == PATH]
    one_read = (256 << 10) // len(piece(1))
    assert len(stormy) <= min(RESETS + one_read, sent)
    assert sent < 20_000
    assert (stormy == []) == (piece is malformed)
    await eventually(lambda: all(each.is_over for each in stormy))


async def test_streams_beyond_the_limit_are_refused_and_counted(h2_worlds: Any) -> None:
    """Before the consumer has acknowledged the limit each is refused; that, too, has an end."""
    world = await h2_worlds(limits=Limits(max_inflight_per_consumer=10))
    provider = await world.h2_provider()
    provider.is_mute = True
    consumer = await world.h2_serve(provider, is_silent=True)
    consumer.send(frames.PREFACE, frame(frames.SETTINGS))
    streams = [consumer.request() for _ in range(30)]
    await eventually(lambda: len(provider.calls) == 10)
    await consumer.until(lambda: all(each.reset == codes.REFUSED_STREAM for each in streams[10:]))
    assert len(provider.calls) == 10
    assert world.plane.inflight == 10
    assert world.count(names.STREAMS_REFUSED.name) == 20
    await flood(consumer, open_call, 100_000)
    await is_ended(world, consumer, "resets")


async def test_streams_beyond_a_limit_that_was_acknowledged(h2_worlds: Any) -> None:
    world = await h2_worlds(limits=Limits(max_inflight_per_consumer=10))
    provider = await world.h2_provider()
    provider.is_mute = True
    consumer = await world.h2_serve(provider)
    await consumer.pong()
    for _ in range(11):
        consumer.request()
    await is_ended(world, consumer, "streams", codes.PROTOCOL_ERROR)
    assert world.outcomes() == {"cancelled": 10}


def on_stream_1(kind: int, payload: bytes, flags: int = 0) -> Piece:
    return lambda _: frame(kind, flags, 1, payload)


CONTROL: dict[str, Piece] = {
    "ping": lambda _: frame(frames.PING, 0, 0, bytes(8)),
    "ping ack": lambda _: frame(frames.PING, frames.ACK, 0, bytes(8)),
    "settings": lambda _: frame(frames.SETTINGS, 0, 0, b"\0\4\0\1\0\0"),
    "settings without any": lambda _: frame(frames.SETTINGS),
    "priority": on_stream_1(frames.PRIORITY, bytes(5)),
    "priority of itself": on_stream_1(frames.PRIORITY, b"\0\0\0\1\x10"),
    "priority of idle streams": lambda each: frame(frames.PRIORITY, 0, each + 2, bytes(5)),
    "window of the connection": lambda _: frame(frames.WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
    "window of the stream": on_stream_1(frames.WINDOW_UPDATE, b"\0\0\0\1"),
    "empty data": on_stream_1(frames.DATA, b""),
    "padding alone": on_stream_1(frames.DATA, b"\3\0\0\0", frames.PADDED),
    "unknown": lambda _: frame(0x77, 0xFF, 0, b"abc"),
    "unknown and large": lambda _: frame(0x77, 0, 1, bytes(FRAME_SIZE)),
}


@pytest.mark.parametrize("name", CONTROL)
async def test_a_flood_of_frames_that_carry_nothing(h2_world: Any, name: str) -> None:
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    consumer.request(end=False)
    await consumer.pong()
    async with bystander(h2_world):
        sent = await flood(consumer, CONTROL[name], 50_000)
        await is_ended(h2_world, consumer, "control")
    assert sent > CONTROL_FRAMES
    assert len(consumer.pings) <= CONTROL_FRAMES + 1


PIECES = {
    "continuation": b"",
    "header_size": b"\0\1x\x7f\x81\x7c" + bytes([97]) * 16_000,  # one field
    "limit": b"\0\1x\x01y" * 3000,  # many: more than would be refused in good order
}


@pytest.mark.parametrize("word", PIECES)
async def test_fc_66_a_header_list_without_end(h2_world: Any, word: str) -> None:
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    await consumer.pong()
    consumer.send(open_call(consumer.take_id(), 0))
    piece = frame(frames.CONTINUATION, 0, 1, PIECES[word])
    async with bystander(h2_world):
        sent = await flood(consumer, lambda _: piece, 1000)
        await is_ended(h2_world, consumer, word)
    assert sent < 1000
    assert h2_world.outcomes() == {}


async def test_a_flood_that_is_not_read(h2_world: Any) -> None:
    """Answers to floods are kept within limits, also when nobody reads them."""
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider, receive_buffer=4096)
    await consumer.pong()
    consumer.transport.pause_reading()
    async with bystander(h2_world):
        await flood(consumer, CONTROL["ping"], 20_000)
    await eventually(lambda: h2_world.count(names.CONSUMERS_CLOSED.name, "control") == 1)


TINY_PIECES = 30_000  # fit into the window that a stream begins with


@pytest.mark.parametrize("size", [1, 2])
async def test_a_message_in_tiny_pieces_holds_nobody_up(h2_world: Any, size: int) -> None:
    """That is no attack, but each piece costs as much as a large one."""
    provider = await h2_world.h2_provider(keeps_bodies=False)
    consumer = await h2_world.h2_serve(provider)
    stream = consumer.request(end=False, body=None)
    async with bystander(h2_world):
        await consumer.pong()
        consumer.send(frame(frames.DATA, 0, 1, bytes(size)) * TINY_PIECES)
        consumer.data(stream.id, REPLY, end=True)
        assert (await consumer.answer(stream)).status == 0
    assert provider.calls[0].size == size * TINY_PIECES + len(REPLY)
