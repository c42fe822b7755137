"""Slow readers: what waits for one is bounded, its writer is held back, and nobody else is."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from pathlib import Path
from typing import Any

import pytest

from sidecar.settings.schema import Http2, Upstream
from sidecar.settings.units import Size
from tests.fixtures.dubbo_peer import eventually
from tests.fixtures.h2_peer import (
    BIG,
    OK,
    REPLY,
    RESPONSE,
    STREAM_WINDOW,
    Consumer,
    Peer,
    Provider,
    Stream,
)

MIB = 1 << 20
PIECE = bytes(MIB)
SMALL = b"/com.x.Demo/small"


def resident() -> int:
    """Bytes of memory that this process uses."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Source(Provider):
    """A provider whose answer to all but SMALL is ``size`` bytes, as fast as windows allow."""

    def __init__(self, size: int) -> None:
        super().__init__(keeps_bodies=False)
        self.size = size
        self.sent = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.on_end = self._serve

    def _serve(self, link: Peer, stream: Stream) -> None:
        if dict(stream.headers)[b":path"] == SMALL:
            self.answer(link, stream)
            return
        task = asyncio.get_running_loop().create_task(self._pour(link, stream))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _pour(self, link: Peer, stream: Stream) -> None:
        link.head(stream.id, RESPONSE)
        left = self.size
        while left > 0 and stream.reset is None and not link.is_closed:
            piece = PIECE[: min(left, 8 << 10)]
            await link.stream_body(stream.id, piece)
            left -= len(piece)
            self.sent += len(piece)
        link.head(stream.id, OK, end=True)

    async def pauses(self) -> int:
        """Wait until nothing more can be sent; return how much was."""
        before = -1
        while before != self.sent:
            before = self.sent
            await asyncio.sleep(0.1)
        return self.sent

    def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        super().stop()


async def source(world: Any, size: int) -> Source:
    made = Source(size)
    await made.start()
    world.h2_peers.append(made)
    return made


def give(consumer: Consumer, stream: Stream, amount: int = BIG - 65_535) -> None:
    """Let a consumer read on: return all window of a stream, and of the connection."""
    consumer.open_window(stream.id, amount)


# Messages larger than the windows


@pytest.mark.parametrize("size", [65_535, 65_536, 94_491, 300_000])
async def test_fc_71_a_message_larger_than_the_windows(h2_worlds: Any, size: int) -> None:
    """Windows of 65,535 bytes on both hops and in both directions."""
    small = Http2(stream_window=Size(65_535), connection_window=Size(65_535))
    world = await h2_worlds(http2=small)
    provider = await world.h2_provider()
    message = b"\0" + (size - 5).to_bytes(4, "big") + bytes(range(256)) * 2000
    message = message[:size]
    provider.on_end = lambda link, stream: answers.append((link, stream))
    answers: list[tuple[Peer, Stream]] = []
    consumer = await world.h2_serve(provider)
    async with asyncio.timeout(1.0):
        stream = consumer.request(body=None, end=False)
        await consumer.stream_body(stream.id, message, end=True)
        await eventually(lambda: answers)
        link, asked = answers[0]
        assert bytes(asked.body) == message
        link.head(asked.id, RESPONSE)
        await link.stream_body(asked.id, message)
        link.head(asked.id, OK, end=True)
        assert (await consumer.answer(stream)).status == 0
    assert bytes(stream.body) == message
    await world.at_rest()


# One slow reader


async def test_fc_72_a_reader_that_returns_no_window(h2_world: Any) -> None:
    provider = await source(h2_world, 48 * MIB)
    other = await h2_world.h2_serve(provider)
    assert (await other.call(path=SMALL)).status == 0
    gc.collect()
    before = resident()
    consumer = await h2_world.h2_consumer(returns_window=False, keeps_bodies=False)
    stream = consumer.request()
    await consumer.until(lambda: stream.size == 65_535)
    sent = await provider.pauses()
    window = int(h2_world.settings.http2.stream_window)
    assert h2_world.held <= window
    assert sent <= window + 65_535
    assert resident() - before < 12 * MIB
    for _ in range(20):
        assert (await other.call(path=SMALL)).status == 0
    assert len(provider.links) == 1
    consumer.returns_window = True
    consumer.open_window(0, BIG - 65_535)
    give(consumer, stream)
    assert (await consumer.answer(stream)).status == 0
    assert stream.size == 48 * MIB
    assert resident() - before < 24 * MIB
    await h2_world.at_rest()


async def test_fc_72_a_reader_that_reads_nothing(h2_world: Any) -> None:
    """Its windows are large, but it does not read from its socket."""
    provider = await source(h2_world, 32 * MIB)
    other = await h2_world.h2_serve(provider)
    consumer = await h2_world.h2_consumer(
        settings={STREAM_WINDOW: BIG}, keeps_bodies=False, receive_buffer=64 << 10
    )
    consumer.open_window(0, BIG - 65_535)
    await consumer.pong()
    stream = consumer.request()
    consumer.transport.pause_reading()
    sent = await provider.pauses()
    window = int(h2_world.settings.http2.stream_window)
    assert h2_world.held <= window
    assert sent <= window + 8 * MIB  # what the kernel buffers of a connection
    for _ in range(20):
        assert (await other.call(path=SMALL)).status == 0
    consumer.transport.resume_reading()
    assert (await consumer.answer(stream)).status == 0
    assert stream.size == 32 * MIB
    await h2_world.at_rest()


