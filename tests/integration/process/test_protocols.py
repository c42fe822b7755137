"""A service of several protocols in a real process: each meets only what speaks it."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.fixtures.dubbo_frames import text
from tests.fixtures.dubbo_peer import Provider, connect, ending, eventually
from tests.fixtures.zookeeper import free_port

INTERFACE = "com.x.Demo"
KEY = f"{INTERFACE}:1.0.0"
CONFIGURATION = """\
registries: [{{name: main, url: "file://{path}", allow_networks: ["127.0.0.0/8"]}}]
services: {{preload: ["com.x.Demo:1.0.0"]}}
upstream: {{warm: 1}}
"""


class Registry:
    """A registry file with the URLs of one service."""

    def __init__(self, path):
        self.path = path

    def write(self, *urls):
        listed = [f"{url}/{INTERFACE}?version=1.0.0{more}" for url, more in urls]
        self.path.write_text(json.dumps({"providers": listed}))


@pytest.fixture
def registry(tmp_path):
    return Registry(tmp_path / "registry.yaml")


def instances(program):
    return program.get(f"/services/{KEY}")[1]["instances_shown"]


def states(program):
    return {each["address"]: each["state"] for each in instances(program)}


def explained(program, query=""):
    return program.get(f"/explain?service={KEY}{query}")[1]


async def test_dubbo_calls_of_a_service_that_speaks_triple_only(run_program, registry):
    triple = await Provider().start()
    registry.write((f"tri://{triple.address}", ""), ("grpc://127.0.0.2:50051", "&weight=50"))
    program = run_program(CONFIGURATION.format(path=registry.path))
    program.wait_until(lambda: len(instances(program)) == 2)
    consumer = await connect(program.port)
    async with ending(triple, consumer):
        answer = await consumer.call()
        assert answer.status == 60
        assert answer.body == text(
            f"PROTOCOL_MISMATCH {KEY}: no instance speaks the protocol of the call"
        )
        assert triple.links == []
    assert {each["address"]: each["protocols"] for each in instances(program)} == {
        triple.address: ["triple"],
        "127.0.0.2:50051": ["triple"],
    }
    of_triple = explained(program)
    assert (of_triple["protocol"], of_triple["reason"]) == ("triple", "")
    assert sorted(of_triple["eligible"]) == sorted([triple.address, "127.0.0.2:50051"])
    of_dubbo = explained(program, "&protocol=dubbo")
    assert (of_dubbo["reason"], of_dubbo["eligible"]) == ("PROTOCOL_MISMATCH", [])
    (count,) = [
        line
        for line in program.get("/metrics")[1].splitlines()
        if line.startswith("sidecar_no_eligible_total{")
    ]
    assert 'reason="PROTOCOL_MISMATCH"' in count
    assert count.endswith(" 1")


async def test_dubbo_calls_of_a_service_of_both(run_program, registry):
    """Ten addresses speak Triple; the connections that are kept warm go to none of them either."""
    triple, dubbo, both = [await Provider(name).start() for name in ("triple", "dubbo", "both")]
    registry.write(
        (f"dubbo://{dubbo.address}", ""),
        (f"dubbo://{both.address}", "&ext.protocol=tri"),
        (f"tri://{triple.address}", ""),
        *((f"tri://127.0.0.{n}:50051", "") for n in range(2, 10)),
    )
    program = run_program(CONFIGURATION.format(path=registry.path))
    program.wait_until(lambda: len(instances(program)) == 11)
    consumer = await connect(program.port)
    async with ending(triple, dubbo, both, consumer):
        answers = {(await consumer.call()).body for _ in range(40)}
        assert len(answers) == 2
        assert len(dubbo.calls) + len(both.calls) == 40
        answer = explained(program)
        assert (answer["protocol"], answer["steps"][0]["out"]) == ("dubbo", 2)
        assert sorted(answer["eligible"]) == sorted([dubbo.address, both.address])
        assert len(explained(program, "&protocol=triple")["eligible"]) == 10
        registry.write((f"tri://{both.address}", ""), (f"dubbo://{dubbo.address}", ""))
        program.wait_until(lambda: len(instances(program)) == 2)
        for link in both.links:
            await link.gone()  # nobody speaks Dubbo there any more
        assert {(await consumer.call()).body for _ in range(20)} == {dubbo_answer(answers)}
    assert triple.links == []


def dubbo_answer(answers):
    (found,) = [each for each in answers if text("dubbo") in each[:10]]
    return found


class Port:
    """Listens, and keeps what each connection said and whether it has ended."""

    def __init__(self):
        self.links = []
        self.address = ""
        self._server = None

    async def start(self):
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Link(self), "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def stop(self):
        self._server.close()
        for link in self.links:
            link.transport.abort()
        await eventually(lambda: all(each.is_over for each in self.links))


SETTINGS = bytes(3) + b"\x04" + bytes(5)  # without them no HTTP/2 connection is used


class Link(asyncio.Protocol):
    """One connection to a port."""

    def __init__(self, port):
        self.said = b""
        self.is_over = False
        port.links.append(self)

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        if not self.said and data.startswith(b"PRI"):
            self.transport.write(SETTINGS)
        self.said += data

    def connection_lost(self, error):
        self.is_over = True


async def test_warm_connections_of_triple_go_where_it_is_spoken(run_program, registry):
    triple, dubbo, both = [await Port().start() for _ in range(3)]
    dead = f"127.0.0.1:{free_port()}"
    registry.write(
        (f"dubbo://{dubbo.address}", ""),
        (f"tri://{both.address}", "&ext.protocol=dubbo"),
        (f"grpc://{triple.address}", ""),
        (f"tri://{dead}", ""),
    )
    program = run_program(CONFIGURATION.format(path=registry.path), protocol="triple")
    program.wait_until(lambda: states(program).get(dead) == "backing off")
    assert set(states(program).values()) == {"available", "backing off"}
    of_triple = explained(program, "&protocol=triple")
    assert of_triple["steps"][-1]["excluded"] == [{"instance": dead, "reason": "backing off"}]
    assert sorted(of_triple["eligible"]) == sorted([triple.address, both.address])
    for port in (triple, both):
        await eventually(lambda port=port: port.links and port.links[0].said)
        assert port.links[0].said.startswith(b"PRI * HTTP/2.0")
    registry.write((f"dubbo://{both.address}", ""), (f"grpc://{triple.address}", ""))
    program.wait_until(lambda: len(instances(program)) == 2)
    await eventually(lambda: both.links[0].is_over)
    assert [link.is_over for link in triple.links] == [False]
    assert dubbo.links == []
    for port in (triple, dubbo, both):
        await port.stop()
