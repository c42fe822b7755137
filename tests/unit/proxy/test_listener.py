import asyncio
import os

import pytest

from sidecar.model.errors import SidecarError
from sidecar.proxy.listener import EVERY_ADDRESS, Listener, is_of_this_machine
from sidecar.settings.schema import Listener as ListenerSettings


class Consumer(asyncio.Protocol):
    """Stands for a consumer's connection."""

    transport = None

    def connection_made(self, transport):
        self.transport = transport


class Transport:
    """A connection between two addresses."""

    def __init__(self, peer, own):
        self._names = {"peername": peer, "sockname": own}
        self.protocol = None
        self.is_aborted = False

    def get_extra_info(self, name):
        return self._names[name]

    def set_protocol(self, protocol):
        self.protocol = protocol

    def abort(self):
        self.is_aborted = True


class Loop:
    """Records what is listened on."""

    def __init__(self):
        self.host = self.accept = None

    async def create_server(self, accept, host, port, backlog):
        self.host, self.accept = host, accept


async def listening(**settings):
    loop, consumers, refused = Loop(), [], []

    def admit():
        consumers.append(Consumer())
        return consumers[-1]

    listener = Listener(loop, ListenerSettings(**settings), admit, lambda: refused.append(1))
    await listener.start()
    return loop, consumers, refused


@pytest.mark.parametrize(
    ("peer", "own", "is_own"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.5", "127.0.0.1", True),
        ("192.0.2.2", "192.0.2.2", True),
        ("192.0.2.3", "192.0.2.2", False),
        ("192.0.2.22", "192.0.2.2", False),
    ],
)
def test_who_is_of_this_machine(peer, own, is_own):
    assert is_of_this_machine(peer, own) is is_own


async def test_a_consumer_that_calls_the_network_address_is_let_in():
    loop, consumers, refused = await listening()
    assert loop.host == EVERY_ADDRESS
    transport = Transport(("192.0.2.2", 4711), ("192.0.2.2", 20880))
    loop.accept().connection_made(transport)
    assert transport.protocol is consumers[0]
    assert consumers[0].transport is transport
    assert not refused


@pytest.mark.parametrize(
    ("peer", "counted"),
    [(("192.0.2.3", 4711), [1]), pytest.param(None, [], id="reset before it was accepted")],
)
async def test_another_machine_is_turned_away(peer, counted):
    loop, consumers, refused = await listening()
    transport = Transport(peer, ("192.0.2.2", 20880))
    loop.accept().connection_made(transport)
    assert transport.is_aborted
    assert refused == counted
    assert consumers == []


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({"same_machine": False}, "127.0.0.1"),
        ({"address": "192.0.2.2:20880"}, "192.0.2.2"),
        ({"address": "[::1]:20880"}, "::1"),
    ],
)
async def test_other_listeners_listen_where_they_are_told_to(settings, host):
    loop, consumers, _ = await listening(**settings)
    assert loop.host == host
    assert loop.accept() is consumers[0]


async def test_a_unix_socket_that_cannot_be_listened_on_leaves_no_file(tmp_path, monkeypatch):
    class FullLoop:
        async def create_unix_server(self, accept, sock, backlog):
            assert os.listdir() == ["s"]
            raise OSError(24, "Too many open files")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sidecar.proxy.listener.parse_listen_address", lambda _: ("s", -1))
    listener = Listener(FullLoop(), ListenerSettings(address="unix:///s"), None, None)
    with pytest.raises(SidecarError, match=r"^cannot listen on unix:///s: Too many open files$"):
        await listener.start()
    assert os.listdir() == []
    listener.stop()
