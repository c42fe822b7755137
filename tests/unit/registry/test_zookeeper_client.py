"""What kazoo hands over becomes items; kazoo itself is tested against a real server elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import pytest
from kazoo import exceptions
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent

from sidecar.registry import zookeeper_client as zc
from sidecar.registry.zookeeper_client import Item, ZooKeeperClient, failure_kind
from tests.fixtures.loop import StillLoop


class Result:
    def __init__(self):
        self.exception = None
        self.value = None

    def rawlink(self, callback):
        self.callback = callback

    def answer(self, value=None, exception=None):
        self.value, self.exception = value, exception
        self.callback(self)


class FakeKazoo:
    """Records requests; ``results`` holds one Result for each."""

    made: ClassVar[list] = []

    def __init__(self, **options):
        self.options = options
        self.listeners = []
        self.results = []
        self.watches = []
        self.calls = []
        self.client_state = KeeperState.CONNECTING
        FakeKazoo.made.append(self)

    def add_listener(self, listener):
        self.listeners.append(listener)

    def start_async(self):
        self.calls.append("start")

    def stop(self):
        self.calls.append("stop")

    def close(self):
        self.calls.append("close")

    def _request(self, kind, path, watch):
        self.calls.append((kind, path))
        self.watches.append(watch)
        self.results.append(Result())
        return self.results[-1]

    def get_children_async(self, path, watch, include_data):
        assert include_data
        return self._request("children", path, watch)

    def get_async(self, path, watch):
        return self._request("get", path, watch)

    def exists_async(self, path, watch):
        return self._request("exists", path, watch)


@pytest.fixture
def rig(monkeypatch):
    monkeypatch.setattr(zc, "KazooClient", FakeKazoo)
    monkeypatch.setattr(zc, "_in_thread", lambda action: action())
    FakeKazoo.made = []
    loop, items = StillLoop(), []
    client = ZooKeeperClient("zk:2181", 30.0, "u:p", loop, items.extend, max_list=100)
    client.start()
    return SimpleNamespace(
        loop=loop, items=items, client=client, kazoo=FakeKazoo.made[0], all=FakeKazoo.made
    )


def taken(rig):
    rig.loop.run()
    items = list(rig.items)
    rig.items.clear()
    return [(item.kind, item.path, item.token, item.value) for item in items]


def test_options(rig):
    options = rig.kazoo.options
    assert options["hosts"] == "zk:2181"
    assert options["timeout"] == 30.0
    assert options["auth_data"] == [("digest", "u:p")]
    assert options["connection_retry"]["max_tries"] == -1
    assert options["connection_retry"]["max_delay"] == zc.RETRY_MAX
    ZooKeeperClient("zk:2181", 30.0, "", rig.loop, list).start()
    assert rig.all[1].options["auth_data"] is None


def test_a_host_that_swallows_packets_is_left_soon(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "kazoo.handlers.utils.create_tcp_connection",
        lambda module, *_, timeout, **__: asked.append(timeout),
    )
    handler = zc._Handler()
    handler.create_connection(("192.0.2.1", 2181), timeout=30.0)
    handler.create_connection(("192.0.2.1", 2181), timeout=2.0)
    handler.create_connection(("192.0.2.1", 2181))
    assert asked == [zc.CONNECT_LIMIT, 2.0, zc.CONNECT_LIMIT]


def test_states(rig):
    (listener,) = rig.kazoo.listeners
    for state in (KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST):
        listener(state)
    assert [kind for kind, *_ in taken(rig)] == [zc.LINKED, zc.LOST, zc.LOST]


def test_answers(rig):
    rig.client.get_children("/a", 1)
    rig.client.get("/b", 2)
    rig.client.exists("/c", 3)
    rig.client.exists("/d", 4)
    children, content, there, gone = rig.kazoo.results
    children.answer((["x", "y"], None))
    content.answer((b"text", SimpleNamespace(mzxid=77)))
    there.answer(object())
    gone.answer(None)
    assert taken(rig) == [
        (zc.CHILDREN, "/a", 1, ["x", "y"]),
        (zc.CONTENT, "/b", 2, (b"text", 77)),
        (zc.EXISTENCE, "/c", 3, True),
        (zc.EXISTENCE, "/d", 4, False),
    ]


def test_errors(rig):
    for k, error in enumerate([exceptions.NoNodeError(), exceptions.NoAuthError(), OSError()]):
        rig.client.get_children("/a", k)
        rig.kazoo.results[-1].answer(exception=error)
    assert taken(rig) == [
        (zc.NO_NODE, "/a", 0, None),
        (zc.FAILED, "/a", 1, "noauth"),
        (zc.FAILED, "/a", 2, "error"),
    ]


def test_a_list_beyond_the_cap_is_a_failure(rig):
    rig.client.get_children("/a", 1)
    rig.kazoo.results[-1].answer((["x" * 50, "y" * 51], None))
    rig.client.get_children("/a", 2)
    rig.kazoo.results[-1].answer((["x" * 50, "y" * 50], None))
    assert [item[0] for item in taken(rig)] == [zc.FAILED, zc.CHILDREN]


def test_fc_01_the_event_of_a_broken_connection_is_no_change(rig):
    rig.client.get_children("/a", 1)
    (watch,) = rig.kazoo.watches
    watch(WatchedEvent(EventType.NONE, KeeperState.CONNECTING, None))
    assert taken(rig) == []
    watch(WatchedEvent(EventType.CHILD, KeeperState.CONNECTED, "/a"))
    assert taken(rig) == [(zc.FIRED, "/a", 1, None)]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exceptions.NoAuthError(), "noauth"),
        (exceptions.ConnectionLoss(), "connection"),
        (exceptions.SessionExpiredError(), "connection"),
        (exceptions.ConnectionClosedError(), "connection"),
        (exceptions.MarshallingError(), "error"),
    ],
)
def test_failure_kind(error, kind):
    assert failure_kind(error) == kind


def test_a_client_that_gave_up_is_dead(rig):
    assert not rig.client.is_dead
    for state in (KeeperState.CLOSED, KeeperState.AUTH_FAILED):
        rig.kazoo.client_state = state
        assert rig.client.is_dead
    assert not ZooKeeperClient("zk", 1.0, "", rig.loop, list).is_dead


def test_items_of_a_replaced_client_are_dropped(rig):
    rig.client.get_children("/a", 1)
    old = rig.kazoo
    rig.client.restart()
    assert old.calls[-2:] == ["stop", "close"]
    old.results[0].answer((["x"], None))
    old.watches[0](WatchedEvent(EventType.CHILD, KeeperState.CONNECTED, "/a"))
    old.listeners[0](KazooState.LOST)
    assert taken(rig) == []
    rig.all[1].listeners[0](KazooState.CONNECTED)
    assert [kind for kind, *_ in taken(rig)] == [zc.LINKED]


def test_a_client_that_cannot_be_ended_is_left_alone(rig, monkeypatch):
    monkeypatch.setattr(rig.kazoo, "stop", lambda: 1 / 0)
    rig.client.restart()
    assert len(rig.all) == 2


async def test_stop_is_bounded(rig, monkeypatch):
    import asyncio

    client = ZooKeeperClient("zk", 1.0, "", asyncio.get_running_loop(), list)
    await client.stop()
    client.start()
    await client.stop()
    assert rig.all[-1].calls[-2:] == ["stop", "close"]
    monkeypatch.setattr(zc, "STOP_LIMIT", 0.01)
    monkeypatch.setattr(zc, "_in_thread", lambda action: None)
    client.start()
    await client.stop()
    client._bridge.put(Item(1, zc.LINKED))
