"""Protocols told apart on real sockets, plain and in TLS."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time

import pytest

from sidecar.protocol.detect import DUBBO, HTTP1, HTTP2
from sidecar.protocol.http2.frames import PREFACE
from sidecar.proxy.detect import Entrance, Lobby
from sidecar.proxy.listener import Listener
from sidecar.proxy.tls import listener_context
from sidecar.settings.schema import Listener as ListenerSettings
from sidecar.settings.schema import ListenerTls
from sidecar.telemetry.counters import Counters
from tests.fixtures.dubbo_peer import eventually

FRAME = b"\xda\xbb\xc2\0" + bytes(12)
REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
BEGINNINGS = [(DUBBO, FRAME), (HTTP2, PREFACE + bytes(9)), (HTTP1, REQUEST)]


class Owner(asyncio.Protocol):
    """Says which protocol it stands for and what it was sent."""

    def __init__(self, word):
        self.word = word
        self.got = b""
        self.is_lost = False

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.got += data
        self.transport.write(b"%s %d;" % (self.word.encode(), len(self.got)))

    def connection_lost(self, error):
        self.is_lost = True


class Scene:
    """A listener whose protocols only say their names."""

    def __init__(self, slow=10.0):
        self.counters = Counters()
        self.owners = []
        self.loop = asyncio.get_running_loop()
        self.lobby = Lobby(self.loop, time.monotonic, self.counters, slow)
        self.listener = None

    def _make(self, word):
        self.owners.append(Owner(word))
        return self.owners[-1]

    async def listen(self, *words, address="127.0.0.1:0", protocol="auto", tls=None):
        settings = ListenerSettings(address=address, protocol=protocol, tls=tls)
        makers = {word: lambda _, word=word: self._make(word) for word in words}
        entrance = Entrance(settings, makers, listener_context(settings))
        self.listener = Listener(
            self.loop, settings, lambda: entrance.accept(self.lobby), lambda: None
        )
        await self.listener.start()
        return self

    @property
    def port(self):
        return self.listener.port

    def closed(self):
        return {label: count for (_, label), count in self.counters.named.items()}

    async def end(self):
        self.listener.stop()
        self.lobby.close()
        await self.lobby.stop()
        for owner in self.owners:
            owner.transport.abort()
        await eventually(lambda: all(owner.is_lost for owner in self.owners))


@pytest.fixture
async def scene(request):
    scene = Scene(**getattr(request, "param", {}))
    yield scene
    await scene.end()


@pytest.fixture
def tls(certificates):
    return ListenerTls(certificate=certificates.server.chain, key=certificates.server.key)


@contextlib.asynccontextmanager
async def consumer(port, context=None, **words):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, **words)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


@pytest.mark.parametrize(("word", "data"), BEGINNINGS)
@pytest.mark.parametrize("is_secure", [False, True])
async def test_each_protocol_gets_all_of_its_bytes(scene, tls, certificates, word, data, is_secure):
    await scene.listen(DUBBO, HTTP2, HTTP1, tls=tls if is_secure else None)
    context = certificates.client_context() if is_secure else None
    for cut in (0, 1, 2, 3, 23, 24):
        async with consumer(scene.port, context) as (reader, writer):
            for part in filter(None, (data[:cut], data[cut:])):
                writer.write(part)
                await asyncio.sleep(0.005)
            expected = b"%s %d;" % (word.encode(), len(data))
            assert (await reader.readuntil(expected)).startswith(word.encode())
        assert scene.owners[-1].got == data
    assert len(scene.lobby) == 0


async def test_a_consumer_of_another_protocol_is_ended(scene):
    await scene.listen(HTTP2, HTTP1, protocol="triple")
    async with consumer(scene.port) as (reader, writer):
        writer.write(FRAME)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    assert scene.closed() == {"unknown_protocol": 1}


@pytest.mark.parametrize("scene", [{"slow": 0.1}], indirect=True)
async def test_a_silent_consumer_is_ended(scene):
    await scene.listen(HTTP2, HTTP1, protocol="triple")
    async with consumer(scene.port) as (reader, _):
        await eventually(lambda: len(scene.lobby) == 1)
        scene.lobby.check(time.monotonic() + 0.2)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    assert scene.closed() == {"slow_handshake": 1}


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [(["h2"], "h2"), (["http/1.1", "h2"], "h2"), (["http/1.1"], "http/1.1"), ([], None)],
)
async def test_alpn(scene, tls, certificates, offered, agreed):
    await scene.listen(HTTP2, HTTP1, protocol="triple", tls=tls)
    context = certificates.client_context(*offered)
    async with consumer(scene.port, context) as (reader, writer):
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == agreed
        writer.write(REQUEST)
        assert await reader.readuntil(b";") == b"http1 %d;" % len(REQUEST)


async def test_a_dubbo_listener_negotiates_no_protocol_and_asks_for_no_bytes(
    scene, tls, certificates
):
    await scene.listen(DUBBO, protocol="dubbo", tls=tls)
    async with consumer(scene.port, certificates.client_context("h2")) as (reader, writer):
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() is None
        await eventually(lambda: scene.owners)
        writer.write(b"anything")
        assert await reader.readuntil(b";") == b"dubbo 8;"


async def test_tls_on_a_unix_socket(scene, tls, certificates, tmp_path, monkeypatch):
    path = str(tmp_path / "t.sock")
    if len(path) > 100:
        pytest.skip("the path of the test directory is too long for a socket")
    await scene.listen(HTTP2, HTTP1, address=f"unix://{path}", tls=tls)
    reader, writer = await asyncio.open_unix_connection(
        path, ssl=certificates.client_context("h2"), server_hostname="localhost"
    )
    writer.write(PREFACE)
    assert await reader.readuntil(b";") == b"http2 24;"
    writer.close()
    await writer.wait_closed()


async def test_a_client_certificate_is_asked_for(scene, certificates):
    tls = ListenerTls(
        certificate=certificates.server.chain,
        key=certificates.server.key,
        client_ca=certificates.authority,
    )
    await scene.listen(HTTP2, HTTP1, tls=tls)
    good = certificates.client_context(pair=certificates.client)
    async with consumer(scene.port, good) as (reader, writer):
        writer.write(REQUEST)
        assert await reader.readuntil(b";") == b"http1 %d;" % len(REQUEST)
    # In TLS 1.3 a client is done before the server has seen its certificate.
    for pair in (None, certificates.other_client):
        context = certificates.client_context(pair=pair)
        async with consumer(scene.port, context) as (reader, writer):
            with contextlib.suppress(ssl.SSLError, ConnectionError):
                writer.write(REQUEST)
                assert await reader.read() == b""
    await eventually(lambda: scene.closed() == {"tls": 2})
    assert len(scene.owners) == 1


async def test_a_consumer_that_speaks_no_tls_is_ended_with_a_word(scene, tls, caplog):
    await scene.listen(DUBBO, HTTP2, HTTP1, tls=tls)
    async with consumer(scene.port) as (reader, writer):
        writer.write(FRAME)
        with contextlib.suppress(ConnectionError):
            await reader.read()
    await eventually(lambda: scene.closed() == {"tls": 1})
    assert len(scene.lobby) == 0
    assert "wrong version number" in caplog.text


async def test_a_consumer_that_goes_during_the_handshake_is_no_news(scene, tls, caplog):
    caplog.set_level(logging.INFO)
    await scene.listen(DUBBO, HTTP2, HTTP1, tls=tls)
    for data in (b"", b"\x16\x03\x01"):
        async with consumer(scene.port) as (_, writer):
            writer.write(data)
            await eventually(lambda: len(scene.lobby) == 1)
        await eventually(lambda: len(scene.lobby) == 0)
    assert scene.closed() == {}
    assert caplog.text == ""


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x01"])
@pytest.mark.parametrize("scene", [{"slow": 0.1}], indirect=True)
async def test_a_handshake_that_does_not_end_is_ended(scene, tls, data):
    await scene.listen(DUBBO, HTTP2, HTTP1, tls=tls)
    async with consumer(scene.port) as (reader, writer):
        writer.write(data)
        await eventually(lambda: len(scene.lobby) == 1)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    await eventually(lambda: len(scene.lobby) == 0)
    assert scene.closed() == {"slow_handshake": 1}


async def test_handshakes_under_way_end_with_the_lobby(scene, tls):
    await scene.listen(DUBBO, HTTP2, HTTP1, tls=tls)
    async with consumer(scene.port) as (reader, _):
        await eventually(lambda: len(scene.lobby) == 1)
        scene.lobby.close()
        await scene.lobby.stop()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    assert scene.closed() == {}
