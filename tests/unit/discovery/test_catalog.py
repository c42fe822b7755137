"""What registries say in, what the sink is told out."""

from __future__ import annotations

import pytest

from sidecar.discovery import subscription
from sidecar.discovery.catalog import MAX_REFUSED_SHOWN, STEP, Catalog
from sidecar.discovery.interface import MAX_APPLICATIONS, MAX_STORED
from sidecar.discovery.rule_book import service_rule_names
from sidecar.discovery.slot import Slot
from sidecar.model import reason
from sidecar.model.protocol import DUBBO, EVERY, TRIPLE
from sidecar.model.service import ServiceKey
from sidecar.routing.router import Call
from sidecar.settings.schema import Registry, Services, Settings
from sidecar.telemetry.counters import Counters
from tests.fixtures.board import Board
from tests.fixtures.provider_names import provider_name

NOW = 1000.0
CART = ServiceKey("demo.Cart")
PROVIDERS = Slot("providers", "demo.Cart")
APP_RULE = "cart-app.tag-router"
GRAY_RULE = "{force: true, tags: [{name: gray, addresses: ['192.0.2.11:20880']}]}"


class World:
    """A catalog with registries that answer by themselves what they are asked."""

    def __init__(self, *registries, **services):
        self.board = Board()
        self.counters = Counters()
        names = registries or ("main",)
        settings = Settings(
            registries=[Registry(name=each, url="zookeeper://zk/dubbo") for each in names],
            services=Services(**services),
        )
        self.catalog = Catalog(settings, self.board, self.counters)
        self.names = names
        self.lists = {each: {} for each in names}
        self.rules = {each: {} for each in names}
        self.watched = []
        self.silent_rules = set()
        self.version = 0

    def stats(self, registry="main"):
        return self.catalog.stats[registry]

    def link(self):
        for each in self.names:
            self.catalog.linked(each)
        return self

    def subscribe(self, text="demo.Cart", now=NOW):
        self.catalog.subscribe(ServiceKey.parse(text), now)
        self.run()
        return self

    def set(self, *names, registry="main", slot=PROVIDERS):
        self.lists[registry][slot] = names
        if slot in self.watched:
            self.catalog.listed(registry, slot, names)
            self.run()

    def rule(self, name, text, registry="main"):
        self.version += 1
        self.rules[registry][name] = text
        if Slot("rule", name) in self.watched:
            problem = self.catalog.rule(registry, name, text, self.version if text else 0, 0)
            self.run()
            return problem
        return ""

    def run(self):
        """Answer what is asked and do the work until nothing is left."""
        while True:
            for slot, is_wanted in self.catalog.take_watches():
                if not is_wanted:
                    self.watched.remove(slot)
                    continue
                assert slot not in self.watched
                self.watched.append(slot)
                for registry in self.names:
                    if registry in self.catalog._linked:
                        self.answer(registry, slot)
            if not self.catalog.work(3) and not self.catalog._queue._commands:
                return

    def answer(self, registry, slot):
        if slot.kind == "rule":
            if slot.name not in self.silent_rules:
                text = self.rules[registry].get(slot.name, "")
                self.catalog.rule(registry, slot.name, text, 0, 0)
        elif slot in self.lists[registry]:
            self.catalog.listed(registry, slot, self.lists[registry][slot])


def b5(**more):
    return [provider_name(n, **more) for n in range(11, 16)]


@pytest.fixture
def world():
    return World().link()


def test_a_list_becomes_a_snapshot(world):
    world.set(*b5())
    world.subscribe()
    assert world.board.hosts() == {11, 12, 13, 14, 15}
    assert world.board.count("publish") == 1
    assert world.stats().rows == world.stats().parsed == 5
    assert CART in world.catalog
    assert world.catalog.is_published(CART)


def test_every_category_and_every_rule_spelling_is_watched(world):
    world.set(*b5())
    world.subscribe()
    assert set(world.watched) == {
        Slot("providers", "demo.Cart"),
        Slot("configurators", "demo.Cart"),
        Slot("routers", "demo.Cart"),
        Slot("rule", "demo.Cart::.tag-router"),
        Slot("rule", "demo.Cart:0.0.0:.tag-router"),
        Slot("rule", "demo.Cart.tag-router"),
        Slot("rule", APP_RULE),
    }


