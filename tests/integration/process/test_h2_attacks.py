"""Hostile HTTP/2, TLS and HTTP/1.1 peers around a real process, beside a consumer that only works.

After each attack the process has to be as it was: alive, nothing in flight, no open files left
over, no traceback in its log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import socket
import ssl

import pytest

from tests.fixtures.h2_peer import OK, REPLY, RESPONSE, Provider, connect
from tests.fixtures.http2_peers import PREFACE, SETTINGS, frame
from tests.fixtures.zookeeper import free_port

GOOD, BAD = "com.x.Good", "com.x.Bad"
WORK = f"/{GOOD}/work".encode()
SUFFER = f"/{BAD}/suffer".encode()
WATCH = b"/grpc.health.v1.Health/Watch"
WATCHED = b"\0\0\0\0\x12\x0a\x10com.x.Good:1.0.0"
GREETING = PREFACE + frame(SETTINGS)
RESET = b"\1\0\0\0\0\0\0\0"  # for SO_LINGER
ROUNDS = 24  # connections to each listener
CONFIGURATION = """\
registries: [{{name: main, url: "file://{path}", allow_networks: ["127.0.0.0/8"]}}]
services: {{preload: ["com.x.Good:1.0.0", "com.x.Bad:1.0.0"]}}
drain: {{grace: 2s, idle: 300ms}}
"""


class Siege:
    """A sidecar with listeners of every kind, a good provider, and one under the attacker."""

    def __init__(self, directory):
        self.registry = directory / "registry.yaml"
        self.socket = str(directory / "sidecar.sock")
        self.auto, self.tls = free_port(), free_port()
        self.program = None
        self.good, self.bad = Provider(), Provider()
        self.consumers = []
        self.answers = 0
        self.wrong = []
        self.base = 0

    async def start(self, run_program, certificates):
        await self.good.start()
        await self.bad.start()
        self.register()
        pair = certificates.server
        self.program = run_program(
            CONFIGURATION.format(path=self.registry),
            protocol="triple",
            listeners=(
                f'{{protocol: auto, address: "127.0.0.1:{self.auto}"}}',
                f'{{protocol: triple, address: "127.0.0.1:{self.tls}", '
                f'tls: {{certificate: "{pair.chain}", key: "{pair.key}"}}}}',
                f'{{protocol: triple, address: "unix://{self.socket}"}}',
            ),
        )
        await asyncio.to_thread(self.program.wait_ready)

    def register(self, *more):
        """Let the registry list both providers, and others."""
        urls = [
            f"grpc://{each.address}/{service}?version=1.0.0"
            for each, service in ((self.good, GOOD), (self.bad, BAD))
        ]
        new = self.registry.with_suffix(".new")
        new.write_text(json.dumps({"providers": [*urls, *more]}))
        new.replace(self.registry)

    async def connect(self, port=0):
        self.consumers.append(await connect(port or self.program.port))
        return self.consumers[-1]

    def raw(self, port):
        """A blocking connection to a port, to the Unix socket for 0."""
        if port:
            return socket.create_connection(("127.0.0.1", port), 5.0)
        made = socket.socket(socket.AF_UNIX)
        made.connect(self.socket)
        return made

    async def work(self):
        consumer = await self.connect()
        while True:
            answer = await consumer.call(path=WORK)
            self.answers += 1
            if answer.status != 0:
                self.wrong.append(answer.message)
            await asyncio.sleep(0.01)

    async def metrics(self):
        _, page = await asyncio.to_thread(self.program.get, "/metrics")
        pairs = re.findall(r"^(\S+) (\S+)$", page, re.MULTILINE)
        return {name: float(value) for name, value in pairs}

    def open_files(self):
        return len(os.listdir(f"/proc/{self.program.process.pid}/fd"))

    async def is_quiet(self):
        found = await self.metrics()
        return (
            found['sidecar_inflight{protocol="triple"}'] == 0
            and found['sidecar_consumer_connections{protocol="triple"}'] <= 1
            and self.open_files() <= self.base + 2 + len(self.bad.open_links)
        )

    async def ends_quietly(self):
        for _ in range(100):
            if self.answers > 20 and await self.is_quiet():
                return True
            await asyncio.sleep(0.1)
        return False

    async def close(self):
        for each in self.consumers:
            each.abort()
        self.good.stop()
        self.bad.stop()
        await asyncio.sleep(0.05)


@pytest.fixture
async def scene(run_program, tmp_path, certificates):
    made = Siege(tmp_path)
    await made.start(run_program, certificates)
    yield made
    await made.close()
    assert "Traceback" not in made.program.log
    assert "never retrieved" not in made.program.log


@pytest.fixture
async def siege(scene):
    beside = asyncio.ensure_future(scene.work())
    await asyncio.sleep(0.3)
    scene.base = scene.open_files()
    yield scene
    for consumer in scene.consumers[1:]:
        consumer.abort()
    is_quiet = await scene.ends_quietly()
    is_beside = not beside.done()
    beside.cancel()
    await asyncio.wait([beside])
    assert is_quiet, await scene.metrics()
    assert is_beside
    assert scene.wrong == []


def hello(context):
    """The first bytes of a TLS handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


