"""Events in, requests and answers out, with a client that does nothing by itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sidecar.discovery.slot import Slot
from sidecar.discovery.stats import RegistryStats
from sidecar.registry import zookeeper
from sidecar.registry import zookeeper_client as zc
from sidecar.registry.zookeeper import ZooKeeperRegistry, hosts_text
from sidecar.registry.zookeeper_client import Item
from sidecar.settings.schema import Registry
from tests.fixtures.loop import StillLoop

CART = Slot("providers", "demo.Cart")
RULE = Slot("rule", "cart-app.tag-router")
CART_PATH = "/dubbo/demo.Cart/providers"
RULE_PATH = "/dubbo/config/dubbo/cart-app.tag-router"


class FakeClient:
    def __init__(self, hosts, session_timeout, credentials, loop, take):
        self.hosts = hosts
        self.credentials = credentials
        self.take = take
        self.requests = []
        self.is_dead = False
        self.log = []

    def start(self):
        self.log.append("start")

    def restart(self):
        self.log.append("restart")
        self.is_dead = False

    async def stop(self):
        self.log.append("stop")

    def get_children(self, path, token):
        self.requests.append(("children", path, token))

    def get(self, path, token):
        self.requests.append(("get", path, token))

    def exists(self, path, token):
        self.requests.append(("exists", path, token))


class Receiver:
    def __init__(self):
        self.log = []

    def linked(self, registry):
        self.log.append(("linked",))

    def lost(self, registry):
        self.log.append(("lost",))

    def listed(self, registry, slot, names):
        self.log.append(("listed", slot, list(names)))

    def text(self, registry, slot, text, version):
        self.log.append(("text", slot, text, version))

    def failed(self, registry, slot, kind):
        self.log.append(("failed", slot, kind))


@pytest.fixture
def rig(monkeypatch):
    monkeypatch.setattr(zookeeper, "ZooKeeperClient", FakeClient)
    loop, receiver, stats = StillLoop(), Receiver(), RegistryStats()
    settings = Registry(name="main", url="zookeeper://zk1:2181,zk2:2182/dubbo")
    registry = ZooKeeperRegistry(settings, receiver, stats, loop)
    registry.start()
    return SimpleNamespace(
        loop=loop, receiver=receiver, stats=stats, registry=registry, client=registry._client
    )


def feed(rig, *items):
    rig.client.take([Item(1, *item) for item in items])
    rig.loop.run()


def sent(rig):
    rig.loop.run()
    requests = list(rig.client.requests)
    rig.client.requests.clear()
    return requests


def told(rig):
    log = list(rig.receiver.log)
    rig.receiver.log.clear()
    return log


def armed(rig):
    rig.registry.watch(CART)
    feed(rig, (zc.LINKED,))
    ((_, path, token),) = sent(rig)
    feed(rig, (zc.CHILDREN, path, token, ["a"]))
    told(rig)
    return token


def test_hosts_text():
    assert hosts_text((("zk1", 2181), ("2001:db8::1", 2182))) == "zk1:2181,[2001:db8::1]:2182"


def test_credentials(monkeypatch):
    monkeypatch.setattr(zookeeper, "ZooKeeperClient", FakeClient)
    settings = Registry(name="m", url="zookeeper://zk", username="u", password="p")
    registry = ZooKeeperRegistry(settings, Receiver(), RegistryStats(), StillLoop())
    assert registry._client.credentials == "u:p"


def test_a_list_is_read_and_told(rig):
    rig.registry.watch(CART)
    assert sent(rig) == []
    feed(rig, (zc.LINKED,))
    ((kind, path, token),) = sent(rig)
    assert (kind, path) == ("children", CART_PATH)
    feed(rig, (zc.CHILDREN, path, token, ["a", "b"]))
    assert told(rig) == [("linked",), ("listed", CART, ["a", "b"])]
    assert rig.stats.reads == 1


def test_an_event_is_served_after_the_delay(rig):
    token = armed(rig)
    feed(rig, (zc.FIRED, CART_PATH, token))
    rig.loop.advance(0.9)
    assert sent(rig) == []
    rig.loop.advance(0.2)
    ((kind, path, again),) = sent(rig)
    assert (kind, path) == ("children", CART_PATH)
    assert again > token
    assert rig.stats.events == 1


def test_a_missing_node_is_probed_and_told_as_empty(rig):
    rig.registry.watch(CART)
    feed(rig, (zc.LINKED,))
    ((_, path, token),) = sent(rig)
    feed(rig, (zc.NO_NODE, path, token))
    ((kind, path, token),) = sent(rig)
    assert kind == "exists"
    assert told(rig) == [("linked",)]
    feed(rig, (zc.EXISTENCE, path, token, False))
    assert told(rig) == [("listed", CART, [])]
    feed(rig, (zc.FIRED, path, token))
    rig.loop.advance(1.1)
    assert sent(rig)[0][0] == "children"


def test_rules_are_probed_first_then_read_without_delay(rig):
    rig.registry.watch(RULE)
    feed(rig, (zc.LINKED,))
    ((kind, path, token),) = sent(rig)
    assert (kind, path) == ("exists", RULE_PATH)
    feed(rig, (zc.EXISTENCE, path, token, True))
    ((kind, path, token),) = sent(rig)
    assert kind == "get"
    feed(rig, (zc.CONTENT, path, token, (b"tags: []", 7)))
    assert told(rig) == [("linked",), ("text", RULE, "tags: []", 7)]
    feed(rig, (zc.FIRED, path, token))
    rig.loop.advance(0.06)
    ((kind, path, token),) = sent(rig)
    feed(rig, (zc.NO_NODE, path, token))
    ((kind, path, token),) = sent(rig)
    feed(rig, (zc.EXISTENCE, path, token, False))
    assert told(rig) == [("text", RULE, "", 0)]


def test_failures_are_told_with_their_kind(rig):
    rig.registry.watch(CART)
    feed(rig, (zc.LINKED,))
    ((_, path, token),) = sent(rig)
    feed(rig, (zc.FAILED, path, token, "noauth"))
    assert told(rig)[1:] == [("failed", CART, "noauth")]
    rig.loop.advance(0.9)
    assert sent(rig) == []
    rig.loop.advance(0.2)
    assert len(sent(rig)) == 1


def test_a_request_without_reply_is_told_and_repeated(rig):
    rig.registry.watch(CART)
    feed(rig, (zc.LINKED,))
    sent(rig)
    rig.loop.advance(61)
    assert ("failed", CART, "timeout") in told(rig)
    assert len(sent(rig)) == 1


def test_loss_is_told_once_and_everything_is_read_again(rig):
    armed(rig)
    feed(rig, (zc.LOST,), (zc.LOST,))
    assert told(rig) == [("lost",)]
    rig.loop.advance(100)
    assert sent(rig) == []
    feed(rig, (zc.LINKED,))
    assert told(rig) == [("linked",)]
    assert len(sent(rig)) == 1


def test_late_answers_change_nothing(rig):
    token = armed(rig)
    feed(rig, (zc.CHILDREN, CART_PATH, token - 1, ["old"]), (zc.FIRED, CART_PATH, token - 1))
    assert told(rig) == []
    rig.registry.unwatch(CART)
    rig.registry.unwatch(CART)
    feed(rig, (zc.FIRED, CART_PATH, token), (zc.CHILDREN, CART_PATH, token, ["old"]))
    assert told(rig) == []
    rig.loop.advance(10)
    assert sent(rig) == []


def test_a_defect_in_one_answer_does_not_cost_the_next(rig):
    token = armed(rig)
    other = Slot("routers", "demo.Cart")
    rig.registry.watch(other)
    ((_, path, second),) = sent(rig)
    rig.receiver.listed = lambda *_: 1 / 0
    feed(rig, (zc.CHILDREN, path, second, ["x"]), (zc.FIRED, CART_PATH, token))
    assert rig.stats.errors == {"internal": 1}
    rig.loop.advance(1.1)
    assert [request[1] for request in sent(rig)] == [CART_PATH]


def test_a_dead_client_is_replaced_and_silence_is_reported(rig, caplog):
    rig.client.is_dead = True
    rig.loop.advance(5.1)
    assert rig.client.log == ["start", "restart"]
    assert rig.stats.errors == {"client": 1}
    rig.loop.advance(120)
    assert rig.client.log == ["start", "restart"]
    assert 1 <= sum("cannot reach" in record.message for record in caplog.records) <= 2
    feed(rig, (zc.LINKED,))
    rig.client.is_dead = True
    rig.loop.advance(20)
    assert rig.client.log == ["start", "restart"]


def test_view(rig):
    armed(rig)
    rig.registry.watch(RULE)
    sent(rig)
    assert rig.registry.view() == {
        "kind": "zookeeper",
        "hosts": "zk1:2181,zk2:2182",
        "root": "/dubbo",
        "connected": True,
        "paths": {"armed": 1, "reading": 1},
    }


async def test_nothing_happens_after_stop(rig):
    armed(rig)
    rig.registry.watch(RULE)
    await rig.registry.stop()
    assert rig.client.log == ["start", "stop"]
    assert sent(rig) == []
    rig.loop.advance(100)
    assert sent(rig) == []


async def test_stop_before_start_is_fine(monkeypatch):
    monkeypatch.setattr(zookeeper, "ZooKeeperClient", FakeClient)
    settings = Registry(name="m", url="zookeeper://zk")
    await ZooKeeperRegistry(settings, Receiver(), RegistryStats(), StillLoop()).stop()