def test_nothing_is_published_before_the_first_answer(world):
    world.subscribe()
    assert world.board.log == []
    assert not world.catalog.is_published(CART)


def test_an_empty_list_is_published_with_its_reason(world):
    world.set()
    world.subscribe()
    assert world.board.snapshots["demo.Cart"].empty_reason == reason.EMPTY_REGISTRY
    world.set(*b5())
    assert len(world.board.hosts()) == 5
    world.set()
    assert world.board.hosts() == set()


def test_only_new_names_are_parsed(world):
    world.set(*b5())
    world.subscribe()
    world.set(*b5(), provider_name(16))
    assert world.stats().parsed == 6
    world.set(*b5()[1:], provider_name(16))
    assert world.stats().parsed == 6
    assert world.board.hosts() == {12, 13, 14, 15, 16}
    world.set(*b5()[1:], provider_name(16))
    assert world.stats().rows == 5 + 6 + 5 + 5
    assert world.stats().parsed == 6


def test_lists_are_taken_in_by_steps_and_published_once(world):
    world.set(*[provider_name(n % 250, port=20000 + n) for n in range(1000)])
    world.subscribe()
    assert world.board.snapshots["demo.Cart"].size == 1000
    assert world.board.count("publish") == 1


def test_a_newer_list_overtakes_one_that_is_on_its_way(world):
    world.set(*b5())
    world.subscribe()
    world.catalog.listed("main", PROVIDERS, [provider_name(n) for n in range(100, 200)])
    assert world.catalog.work(10)
    assert world.board.hosts() == {11, 12, 13, 14, 15}
    world.set(provider_name(11), provider_name(21))
    assert world.board.hosts() == {11, 21}
    assert world.board.count("publish") == 2


def test_services_of_one_interface_share_what_is_read(world):
    world.set(provider_name(11, version="1.0"), provider_name(12, version="2.0"), provider_name(13))
    world.subscribe("demo.Cart:1.0").subscribe("demo.Cart:2.0").subscribe()
    assert world.board.hosts("demo.Cart:1.0") == {11}
    assert world.board.hosts("demo.Cart:2.0") == {12}
    assert world.board.hosts() == {13}
    assert world.stats().parsed == 3
    world.set(provider_name(11, version="1.0"))
    assert world.board.hosts("demo.Cart:1.0") == {11}
    snapshot = world.board.snapshots["demo.Cart:2.0"]
    assert snapshot.empty_reason == reason.VERSION_MISMATCH


def test_subscribing_twice_is_subscribing_once(world):
    world.set(*b5())
    world.subscribe().subscribe()
    assert world.board.count("publish") == 1


def test_losing_the_connection_takes_nothing_away(world):
    world.set(*b5())
    world.subscribe()
    assert world.stats().connected == 1
    world.catalog.lost("main")
    world.run()
    assert len(world.board.hosts()) == 5
    assert world.stats().connected == 0
    world.catalog.linked("main")
    world.set(*b5()[:2])
    assert world.board.hosts() == {11, 12}
    assert world.stats().resyncs == 2


def test_failed_requests_take_nothing_away(world):
    world.set(*b5())
    world.subscribe()
    for kind in ("noauth", "oversize", "error", "timeout"):
        world.catalog.failed("main", PROVIDERS, kind)
        world.run()
    assert len(world.board.hosts()) == 5
    assert world.board.failures == {}
    assert world.stats().errors == {"noauth": 1, "oversize": 1, "error": 1, "timeout": 1}
    assert world.catalog.view(CART)["registries"]["main"]["failure"] == "timeout"


def test_fc_05_no_permission_is_told_and_ends_with_the_first_list(world):
    world.subscribe("demo.Pay")
    world.catalog.failed("main", Slot("providers", "demo.Pay"), "noauth")
    assert world.board.failures["demo.Pay"] == reason.REGISTRY_NOAUTH
    world.catalog.expire(NOW + 100)
    assert world.board.failures["demo.Pay"] == reason.REGISTRY_NOAUTH
    world.subscribe("demo.Pay:1.0")
    assert world.board.failures["demo.Pay:1.0"] == reason.REGISTRY_NOAUTH
    world.set(*b5())
    world.subscribe()
    assert len(world.board.hosts()) == 5
    world.set(provider_name(21, "demo.Pay"), slot=Slot("providers", "demo.Pay"))
    assert world.board.hosts("demo.Pay") == {21}
    assert "demo.Pay" not in world.board.failures