async def test_junk_on_every_listener(siege, certificates):
    """Also after a beginning that is good, also with the end or a reset right behind it."""
    draw = random.Random(7)
    starts = [b"", GREETING, b"POST /a/b HTTP/1.1\r\nHost: a\r\n\r\n", b"\xda\xbb"]
    starts.append(hello(certificates.client_context("h2")))
    for number in range(ROUNDS * 4):
        with siege.raw((siege.program.port, siege.auto, siege.tls, 0)[number % 4]) as peer:
            with contextlib.suppress(OSError):
                peer.sendall(starts[number % 5] + draw.randbytes(draw.randrange(2000)))
                if number % 2:
                    peer.shutdown(socket.SHUT_WR)
            if number % 3 == 0:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        await asyncio.sleep(0)
    assert "other_machine" not in str(await siege.metrics())


async def test_handshakes_that_stand_still(siege, certificates):
    first = hello(certificates.client_context("h2"))
    peers = [siege.raw(siege.tls) for _ in range(100)]
    for number, peer in enumerate(peers):
        peer.sendall(first[: (number % 4) * len(first) // 3])
    await asyncio.sleep(0.5)
    before = siege.answers
    await asyncio.sleep(0.5)
    assert siege.answers > before
    for peer in peers:
        peer.close()


async def test_streams_that_are_opened_and_cancelled(siege):
    siege.bad.is_mute = True
    for number in range(12):
        consumer = await siege.connect(siege.auto if number % 2 else 0)
        for _ in range(150):
            stream = consumer.request(path=SUFFER, end=number % 3 == 0)
            if number % 4:
                consumer.reset(stream.id)
        await consumer.drain()
        consumer.abort() if number % 2 else consumer.close()


async def test_a_registry_in_turmoil_with_streams_open(siege):
    """Instances come and go ten times a second; who is registered all the while loses no call."""
    siege.bad.is_mute = True
    siege.bad.on_head = siege.bad.begin
    consumer = await siege.connect()
    streams = [consumer.request(path=SUFFER, end=False) for _ in range(50)]
    await consumer.until(lambda: all(each.body for each in streams))
    for number in range(25):
        coming = [f"tri://127.0.0.{2 + n}:9/{BAD}?version=1.0.0" for n in range(number % 7 * 20)]
        good = f"grpc://{siege.good.address}/{GOOD}?version=1.0.0&weight={number}"
        siege.register(*coming, good)
        await asyncio.sleep(0.1)
    (link,) = siege.bad.links
    for call in siege.bad.calls:
        link.head(call.id, OK, end=True)
    assert {(await consumer.answer(each)).status for each in streams} == {0}


def junk(link, stream):
    link.send(os.urandom(300))


def half(link, stream):
    link.head(stream.id, RESPONSE)
    link.data(stream.id, REPLY[:3])
    link.close()


def goaways(link, stream):
    for number in range(20):
        link.goaway(max(0, stream.id - number), number % 14)


def changing_limits(link, stream):
    link.announce({3: stream.id % 3, 4: stream.id % 5})
    link.head(stream.id, [*RESPONSE, *OK], end=True)


def nothing_but_refusals(link, stream):
    link.reset(stream.id, 7)


def answers_out_of_turn(link, stream):
    link.head(stream.id + 1000, RESPONSE)


def http1(link, stream):
    link.send(b"HTTP/1.1 200 OK\r\n\r\n")


@pytest.mark.parametrize(
    "manners",
    [junk, half, goaways, changing_limits, nothing_but_refusals, answers_out_of_turn, http1],
)
async def test_a_provider_without_manners(siege, manners):
    siege.bad.on_end = manners
    consumer = await siege.connect()
    metadata = [(b"grpc-timeout", b"1S")]
    streams = []
    for _ in range(10):
        streams += [consumer.request(path=SUFFER, metadata=metadata) for _ in range(10)]
        await asyncio.sleep(0.02)
    for stream in streams:
        await consumer.answer(stream)
    siege.bad.on_end = siege.bad.answer
    for link in siege.bad.links:
        link.abort()
    statuses = []
    while 0 not in statuses and len(statuses) < 100:  # it has learned manners, and is found again
        statuses.append((await consumer.call(path=SUFFER)).status)
        await asyncio.sleep(0.05)
    assert statuses[-1] == 0


async def test_requests_that_two_readers_could_cut_differently(siege):
    head = b"POST /com.x.Good/work HTTP/1.1\r\nHost: a\r\n"
    hidden = b"0\r\n\r\n" + head + b"\r\n"
    for fields in (
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length : 5\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ):
        with siege.raw(siege.auto) as peer:
            peer.sendall(head + fields + b"\r\n" + hidden)
            answer = await asyncio.to_thread(read_all, peer)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.split()[1] in (b"400", b"501")


def read_all(peer):
    """What comes until the end."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := peer.recv(65536):
            parts.append(part)
    return b"".join(parts)


async def test_the_end_with_everything_open(scene):
    """Streams under way, consumers who only watch, and such that do nothing: each is told."""
    scene.bad.is_mute = True
    scene.bad.on_head = scene.bad.begin
    busy, watcher, idle = [await scene.connect() for _ in range(3)]
    streams = [busy.request(path=SUFFER, end=False) for _ in range(100)]
    watches = [watcher.request(body=WATCHED, path=WATCH) for _ in range(20)]
    await busy.until(lambda: all(each.body for each in streams))
    await watcher.until(lambda: all(each.body for each in watches))
    await idle.until(lambda: idle.told)
    scene.program.terminate()
    await asyncio.sleep(0.2)
    scene.program.terminate()
    assert await asyncio.to_thread(scene.program.wait_end) == 0
    for consumer in (busy, watcher, idle):
        await consumer.until(lambda consumer=consumer: consumer.is_closed or consumer.has_eof)
        assert consumer.goaways
    assert {each.token for each in watches} == {"SHUTTING_DOWN"}
