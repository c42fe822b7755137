"""The driver in a loop that stands still, with registries that only record."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sidecar.discovery.slot import Slot
from sidecar.model import reason
from sidecar.model.service import ServiceKey
from sidecar.registry import driver as module
from sidecar.registry.driver import RegistryDriver
from sidecar.settings.schema import Registry, Services, Settings
from sidecar.settings.units import Duration
from sidecar.telemetry.counters import Counters
from tests.fixtures.board import Board
from tests.fixtures.loop import StillLoop
from tests.fixtures.provider_names import provider_name

CART = ServiceKey("demo.Cart")
PROVIDERS = Slot("providers", "demo.Cart")


class FakeSource:
    def __init__(self, settings, receiver, stats, loop):
        self.name = settings.name
        self.kind = settings.url.partition(":")[0]
        self.receiver = receiver
        self.slots = []
        self.log = []

    def start(self):
        self.log.append("start")

    async def stop(self):
        self.log.append("stop")

    def watch(self, slot):
        self.slots.append(slot)
        if slot.kind == "rule":
            self.receiver.text(self.name, slot, "", 0)

    def unwatch(self, slot):
        self.slots.remove(slot)

    def view(self):
        return {"kind": self.kind}


@pytest.fixture
def make(monkeypatch):
    monkeypatch.setattr(module, "ZooKeeperRegistry", FakeSource)
    monkeypatch.setattr(module, "FileRegistry", FakeSource)

    def make(required=False, urls=("zookeeper://zk/dubbo",), **services):
        loop, board, counters = StillLoop(), Board(), Counters()
        if isinstance(required, bool):
            required = [required] * len(urls)
        settings = Settings(
            registries=[
                Registry(name=f"r{k}", url=url, required=is_required)
                for k, (url, is_required) in enumerate(zip(urls, required, strict=True))
            ],
            services=Services(**services),
        )
        clock = SimpleNamespace(ahead=0.0)
        driver = RegistryDriver(settings, board, counters, loop, lambda: loop.now + clock.ahead)
        driver.start()
        loop.run()
        return SimpleNamespace(
            loop=loop,
            board=board,
            counters=counters,
            driver=driver,
            sources=driver._sources,
            source=driver._sources[0],
            clock=clock,
        )

    return make


def answer(rig, names, slot=PROVIDERS):
    rig.driver.listed("r0", slot, names)
    rig.loop.run()


def test_each_url_has_its_registry(make):
    rig = make(urls=("zookeeper://zk/dubbo", "file:///x.yaml"))
    assert [each.kind for each in rig.sources] == ["zookeeper", "file"]
    assert [each.log for each in rig.sources] == [["start"], ["start"]]
    assert set(rig.driver.stats) == {"r0", "r1"}


def test_resolve_watches_in_every_registry(make):
    rig = make(urls=("zookeeper://zk/dubbo", "file:///x.yaml"))
    rig.driver.resolve("demo.Cart")
    rig.driver.resolve("demo.Cart")
    rig.loop.run()
    assert PROVIDERS in rig.source.slots
    assert rig.source.slots == rig.sources[1].slots
    assert len(set(rig.source.slots)) == len(rig.source.slots) == 6
    assert rig.board.log == [("admitted", "demo.Cart")]


def test_names_from_the_wire_that_are_no_services(make):
    rig = make()
    for text in (
        "",
        "a b",
        "..",
        "a/b/c",
        "a\x00",
        "x\x00/a",
        "*",
        ":",
        "demo.Cart:1/2",
        "a" * 600,
    ):
        rig.driver.resolve(text)
    rig.loop.run()
    assert rig.source.slots == []
    assert rig.counters.named["bad_service", ""] == 10


def test_too_many_services_are_not_watched(make):
    rig = make()
    rig.board.is_full = True
    rig.driver.resolve("demo.Cart")
    rig.loop.run()
    assert rig.source.slots == []


def test_preload_and_readiness(make):
    rig = make(required=True, preload=["demo.Cart", "demo.Pay"])
    assert rig.board.log == [("named", "demo.Cart"), ("named", "demo.Pay")]
    assert rig.driver.unready() == ["demo.Cart", "demo.Pay"]
    rig.driver.linked("r0")
    answer(rig, [provider_name(11)])
    assert rig.driver.unready() == ["demo.Pay"]
    assert rig.driver.unresolved() == 1
    answer(rig, [], Slot("providers", "demo.Pay"))
    assert rig.driver.unready() == []


def test_each_required_registry_has_to_answer_and_no_other(make):
    urls = ("zookeeper://zk/dubbo", "file:///x.yaml")
    rig = make(required=True, urls=urls, preload=["demo.Cart"])
    answer(rig, [provider_name(11)])
    assert rig.driver.unready() == ["demo.Cart"]
    rig.driver.listed("r1", PROVIDERS, [])
    rig.loop.run()
    assert rig.driver.unready() == []


def test_a_preloaded_service_that_nobody_provides_is_read_all_the_same(make):
    urls = ("zookeeper://zk/dubbo", "file:///x.yaml")
    rig = make(required=[True, False], urls=urls, preload=["demo.Cart"])
    answer(rig, [])
    assert rig.driver.unready() == []
    assert rig.driver.unresolved() == 1


def test_readiness_does_not_need_a_registry_that_is_not_required(make):
    rig = make(preload=["demo.Cart"])
    assert rig.driver.unready() == []
    assert rig.driver.unresolved() == 1


def test_long_lists_leave_turns_of_the_loop_to_others(make):
    rig = make()
    rig.driver.resolve("demo.Cart")
    rig.loop.run()
    rig.driver.listed("r0", PROVIDERS, [provider_name(1, port=1000 + k) for k in range(2000)])
    turns = rig.loop.run()
    assert turns >= 10
    assert len(rig.board.instances()) == 2000
    assert rig.board.count("publish") == 1


def test_waiting_ends_after_its_time(make):
    rig = make(wait=Duration(2.0))
    rig.driver.resolve("demo.Cart")
    rig.loop.advance(1.0)
    rig.driver.resolve("demo.Pay")
    rig.loop.advance(1.1)
    assert rig.board.failures == {"demo.Cart": reason.REGISTRY_UNAVAILABLE}
    rig.loop.advance(1.0)
    assert set(rig.board.failures) == {"demo.Cart", "demo.Pay"}


def test_failures_are_told(make):
    rig = make()
    rig.driver.resolve("demo.Cart")
    rig.loop.run()
    rig.driver.failed("r0", PROVIDERS, "noauth")
    rig.loop.run()
    assert rig.board.failures == {"demo.Cart": reason.REGISTRY_NOAUTH}


def test_losing_a_registry_takes_nothing_away(make):
    rig = make()
    rig.driver.resolve("demo.Cart")
    rig.driver.linked("r0")
    rig.loop.run()
    answer(rig, [provider_name(11)])
    rig.driver.lost("r0")
    rig.loop.run()
    assert rig.board.hosts() == {11}


def test_idle_services_are_released_unless_named(make):
    rig = make(idle_release=Duration(100.0), preload=["demo.Pay"])
    for name in ("demo.Cart", "demo.Old"):
        rig.driver.resolve(name)
        rig.loop.run()
        answer(rig, [provider_name(11, name)], Slot("providers", name))
    rig.loop.advance(90)
    rig.board.used["demo.Cart"] = int(rig.loop.now * 1000)
    rig.loop.advance(50)
    assert rig.board.removed == ["demo.Old"]
    rig.loop.advance(200)
    assert rig.board.removed == ["demo.Old", "demo.Cart"]
    assert {slot.name for slot in rig.source.slots if slot.kind == "providers"} == {"demo.Pay"}
    rig.driver.resolve("demo.Old")
    rig.loop.run()
    assert rig.driver.service(ServiceKey("demo.Old")) is not None


def test_services_with_nobody_in_them_are_released_after_a_minute(make):
    rig = make(preload=["demo.Pay"], wait=Duration(3.0))
    for name in ("demo.Empty", "demo.Silent", "demo.Cart"):
        rig.driver.resolve(name)
    rig.loop.run()
    answer(rig, [], Slot("providers", "demo.Empty"))
    answer(rig, [provider_name(11)])
    rig.loop.advance(50)
    assert rig.board.removed == []
    rig.loop.advance(130)
    assert rig.board.removed == ["demo.Empty", "demo.Silent"]


def test_a_service_that_still_waits_for_its_answer_is_kept(make):
    rig = make(wait=Duration(300.0))
    rig.driver.resolve("demo.Cart")
    rig.loop.advance(250)
    assert rig.board.removed == []


def test_too_many_services_are_told_to_the_operator(make, caplog):
    rig = make(max_services=7)
    rig.board.is_full = True
    rig.driver.resolve("demo.Cart")
    assert rig.driver.service(CART) is None
    assert caplog.messages == ["demo.Cart is not watched: services.max_services (7) are already"]


def test_a_clock_that_is_set_right_makes_no_service_idle(make):
    rig = make(idle_release=Duration(100.0))
    rig.driver.resolve("demo.Cart")
    answer(rig, [provider_name(11)])
    rig.clock.ahead = 3600.0
    rig.loop.advance(90.0)
    assert rig.board.removed == []
    rig.loop.advance(40.0)
    assert rig.board.removed == ["demo.Cart"]


def test_a_released_service_is_watched_nowhere(make):
    rig = make()
    rig.driver.resolve("demo.Cart")
    rig.loop.run()
    rig.driver.release(CART)
    rig.loop.run()
    assert rig.source.slots == []
    assert rig.driver.service(CART) is None


def test_an_invalid_rule_is_logged_once(make, caplog):
    rig = make()
    rig.driver.resolve("demo.Cart")
    rig.loop.run()
    slot = Slot("rule", "demo.Cart.tag-router")
    for _ in range(3):
        rig.driver.text("r0", slot, "{tags: [", 5)
    assert sum("is no rule" in record.message for record in caplog.records) == 1
    assert rig.driver.rules()[0]["error"]


def test_a_defect_does_not_end_discovery(make, monkeypatch):
    rig = make()
    rig.driver.resolve("demo.Cart")
    rig.loop.run()
    with monkeypatch.context() as patch:
        patch.setattr("sidecar.discovery.listing.read_provider", lambda *_: 1 / 0)
        answer(rig, [provider_name(11)])
    assert rig.counters.named["discovery_failed", ""] == 1
    answer(rig, [provider_name(12)])
    assert rig.board.hosts() == {12}


def test_views(make):
    rig = make()
    rig.driver.resolve("demo.Cart")
    rig.loop.run()
    answer(rig, [provider_name(11), "junk"])
    (view,) = rig.driver.registries()
    assert view["name"] == "r0"
    assert view["kind"] == "zookeeper"
    assert (view["rows"], view["parsed"], view["refused"]) == (2, 2, {"unparsable": 1})
    assert rig.driver.service(CART)["instances"] == 1


async def test_stop(make):
    rig = make()
    rig.driver.resolve("demo.Cart")
    rig.loop.run()
    rig.driver.listed("r0", PROVIDERS, [provider_name(11)])
    await rig.driver.stop()
    rig.loop.advance(1000)
    assert rig.source.log == ["start", "stop"]
    assert rig.board.snapshots == {}
    rig.driver.resolve("demo.Pay")
    rig.driver.linked("r0")
    rig.loop.run()
    assert len(rig.source.slots) == 6