def test_failed_reads_of_other_categories_are_only_counted(world):
    world.set(*b5())
    world.subscribe()
    world.catalog.failed("main", Slot("routers", "demo.Cart"), "noauth")
    world.catalog.failed("main", Slot("rule", APP_RULE), "noauth")
    assert world.board.failures == {}
    assert world.stats().errors == {"noauth": 2}


def test_fc_05_another_registry_with_a_list_is_enough():
    world = World("main", "spare").link()
    world.set(*b5(), registry="spare")
    world.subscribe()
    world.catalog.failed("main", PROVIDERS, "noauth")
    assert world.board.failures == {}
    assert len(world.board.hosts()) == 5


def test_waiting_ends_with_a_reason(world):
    world.subscribe()
    assert world.catalog.next_expiry() == NOW + 3.0
    world.catalog.expire(NOW + 2.9)
    assert world.board.failures == {}
    world.subscribe("demo.Cart:1.0", now=NOW + 1)
    world.catalog.expire(NOW + 3.0)
    assert world.board.failures == {"demo.Cart": reason.REGISTRY_UNAVAILABLE}
    assert world.catalog.next_expiry() == NOW + 4.0
    world.set(*b5())
    assert len(world.board.hosts()) == 5
    assert world.catalog.next_expiry() == 0.0


def test_release_forgets_and_a_new_subscription_reads_anew(world):
    world.set(*b5())
    world.subscribe().subscribe("demo.Cart:1.0")
    world.catalog.release(CART)
    world.run()
    assert CART not in world.catalog
    assert PROVIDERS in world.watched
    world.catalog.release(ServiceKey("demo.Cart", "1.0"))
    world.run()
    assert world.watched == []
    assert world.catalog.services() == []
    assert world.catalog.next_expiry() == 0.0
    assert len(world.board.gone) == 5
    world.catalog.release(CART)
    world.subscribe()
    assert len(world.board.hosts()) == 5
    assert world.stats().parsed == 10


def test_what_comes_after_a_release_is_dropped(world):
    world.set(*b5())
    world.subscribe()
    world.catalog.listed("main", PROVIDERS, b5()[:1])
    world.catalog.release(CART)
    world.catalog.listed("main", PROVIDERS, b5()[:1])
    world.catalog.failed("main", PROVIDERS, "noauth")
    assert world.catalog.rule("main", APP_RULE, GRAY_RULE, 1, 0) == ""
    world.run()
    assert len(world.board.hosts()) == 5
    assert world.board.failures == {}


def test_a_service_is_not_published_before_its_rules_were_read():
    world = World()
    world.silent_rules = {APP_RULE}
    world.link()
    world.set(*b5())
    world.subscribe()
    assert world.board.log == []
    world.rule(APP_RULE, GRAY_RULE)
    snapshot = world.board.snapshots["demo.Cart"]
    out = snapshot.dubbo.chain.route(Call(), snapshot.members, world.counters).out
    assert len(out) == 4


def test_a_rule_that_cannot_be_read_holds_nothing_up():
    world = World()
    world.silent_rules = {APP_RULE}
    world.link()
    world.set(*b5())
    world.subscribe()
    world.catalog.failed("main", Slot("rule", APP_RULE), "noauth")
    assert len(world.board.hosts()) == 5


def test_a_service_whose_rules_are_not_read_yet_holds_no_other_up(world):
    world.set(*b5())
    world.subscribe()
    world.silent_rules = set(service_rule_names(ServiceKey.parse("demo.Cart:2.0")))
    world.subscribe("demo.Cart:2.0")
    world.set(provider_name(11))
    assert world.board.hosts() == {11}
    assert world.board.addresses == {"192.0.2.11:20880"}
    assert "demo.Cart:2.0" not in world.board.snapshots


def test_addresses_are_kept_while_a_service_shows_the_list_before():
    world = World("main", "spare")
    world.catalog.linked("main")
    world.set(*b5())
    world.subscribe()
    world.catalog.linked("spare")
    world.catalog.rule("spare", APP_RULE, "", 0, 0)
    world.set(provider_name(11))
    assert (len(world.board.hosts()), world.board.gone) == (5, [])
    for name in service_rule_names(CART):
        world.catalog.rule("spare", name, "", 0, 0)
    assert (world.board.hosts(), len(world.board.gone)) == ({11}, 4)


