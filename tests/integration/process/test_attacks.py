"""Hostile peers around a real process; a consumer beside them must see right answers only.

After each attack the process has to be as it was: alive, nothing in flight, no open files left
over, no traceback in its log.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re

import pytest

from tests.fixtures.dubbo_frames import (
    frame,
    heartbeat,
    readonly,
    reply,
    request,
    text,
    writeable,
)
from tests.fixtures.dubbo_peer import Provider, connect
from tests.vectors import loader

ECHO = "healthy.Echo"
VICTIM = "victim.Svc"
CONFIGURATION = """\
registries: [{{name: main, url: "file://{path}", allow_networks: ["127.0.0.0/8"]}}]
services: {{preload: ["healthy.Echo:1.0.0", "victim.Svc:1.0.0"], wait: 300ms}}
"""
HARMLESS = {
    name: data
    for name, data in loader.messages("dubbo/frames.txt").items()
    if data[:2] == b"\xda\xbb" and data[2] & 0xE0 == 0xC0 and len(data) > 16
}


class Siege:
    """A sidecar, a good provider with a steady consumer, and an instance under the attacker."""

    def __init__(self, program, good, bad):
        self.program = program
        self.port = program.port
        self.good = good
        self.bad = bad
        self.answers = 0
        self.wrong = []
        self.base = 0
        self.consumers = []

    async def connect(self):
        self.consumers.append(await connect(self.port))
        return self.consumers[-1]

    async def close(self):
        """End every peer; their sockets are closed in the next turns of the loop."""
        for each in (self.good, self.bad):
            each.stop()
        for each in self.consumers:
            if not each.is_closed:
                each.transport.abort()
        await asyncio.sleep(0.05)

    async def metrics(self):
        status, page = await asyncio.to_thread(self.program.get, "/metrics")
        assert status == 200
        pairs = re.findall(r"^(\S+) (\S+)$", page, re.MULTILINE)
        return {name: float(value) for name, value in pairs}

    def open_files(self):
        return len(os.listdir(f"/proc/{self.program.process.pid}/fd"))

    async def call_steadily(self):
        consumer = await self.connect()
        while True:
            word = f"word{self.answers}"
            answer = await consumer.call(service=ECHO, argument=word)
            self.answers += 1
            if (answer.status, answer.value) != (20, word):
                self.wrong.append(answer)
            await asyncio.sleep(0.01)

    async def is_quiet(self):
        found = await self.metrics()
        return (
            found['sidecar_inflight{protocol="dubbo"}'] == 0
            and found['sidecar_consumer_connections{protocol="dubbo"}'] <= 1
            and self.open_files() <= self.base + 2
        )


@pytest.fixture
async def siege(run_program, tmp_path):
    good, bad = await Provider().start(), await Provider().start()
    good.on_call = lambda link, call: link.send(reply(call.number, argument_of(call.body)))
    path = tmp_path / "registry.yaml"
    urls = [
        f"dubbo://{each.address}/{service}?version=1.0.0"
        for each, service in ((good, ECHO), (bad, VICTIM))
    ]
    path.write_text(json.dumps({"providers": urls}))
    program = run_program(CONFIGURATION.format(path=path))
    made = Siege(program, good, bad)
    await asyncio.to_thread(program.wait_ready)
    program.wait_until(lambda: program.log.count("instances known") == 2)
    beside = asyncio.ensure_future(made.call_steadily())
    await asyncio.sleep(0.3)
    made.base = made.open_files()
    yield made
    for consumer in made.consumers[1:]:
        if not consumer.is_closed:
            consumer.close()
    is_quiet = False
    for _ in range(100):
        is_quiet = await made.is_quiet()
        if is_quiet:
            break
        await asyncio.sleep(0.1)
    found = await made.metrics()
    is_beside = not beside.done()
    beside.cancel()
    await asyncio.wait([beside])
    await made.close()
    assert is_quiet, found
    assert is_beside
    assert made.answers > 20
    assert made.wrong == []
    assert "Traceback" not in program.log
    assert "never retrieved" not in program.log


def argument_of(body):
    """Return the argument of a call that ``dubbo_frames.request`` made, from its last string."""
    start = body.index(text("Ljava/lang/String;")) + len(text("Ljava/lang/String;"))
    return body[start + 1 : start + 1 + body[start]].decode()


async def answers(consumer, count, limit=10.0):
    async with asyncio.timeout(limit):
        await consumer.until(lambda: len(consumer.frames) >= count or consumer.is_closed)
    numbers = [each.number for each in consumer.frames]
    assert len(numbers) == len(set(numbers)), "a call was answered twice"
    return consumer.frames


async def test_every_damaged_request_has_one_answer(siege):
    consumer = await siege.connect()
    number = 0
    for data in HARMLESS.values():
        for bit in range(16 * 8, len(data) * 8, 3):
            number += 1
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            damaged[4:12] = number.to_bytes(8, "big")
            consumer.send(bytes(damaged))
        await asyncio.sleep(0)
    assert len(await answers(consumer, number)) == number
    consumer.close()


async def test_broken_headers_end_one_connection_each(siege):
    data = request(1, VICTIM)
    for bit in range(16 * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        consumer = await siege.connect()
        consumer.send(bytes(damaged) + data[: bit + 1])
        await asyncio.sleep(0.002)
        consumer.reset() if bit % 2 else consumer.close()


async def test_consumers_that_come_and_go(siege):
    siege.bad.delay = 0.02
    for number in range(600):
        consumer = await siege.connect()
        consumer.send((request(1, VICTIM, timeout="100") * 3)[: number % 400])
        if number % 3 == 0:
            await asyncio.sleep(0.001)
        consumer.reset() if number % 2 else consumer.close()


async def test_a_storm_of_deadlines(siege):
    siege.bad.is_silent = True
    consumer = await siege.connect()
    for number in range(5000):
        consumer.send(request(number, VICTIM, timeout="1"))
        if number % 500 == 0:
            await asyncio.sleep(0.05)
    assert len(await answers(consumer, 5000)) == 5000
    assert {each.status for each in consumer.frames} <= {31, 20}, "timed out, or one too many"
    consumer.close()


async def test_ten_thousand_names(siege):
    consumer = await siege.connect()
    before = len(await siege.metrics())
    for number in range(10_000):
        words = [
            {"service": VICTIM, "method": f"m{number}"},
            {"service": VICTIM, "dubbo__tag": f"t{number}"},
            {"service": VICTIM, "version": f"{number}.0"},
            {"service": f"x.Invented{number}"},
        ][number % 4]
        consumer.send(request(number, **words))
        if number % 250 == 0:
            await answers(consumer, number - 750)
    assert len(await answers(consumer, 10_000)) == 10_000
    assert len(await siege.metrics()) - before < 4000
    consumer.close()


def twice(link, call):
    link.send(reply(call.number) * 2)


def wrong_numbers(link, call):
    link.send(reply(call.number + 10**6), reply(2**64 - 1), reply(0))


def junk(link, call):
    link.send(os.urandom(200))


def cut_off(link, call):
    link.transport.write(reply(call.number)[: random.randrange(30)])
    link.close()


def calls_back(link, call):
    if call.is_request:  # and not a refusal of such a call
        link.send(request(call.number, "x.Y") * 20, reply(call.number))


def changes_its_mind(link, call):
    link.send(readonly(), writeable(), heartbeat(9), reply(call.number))


def announces_too_much(link, call):
    data = frame(0x02, 20, call.number, b"")
    link.send(data[:12] + b"\x7f\xff\xff\xff")


@pytest.mark.parametrize(
    "manners",
    [twice, wrong_numbers, junk, cut_off, calls_back, changes_its_mind, announces_too_much],
)
async def test_a_provider_without_manners(siege, manners):
    siege.bad.on_call = manners
    consumer = await siege.connect()
    for number in range(200):
        consumer.send(request(number, VICTIM, timeout="300"))
        if number % 20 == 0:
            await asyncio.sleep(0.01)
    assert len(await answers(consumer, 200)) == 200
    consumer.close()


@pytest.mark.parametrize("flood", [heartbeat(1), readonly() + writeable(), request(5, "x.Y")])
async def test_a_provider_that_floods_and_does_not_read(siege, flood):
    siege.bad.on_call = lambda link, call: link.transport.pause_reading()
    consumer = await siege.connect()
    consumer.send(request(1, VICTIM, timeout="100"))
    await answers(consumer, 1)
    (link,) = siege.bad.open_links
    sent = 0
    while sent < 4_000_000 and not link.is_closed:
        if link.transport.get_write_buffer_size() < 100_000:
            link.send(flood * 1000)
            sent += len(flood) * 1000
        await asyncio.sleep(0.001)
    assert (await siege.metrics())["process_resident_memory_bytes"] < 150e6
    consumer.close()
    link.close()
