"""Consumers that speak HTTP/1.1, on listeners where others speak HTTP/2 and Dubbo."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from typing import Any

import aiohttp
import pytest

from sidecar.model.protocol import DUBBO, TRIPLE
from sidecar.settings.schema import Http2, Listener, ListenerTls, Upstream, UpstreamTls
from sidecar.settings.units import Duration, Size
from tests.fixtures import h2_peer
from tests.fixtures.dubbo_peer import eventually

PATH = "/com.x.Demo/hi"
CHOSEN = {"tri-service-version": "1.0.0", "content-type": "application/json"}
OK = [(b":status", b"200"), (b"content-type", b"application/json")]
KIB = 1024
CLOSED = "sidecar_consumers_closed_total"


def echo(link: Any, stream: Any) -> None:
    """Answer with the body that came."""
    link.head(stream.id, OK)
    body = bytes(stream.body)
    task = asyncio.ensure_future(link.stream_body(stream.id, body or b"nothing", end=True))
    link.tasks = [*getattr(link, "tasks", []), task]


@contextlib.asynccontextmanager
async def client(world: Any, context: Any = None, connector: Any = None) -> Any:
    """An aiohttp client of the first listener."""
    port = world.plane.ports[0]
    base = f"http{'' if context is None else 's'}://127.0.0.1:{port}"
    connector = connector or aiohttp.TCPConnector(ssl=context or False)
    async with aiohttp.ClientSession(base, headers=CHOSEN, connector=connector) as session:
        yield session


async def serve(worlds: Any, **sections: Any) -> tuple[Any, Any]:
    """Start a world with an echoing provider."""
    world = await worlds(**sections)
    provider = await world.h2_provider()
    provider.on_end = echo
    world.publish(provider.port)
    return world, provider


async def test_calls_on_one_connection(h2_worlds):
    world, provider = await serve(h2_worlds)
    async with client(world) as session:
        for number in range(5):
            async with session.post(PATH, data=b"%d" % number) as answer:
                assert (answer.status, await answer.read()) == (200, b"%d" % number)
        assert world.plane.consumers == 1
        async with session.get(PATH) as answer:
            assert await answer.read() == b"nothing"
    assert [dict(each.headers)[b":authority"] for each in provider.calls] == [
        f"127.0.0.1:{world.plane.ports[0]}".encode()
    ] * 6
    assert world.outcomes() == {"ok": 6}
    await world.at_rest()


async def test_many_calls_at_once(h2_worlds):
    world, _ = await serve(h2_worlds)
    async with client(world) as session:

        async def call(number: int) -> bytes:
            async with session.post(PATH, data=b"%d" % number) as answer:
                return await answer.read()

        answers = await asyncio.gather(*[call(number) for number in range(60)])
    assert answers == [b"%d" % number for number in range(60)]
    await world.at_rest()


async def test_large_bodies_both_ways(h2_worlds):
    world, _ = await serve(h2_worlds, http2=Http2(stream_window=Size(64 * KIB)))
    body = bytes(range(256)) * 16 * KIB

    async def pieces():
        for start in range(0, len(body), 100_000):
            yield body[start : start + 100_000]

    async with client(world) as session:
        for data in (io.BytesIO(body), pieces()):
            async with session.post(PATH, data=data) as answer:
                assert await answer.read() == body
    await world.at_rest()


async def test_a_consumer_that_waits_for_100(h2_worlds):
    world, _ = await serve(h2_worlds)
    async with client(world) as session:
        async with session.post(PATH, data=b"hello", expect100=True) as answer:
            assert await answer.read() == b"hello"
        async with session.post("/none", data=b"hello", expect100=True) as answer:
            assert answer.status == 404


async def test_events_come_one_by_one(h2_worlds):
    world, provider = await serve(h2_worlds)
    links: list[Any] = []

    def begin(link: Any, stream: Any) -> None:
        link.head(stream.id, [(b":status", b"200"), (b"content-type", b"text/event-stream")])
        links.append((link, stream))

    provider.on_end = begin
    async with client(world) as session, session.get(PATH) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        ((link, stream),) = links
        for number in range(5):
            link.data(stream.id, b"data: %d\n\n" % number, end=number == 4)
            assert await answer.content.readuntil(b"\n\n") == b"data: %d\n\n" % number
        assert await answer.read() == b""
    await world.at_rest()


async def test_a_consumer_that_leaves_cancels_its_call(h2_worlds):
    world, provider = await serve(h2_worlds)
    provider.is_mute = True
    async with client(world) as session:
        call = asyncio.ensure_future(session.get(PATH))
        await eventually(lambda: provider.calls)
        call.cancel()
        await eventually(lambda: provider.calls[0].reset == 8)
    await world.at_rest()
    assert world.outcomes() == {"cancelled": 1}


async def test_an_answer_that_breaks_off_is_seen_as_broken(h2_worlds):
    world, provider = await serve(h2_worlds)

    def break_off(link: Any, stream: Any) -> None:
        link.head(stream.id, OK)
        link.data(stream.id, b"half")
        asyncio.get_running_loop().call_later(0.05, link.reset, stream.id, 2)

    provider.on_end = break_off
    async with client(world) as session, session.get(PATH) as answer:
        with pytest.raises(aiohttp.ClientError):
            await answer.read()
    await eventually(lambda: world.count(CLOSED, "answer_cut") == 1)
    await world.at_rest()


async def test_a_slow_reader_holds_little(h2_worlds):
    window = 64 * KIB
    http2 = Http2(stream_window=Size(window), connection_window=Size(4 * window))
    world, provider = await serve(h2_worlds, http2=http2)
    provider.on_end = lambda link, stream: None
    reader, writer = await asyncio.open_connection("127.0.0.1", world.plane.ports[0], limit=KIB)
    writer.write(f"GET {PATH} HTTP/1.1\r\nHost: h\r\ntri-service-version: 1.0.0\r\n\r\n".encode())
    await eventually(lambda: provider.calls)
    (link,), (stream,) = provider.links, provider.calls
    link.head(stream.id, OK)
    body = asyncio.ensure_future(link.stream_body(stream.id, b"x" * 32_000_000, end=True))
    sent = -1
    while sent != link.window:
        sent = link.window
        await asyncio.sleep(0.1)
    assert not body.done()
    assert world.held <= window
    size = 0
    while not body.done():
        size += len(await reader.read(256 * KIB))
    assert size >= 30_000_000
    await body
    writer.close()
    await writer.wait_closed()
    await world.at_rest()


async def test_raw_bytes_in_all_sorts_of_pieces(h2_worlds):
    world, provider = await serve(h2_worlds)
    head = f"POST {PATH} HTTP/1.1\r\nHost: h\r\ntri-service-version: 1.0.0\r\n"
    text = f"{head}Content-Length: 5\r\n\r\nhello{head}Transfer-Encoding: chunked\r\n\r\n"
    data = (text + "5\r\nagain\r\n0\r\n\r\n" + "GARBAGE\r\n\r\n").encode()
    for size in (1, 7, 50, len(data)):
        reader, writer = await asyncio.open_connection("127.0.0.1", world.plane.ports[0])
        for start in range(0, len(data), size):
            writer.write(data[start : start + size])
            await asyncio.sleep(0)
        heard = await reader.read()
        assert heard.count(b"HTTP/1.1 200 OK\r\n") == 2
        assert heard.index(b"hello") < heard.index(b"again") < heard.index(b"HTTP/1.1 400 Bad")
        assert json.loads(heard.rpartition(b"\r\n\r\n")[2])["reason"] == "BAD_REQUEST"
        writer.close()
        await writer.wait_closed()
    assert [bytes(each.body) for each in provider.calls] == [b"hello", b"again"] * 4
    await eventually(lambda: world.count(CLOSED, "bad_request") == 4)
    await world.at_rest()


async def test_a_head_that_does_not_end(h2_worlds):
    world, _ = await serve(h2_worlds, http2=Http2(slow_header=Duration(0.2)))
    reader, writer = await asyncio.open_connection("127.0.0.1", world.plane.ports[0])
    writer.write(b"GET / HTTP/1.1\r\nHost:")
    assert (await reader.read()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    writer.close()
    await writer.wait_closed()
    await eventually(lambda: world.count(CLOSED, "slow_header") == 1)


async def test_the_end_of_the_sidecar(h2_worlds):
    world, provider = await serve(h2_worlds)
    provider.on_end = lambda link, stream: asyncio.get_running_loop().call_later(
        0.2, echo, link, stream
    )
    async with client(world) as session:
        call = asyncio.ensure_future(session.post(PATH, data=b"last"))
        await eventually(lambda: provider.calls)
        world.plane.hurry()
        drain = asyncio.ensure_future(world.plane.drain())
        answer = await call
        assert (answer.headers["connection"], await answer.read()) == ("close", b"last")
        await drain
    await eventually(lambda: world.plane.consumers == 0)


@pytest.mark.parametrize("is_secure", [False, True])
async def test_one_port_for_all(h2_worlds, certificates, is_secure):
    tls = ListenerTls(certificate=certificates.server.chain, key=certificates.server.key)
    auto = Listener(protocol="auto", address="127.0.0.1:0", tls=tls if is_secure else None)
    context = certificates.client_context if is_secure else lambda *_: None
    world = await h2_worlds(listeners=[auto])
    dubbo, triple = await world.provider(), await world.h2_provider()
    triple.on_end = echo
    both = [
        *world.services.publish(dubbo.port, protocols=DUBBO),
        *world.services.publish(triple.port, protocol="tri", protocols=TRIPLE),
    ]
    world.services.publish_instances(both)
    consumer = await world.consumer(context())
    assert (await consumer.call()).value == "hi bob"
    async with client(world, context("http/1.1")) as session:
        async with session.post(PATH, data=b"hello") as answer:
            assert await answer.read() == b"hello"
        loop = asyncio.get_running_loop()
        _, other = await loop.create_connection(
            h2_peer.Consumer, "127.0.0.1", world.plane.ports[0], ssl=context("h2")
        )
        triple.on_end = triple.answer
        assert (await other.call()).status == 0
        assert world.plane.consumers == 3
        schemes = [dict(each.headers)[b":scheme"] for each in triple.calls]
        assert schemes[0] == (b"https" if is_secure else b"http")
        other.transport.abort()


async def test_a_unix_socket(h2_worlds, tmp_path):
    path = str(tmp_path / "h.sock")
    if len(path) > 100:
        pytest.skip("the path of the test directory is too long for a socket")
    world, provider = await serve(
        h2_worlds, listeners=[Listener(protocol="triple", address=f"unix://{path}")]
    )
    connector = aiohttp.UnixConnector(path)
    async with (
        client(world, connector=connector) as session,
        session.post(PATH, data=b"hello") as answer,
    ):
        assert await answer.read() == b"hello"
    assert len(provider.calls) == 1


async def test_providers_in_tls(h2_worlds, certificates):
    upstream = Upstream(tls=UpstreamTls(mode="always", ca=certificates.authority))
    world = await h2_worlds(upstream=upstream)
    provider = h2_peer.Provider()
    provider.on_end = echo
    loop = asyncio.get_running_loop()
    for offered, status in (("h2", 200), ("http/1.1", 503)):
        server = await loop.create_server(
            provider._accept, "127.0.0.1", 0, ssl=certificates.server_context(offered)
        )
        world.publish(server.sockets[0].getsockname()[1])
        async with client(world) as session, session.post(PATH, data=b"hello") as answer:
            assert answer.status == status
            text = await answer.text()
            assert text == "hello" or json.loads(text)["reason"] == "CONNECT_FAILED"
        server.close()
    provider.stop()