def test_a_rule_of_one_service_costs_the_others_nothing(world, monkeypatch):
    world.set(*b5())
    for number in range(20):
        world.subscribe(f"demo.Cart:{number}.1")
    built = []
    build = subscription.Subscription.build
    monkeypatch.setattr(
        subscription.Subscription,
        "build",
        lambda self, *rest: (built.append(self.key.version), build(self, *rest)),
    )
    world.rule("demo.Cart:7.1:.tag-router", GRAY_RULE)
    assert built == ["7.1"]
    world.rule(APP_RULE, GRAY_RULE)
    assert len(built) == 21
    world.subscribe("demo.Cart:20.1")
    assert set(built[21:]) == {"20.1"}


def test_a_service_is_read_when_its_list_and_its_rules_are():
    world = World()
    world.silent_rules = {APP_RULE}
    world.link()
    assert not world.catalog.is_read(CART, ["main"])
    world.subscribe()
    assert not world.catalog.is_read(CART, ["main"])
    world.set(*b5())
    assert not world.catalog.is_read(CART, ["main"])
    world.rule(APP_RULE, "")
    assert world.catalog.is_read(CART, ["main"])


def test_a_lost_connection_ends_the_wait_for_rules():
    world = World()
    world.silent_rules = {APP_RULE}
    world.link()
    world.set(*b5())
    world.subscribe()
    world.catalog.lost("main")
    assert len(world.board.hosts()) == 5


def test_a_rule_change_is_published_without_reading_the_list_again(world):
    world.set(*b5())
    world.subscribe()
    epoch = world.board.snapshots["demo.Cart"].epoch
    assert world.rule(APP_RULE, GRAY_RULE) == ""
    assert world.board.snapshots["demo.Cart"].epoch > epoch
    assert world.stats().rows == 5
    published = world.board.count("publish")
    world.rule("demo.Cart.tag-router", "")
    assert world.board.count("publish") == published


def test_an_invalid_rule_is_counted_and_told(world):
    world.set(*b5())
    world.subscribe()
    world.rule(APP_RULE, GRAY_RULE)
    epoch = world.board.snapshots["demo.Cart"].epoch
    assert world.rule(APP_RULE, "{tags: [")
    assert world.counters.named["rule_invalid", "tag"] == 1
    assert world.board.snapshots["demo.Cart"].epoch == epoch
    assert world.catalog.rule_views(0)[0]["error"]


def test_rules_of_applications_follow_the_list(world):
    world.set(provider_name(11, application="a"), provider_name(12, application="b"))
    world.subscribe()
    assert Slot("rule", "a.tag-router") in world.watched
    world.set(provider_name(12, application="b"))
    assert Slot("rule", "a.tag-router") not in world.watched
    assert Slot("rule", "b.tag-router") in world.watched


def test_invented_application_names_are_not_watched(world):
    world.set(
        provider_name(11, application="../x"),
        provider_name(12, application=""),
        provider_name(13, application="a\x00b"),
        provider_name(14, application="n" * 300),
        *[provider_name(100 + n, application=f"app-{n}") for n in range(MAX_APPLICATIONS + 10)],
    )
    world.subscribe()
    rules = [slot for slot in world.watched if slot.kind == "rule"]
    assert len(rules) == MAX_APPLICATIONS + 3
    assert len(world.board.instances()) == MAX_APPLICATIONS + 14


def test_configurators_and_routers_are_kept_within_a_limit(world):
    world.set(*b5())
    world.subscribe()
    slot = Slot("configurators", "demo.Cart")
    world.set(*[f"override://{n}" for n in range(MAX_STORED + 5)], slot=slot)
    assert world.catalog.view(CART)["stored"] == {"main/configurators": MAX_STORED}
    assert world.board.count("publish") == 1