async def test_a_slow_reader_that_goes_away(h2_world: Any) -> None:
    """What was kept for it is dropped, and the window of the provider's connection returned."""
    provider = await source(h2_world, 8 * MIB)
    other = await h2_world.h2_serve(provider)
    for way in ("abort", "close", "reset") * 8:
        consumer = await h2_world.h2_consumer(returns_window=False)
        stream = consumer.request()
        await consumer.until(lambda stream=stream: stream.size == 65_535)
        await eventually(lambda: h2_world.held > 0)
        if way == "reset":
            consumer.reset(stream.id)
            await consumer.pong()
            consumer.close()
        else:
            getattr(consumer, way)()
        await eventually(lambda: h2_world.held == 0)
    await h2_world.at_rest()
    large = other.request()
    assert (await other.answer(large)).status == 0
    assert large.size == 8 * MIB
    assert len(provider.links) == 1


async def test_a_slow_reader_and_a_deadline(h2_world: Any) -> None:
    provider = await source(h2_world, 8 * MIB)
    consumer = await h2_world.h2_serve(provider, returns_window=False)
    stream = consumer.request(metadata=[(b"grpc-timeout", b"200m")])
    await consumer.until(lambda: stream.is_over)
    assert stream.reset == 8
    await h2_world.at_rest()
    assert h2_world.outcomes() == {"timeout": 1}


# Many slow readers


async def test_streams_that_are_read_one_after_the_other(h2_world: Any) -> None:
    """The last one first: those that wait must not take the window from the one that is read."""
    provider = await source(h2_world, 2 * MIB)
    consumer = await h2_world.h2_serve(provider, returns_window=False, keeps_bodies=False)
    consumer.open_window(0, BIG - 65_535)
    streams = [consumer.request() for _ in range(60)]
    await provider.pauses()
    for stream in reversed(streams):
        give(consumer, stream)
        assert (await consumer.answer(stream)).status == 0
        assert stream.size == 2 * MIB
    await h2_world.at_rest()


async def test_many_slow_readers_do_not_hold_up_another_one(h2_world: Any) -> None:
    """Calls that come later find a connection that is not clogged."""
    provider = await source(h2_world, 2 * MIB)
    quick = await h2_world.h2_serve(provider, keeps_bodies=False)
    slow = await h2_world.h2_consumer(returns_window=False)
    slow.open_window(0, BIG - 65_535)
    for _ in range(300):
        slow.request()
    await provider.pauses()
    assert h2_world.held < 32 * MIB
    for _ in range(20):
        answer = await quick.call()
        assert (answer.status, answer.size) == (0, 2 * MIB)
    assert len(provider.links) <= h2_world.settings.upstream.max_connections
    slow.abort()
    await h2_world.at_rest()


async def test_slow_readers_on_all_connections(h2_worlds: Any) -> None:
    """Then calls go to another instance."""
    world = await h2_worlds(
        http2=Http2(stream_window=Size(64 << 10), connection_window=Size(MIB)),
        upstream=Upstream(max_connections=2),
    )
    provider = await source(world, MIB)
    slow = await world.h2_serve(provider, returns_window=False)
    for _ in range(200):
        slow.request()
    await provider.pauses()
    assert world.held <= 2 * MIB
    other = await world.h2_provider()
    world.publish(provider.port, other.port)
    quick = await world.h2_consumer()
    answers = await asyncio.gather(*[quick.call(path=SMALL) for _ in range(100)])
    assert {each.status for each in answers} == {0}
    slow.abort()
    await world.at_rest()


# Slow writers of requests, slow readers of requests


async def test_a_provider_that_takes_no_request_holds_up_no_other(h2_world: Any) -> None:
    """A consumer that sends much to one provider goes on with its calls to another."""
    stuck = await h2_world.h2_provider(returns_window=False)
    good = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(stuck)
    streams = [consumer.request(body=None, end=False) for _ in range(30)]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(consumer.stream_body(each.id, PIECE, end=True)) for each in streams
        ]
        await asyncio.sleep(0.3)
        h2_world.publish(good.port)
        stream = consumer.request(body=None, end=False)
        await consumer.stream_body(stream.id, PIECE, end=True)
        assert (await consumer.answer(stream)).status == 0
        for task in tasks:
            task.cancel()
    consumer.abort()
    await h2_world.at_rest()


async def test_a_consumer_that_sends_slowly(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    stream = consumer.request(body=b"", end=False)
    for _ in range(50):
        consumer.data(stream.id, REPLY)
        await asyncio.sleep(0.002)
    consumer.data(stream.id, b"", end=True)
    assert (await consumer.answer(stream)).status == 0
    assert bytes(provider.calls[0].body) == 50 * REPLY


async def test_windows_of_cancelled_requests_are_returned(h2_world: Any) -> None:
    """More than the window of the connection, all of it for calls that were given up."""
    most = h2_world.settings.http2.connection_window
    stuck = await h2_world.h2_provider(returns_window=False)
    consumer = await h2_world.h2_serve(stuck)
    for _ in range(40):
        stream = consumer.request(body=None, end=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await consumer.stream_body(stream.id, PIECE)
        consumer.reset(stream.id)
        await consumer.pong()
    await h2_world.at_rest()
    assert consumer.window > most // 4
    good = await h2_world.h2_provider()
    h2_world.publish(good.port)
    assert (await consumer.call(body=bytes(10_000))).status == 0


# How it is seen


async def test_held_bytes_can_be_seen(h2_world: Any) -> None:
    provider = await source(h2_world, 4 * MIB)
    consumer = await h2_world.h2_serve(provider, returns_window=False)
    consumer.request()
    await provider.pauses()
    facts = h2_world.plane.by_protocol(lambda engine: engine.held_bytes)
    assert facts["triple"] == h2_world.held > 0
    assert facts["dubbo"] == 0
    consumer.abort()
    await h2_world.at_rest()