def test_fc_17_refused_addresses_are_named_with_their_reason(world):
    world.set(
        provider_name(11),
        provider_name(0, host="127.0.0.1"),
        provider_name(0, host="0.0.0.0"),
        "junk",
        provider_name(0, host="cart-7f9c"),
        provider_name(0, host="172.17.0.1"),
    )
    world.subscribe()
    assert {each.host for each in world.board.instances()} == {
        "192.0.2.11", "cart-7f9c", "172.17.0.1",
    }  # fmt: skip
    view = world.catalog.view(CART)
    assert view["refused_total"] == 3
    assert {(each["address"], each["reason"]) for each in view["refused"]} == {
        ("127.0.0.1:20880", "loopback"), ("0.0.0.0:20880", "unspecified"), ("", "unparsable"),
    }  # fmt: skip
    assert world.stats().refused == {"loopback": 1, "unspecified": 1, "unparsable": 1}
    world.set(provider_name(11))
    assert world.catalog.view(CART)["refused_total"] == 0
    assert len(world.catalog.view(CART)["refused"]) <= MAX_REFUSED_SHOWN
    assert world.catalog.view(ServiceKey("demo.Other")) is None


def test_fc_16_disabled_providers_serve_nobody():
    world = World().link()
    blue = {"group": "blue", "version": "2.0"}
    world.set(
        provider_name(11, default__group="blue", default__version="2.0"),
        provider_name(12, **blue),
        provider_name(13, enabled="false", **blue),
        provider_name(14, disabled="true", **blue),
    )
    world.subscribe("blue/demo.Cart:2.0")
    assert world.board.hosts("blue/demo.Cart:2.0") == {11, 12}


def test_fc_18_versions_are_kept_apart(world):
    dev = {"group": "dev"}
    world.set(
        provider_name(11, version="1.0.0", **dev),
        provider_name(12, version="1.0.0", **dev),
        provider_name(13, version="2.0.0", **dev),
        provider_name(14),
    )
    world.subscribe("dev/demo.Cart:1.0.0").subscribe("demo.Cart:0.0.0")
    assert world.board.hosts("dev/demo.Cart:1.0.0") == {11, 12}
    assert world.board.hosts() == {14}


@pytest.mark.parametrize("leaver", ["old", "new"])
def test_fc_10_twins_are_one_instance_throughout(world, leaver):
    old, new = provider_name(11), provider_name(11, started=1_700_000_600_000, pid="9")
    world.set(old)
    world.subscribe()
    (ordinal,) = world.board.snapshots["demo.Cart"].members
    world.set(old, new)
    assert world.board.instances()[0].started_ms == 1_700_000_600_000
    world.set(new if leaver == "old" else old)
    assert world.board.hosts() == {11}
    assert list(world.board.snapshots["demo.Cart"].members) == [ordinal]
    assert world.board.gone == []


def test_fc_10_an_older_twin_that_comes_later_changes_nothing(world):
    old, new = provider_name(11), provider_name(11, started=1_700_000_600_000)
    world.set(new)
    world.subscribe()
    world.set(new, old)
    assert world.board.instances()[0].started_ms == 1_700_000_600_000
    world.set(old)
    assert world.board.instances()[0].started_ms == 1_700_000_000_000
    world.set()
    assert world.board.hosts() == set()


def test_fc_12_a_flapping_child_keeps_its_identity(world):
    world.set(*b5())
    world.subscribe()
    ids = {each.address: each.id for each in world.board.instances()}
    for _ in range(6):
        world.set(*b5()[1:])
        assert len(world.board.hosts()) == 4
        world.set(*b5())
    assert {each.address: each.id for each in world.board.instances()} == ids


def test_several_registries_make_one_list():
    world = World("main", "spare").link()
    world.set(provider_name(11), provider_name(12))
    world.set(
        provider_name(11, started=1_700_000_600_000, dubbo__tag="gray"),
        provider_name(13),
        registry="spare",
    )
    world.subscribe()
    assert world.board.hosts() == {11, 12, 13}
    assert next(each for each in world.board.instances() if each.host.endswith("11")).tag == "gray"
    world.set()
    assert world.board.hosts() == {11, 13}
    world.catalog.lost("main")
    world.set(provider_name(13), registry="spare")
    assert world.board.hosts() == {13}


def test_a_registry_that_was_never_heard_of_removes_nothing():
    world = World("main", "spare")
    world.catalog.linked("main")
    world.set(*b5())
    world.subscribe()
    assert len(world.board.hosts()) == 5
    world.catalog.failed("spare", PROVIDERS, "connection")
    assert len(world.board.hosts()) == 5


def test_an_empty_first_list_waits_for_the_other_registries():
    world = World("file", "main")
    world.catalog.linked("file")
    world.set(registry="file")
    world.subscribe()
    assert world.board.log == [], "the other one is only just connecting"
    world.link()
    world.lists["main"][PROVIDERS] = b5()
    for slot in world.watched:
        world.answer("main", slot)
    world.run()
    assert len(world.board.hosts()) == 5
    world.set(registry="main")
    assert world.board.hosts() == set()


def test_an_empty_list_everywhere_is_published():
    world = World("file", "main").link()
    world.set(registry="file")
    world.subscribe()
    world.set(registry="main")
    assert world.board.snapshots["demo.Cart"].empty_reason == reason.EMPTY_REGISTRY


def test_what_one_registry_does_not_have_and_another_does_not_tell():
    world = World("file", "main")
    world.catalog.linked("file")
    world.set(registry="file")
    world.subscribe()
    world.catalog.expire(NOW + 3.0)
    assert world.board.failures == {"demo.Cart": reason.REGISTRY_UNAVAILABLE}
    world.set(registry="file")
    assert world.board.snapshots == {}
    world.set(provider_name(11), registry="file")
    assert world.board.hosts() == {11}


def test_fc_05_no_permission_counts_when_the_others_have_spoken():
    world = World("file", "main").link()
    world.subscribe()
    world.catalog.failed("main", PROVIDERS, "noauth")
    assert world.board.log == []
    world.set(registry="file")
    assert world.board.failures == {"demo.Cart": reason.REGISTRY_NOAUTH}
    world.set(*b5(), registry="file")
    assert len(world.board.hosts()) == 5
    world.catalog.failed("main", PROVIDERS, "noauth")
    assert world.board.failures == {}


def test_fc_05_no_permission_is_the_reason_when_the_time_is_over():
    world = World("file", "main").link()
    world.subscribe()
    world.catalog.failed("main", PROVIDERS, "noauth")
    world.catalog.expire(NOW + 3.0)
    assert world.board.failures == {"demo.Cart": reason.REGISTRY_NOAUTH}


@pytest.mark.parametrize("told", ["publish", "fail"])
def test_who_is_told_of_a_service_may_ask_for_another_of_its_interface(world, monkeypatch, told):
    tell = getattr(world.board, told)

    def tell_and_ask(key, what):
        tell(key, what)
        world.catalog.subscribe(ServiceKey("demo.Cart", version="1.0.0"), NOW)

    monkeypatch.setattr(world.board, told, tell_and_ask)
    world.subscribe().subscribe("demo.Cart:2.0.0")
    if told == "publish":
        world.set(*b5())
    else:
        world.catalog.failed("main", PROVIDERS, "noauth")
        world.run()
    for text in ("demo.Cart", "demo.Cart:1.0.0", "demo.Cart:2.0.0"):
        assert world.board.count("publish" if told == "publish" else reason.REGISTRY_NOAUTH, text)


def test_addresses_are_gone_when_no_service_has_them(world):
    pay = Slot("providers", "demo.Pay")
    world.set(provider_name(11), provider_name(12))
    world.set(provider_name(11, "demo.Pay"), slot=pay)
    world.subscribe().subscribe("demo.Pay")
    world.set(provider_name(12))
    assert world.board.gone == []
    world.set(slot=pay)
    assert world.board.gone == ["192.0.2.11:20880"]
    assert world.board.addresses == {"192.0.2.12:20880"}
    world.set(provider_name(12, started=1_700_000_600_000))
    assert world.board.gone == ["192.0.2.11:20880"]
    assert world.board.added.count("192.0.2.12:20880") == 2


PORT_OF_BOTH = {
    "Dubbo 3.3": [provider_name(11, ext__protocol="tri")],
    "Dubbo 3.3, Triple first": [provider_name(11, scheme="tri", ext__protocol="dubbo")],
    "Dubbo 3.2": [provider_name(11), provider_name(11, scheme="tri")],
    "Dubbo 3.2, Triple first": [provider_name(11, scheme="tri"), provider_name(11)],
}


@pytest.mark.parametrize("kind", PORT_OF_BOTH)
def test_one_port_for_both_protocols_is_one_instance(world, kind):
    world.set(*PORT_OF_BOTH[kind])
    world.subscribe()
    (instance,) = world.board.instances()
    assert instance.protocols == EVERY
    assert world.board.addresses == world.board.triple_addresses == {instance.address}
    world.set(provider_name(11, scheme="tri", started=1_700_000_600_000))
    (after,) = world.board.instances()
    assert (after.id, after.protocols) == (instance.id, TRIPLE)
    assert (world.board.addresses, world.board.gone) == (set(), [instance.address])
    assert world.board.triple_addresses == {instance.address}


def test_other_protocols_are_refused_and_both_of_ours_are_not(world):
    world.set(
        provider_name(11),
        provider_name(11, scheme="tri", port=50051),
        provider_name(12, scheme="grpc", port=50051),
        provider_name(13, scheme="rest"),
    )
    world.subscribe()
    snapshot = world.board.snapshots["demo.Cart"]
    by_protocol = {
        protocol: {snapshot.instances[each].address for each in snapshot.view(protocol).members}
        for protocol in (DUBBO, TRIPLE)
    }
    assert by_protocol[DUBBO] == world.board.addresses == {"192.0.2.11:20880"}
    assert by_protocol[TRIPLE] == {"192.0.2.11:50051", "192.0.2.12:50051"}
    assert world.board.triple_addresses == by_protocol[TRIPLE]
    (refused,) = world.catalog.view(CART)["refused"]
    assert refused["reason"] == "unsupported_protocol"


def test_a_failed_build_keeps_the_snapshot_and_is_counted(world, monkeypatch):
    world.set(*b5())
    world.subscribe()
    before = world.board.snapshots["demo.Cart"]
    whole = subscription.build_snapshot

    def broken(*arguments):
        raise RuntimeError

    monkeypatch.setattr(subscription, "build_snapshot", broken)
    world.set(*b5()[:4])
    assert world.board.snapshots["demo.Cart"] is before
    assert world.counters.named["snapshot_failed", ""] == 1
    assert world.catalog.view(CART)["failed_builds"] == 1
    monkeypatch.setattr(subscription, "build_snapshot", whole)
    world.set(*b5()[:3])
    assert world.board.hosts() == {11, 12, 13}
    assert world.board.snapshots["demo.Cart"].epoch > before.epoch


def test_a_defect_in_one_list_does_not_hold_up_the_others(world, monkeypatch):
    world.subscribe().subscribe("demo.Pay")
    pay = Slot("providers", "demo.Pay")
    world.catalog.listed("main", PROVIDERS, b5())
    world.catalog.listed("main", pay, [provider_name(21, "demo.Pay")])
    with monkeypatch.context() as patch:
        patch.setattr("sidecar.discovery.listing.read_provider", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            world.catalog.work()
    world.run()
    assert world.board.hosts("demo.Pay") == {21}
    world.set(*b5())
    assert len(world.board.hosts()) == 5


def test_fc_86_a_wave_of_changes_is_taken_in_by_small_steps(world):
    services = [f"demo.Service{k}" for k in range(20)]
    for each in services:
        slot = Slot("providers", each)
        world.set(*[provider_name(1, each, port=1000 + n) for n in range(350)], slot=slot)
        world.subscribe(each)
    parsed = world.stats().parsed
    assert parsed == 20 * 350
    for each in services:
        names = [
            provider_name(1, each, port=1000 + n, started=1_700_000_600_000 if n % 10 < 3 else 1)
            for n in range(350)
        ]
        unchanged = [provider_name(1, each, port=1000 + n) for n in range(350) if n % 10 >= 3]
        changed = [name for n, name in enumerate(names) if n % 10 < 3]
        world.catalog.listed("main", Slot("providers", each), unchanged + changed)
    steps = 0
    while True:
        before = world.stats().parsed
        has_more = world.catalog.work()
        steps += 1
        assert world.stats().parsed - before <= STEP
        if not has_more:
            break
    assert steps >= 20 * 105 / STEP
    assert world.stats().parsed - parsed == 20 * 105
    assert all(world.board.snapshots[each].size == 350 for each in services)
    assert all(world.board.count("publish", each) == 2 for each in services)


def test_sharing_keeps_one_object_for_an_instance(world):
    world.set(*b5())
    world.subscribe()
    interface = world.catalog._interfaces["demo.Cart"]
    kept = interface.listings["main"].names.values()
    assert {id(each) for each in kept} == {id(each) for each in interface.table.instances}
