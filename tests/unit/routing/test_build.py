"""Snapshots: the options of a chain, epochs, and building by difference."""

from __future__ import annotations

import time

import pytest

from sidecar.model import reason
from sidecar.model.protocol import DUBBO, EVERY, TRIPLE
from sidecar.model.service import ServiceKey
from sidecar.routing.build import ChainOptions, Rules, build_snapshot, chain_options
from sidecar.routing.router import Call
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.routing.table import InstanceTable
from sidecar.settings.schema import Consumer, Nearby, Routing, ServiceOverride, Services, Settings
from sidecar.telemetry.counters import Counters
from tests.fixtures.fleet import INTERFACE, hosts, options, provider, rule

KEY = ServiceKey(INTERFACE)
RULE = rule("tags: [{name: gray, addresses: [192.0.2.1]}]")


def test_chain_options() -> None:
    consumer = Consumer(router="-tag", parameters={"zone": "bj", "dc": "x"})
    settings = Settings(consumer=consumer)
    plain = chain_options(settings, KEY)
    assert plain == ChainOptions(("tag-service", "nearby"), Nearby(), "bj")
    services = Services(
        overrides={
            INTERFACE: ServiceOverride(router="-default,tag"),
            "a.B:1.0.0": ServiceOverride(router=""),
            "a.C": ServiceOverride(),
            "a.D:0.0.0": ServiceOverride(router=""),  # as Java writes a service without version
        }
    )
    settings = Settings(consumer=consumer, services=services)
    assert chain_options(settings, KEY).routers == ("tag",)
    assert chain_options(settings, ServiceKey("a.B", "1.0.0")).routers[0] == "tag"
    assert chain_options(settings, ServiceKey("a.B")).routers[0] == "tag-service"
    assert chain_options(settings, ServiceKey("a.C")).routers[0] == "tag-service"
    assert chain_options(settings, ServiceKey("a.D")).routers[0] == "tag"


def test_the_location_is_the_consumers_value_of_the_key() -> None:
    nearby = Nearby(key="dc")
    settings = Settings(
        consumer=Consumer(parameters={"zone": "bj"}), routing=Routing(nearby=nearby)
    )
    assert chain_options(settings, KEY).location == ""
    off = Settings(routing=Routing(nearby=Nearby(enabled=False)))
    assert chain_options(off, KEY).routers == ("tag", "tag-service")


def seen(found: ServiceSnapshot, protocol: int) -> set[int]:
    view = found.view(protocol)
    return hosts(found, view.chain.route(Call(), view.members, Counters()).out)


def untagged(found: ServiceSnapshot) -> set[int]:
    return seen(found, DUBBO)


def test_an_empty_table() -> None:
    found = build_snapshot(KEY, InstanceTable(), None, Rules(), options())
    assert (found.epoch, found.size, set(found.members)) == (1, 0, set())
    assert found.empty_reason == reason.EMPTY_REGISTRY


def test_a_change_of_rules_alone() -> None:
    table = InstanceTable()
    change = table.apply([provider("192.0.2.1"), provider("192.0.2.2")])
    first = build_snapshot(KEY, table, change, Rules(), options())
    assert untagged(first) == {1, 2}
    second = build_snapshot(KEY, table, None, Rules({"cart-app": RULE}), options(), first)
    assert (untagged(second), second.epoch) == ({2}, 2)
    third = build_snapshot(KEY, table, None, Rules({"cart-app": None}), options(), second)
    assert (untagged(third), third.epoch) == ({1, 2}, 3)


def test_the_epoch_stays_when_no_route_can_change() -> None:
    table = InstanceTable()
    first = build_snapshot(KEY, table, table.apply([provider()]), Rules(), options())
    other = table.apply([provider("192.0.2.9", version="2.0.0")])
    second = build_snapshot(KEY, table, other, Rules(), options(), first)
    assert (second.epoch, second.version, second.size) == (1, 2, 2)
    assert second.dubbo.chain is first.dubbo.chain
    assert second.instances is table.instances
    third = build_snapshot(
        KEY, table, table.apply([provider(weight=1)]), Rules(), options(), second
    )
    assert third.epoch == 2
    fourth = build_snapshot(KEY, table, table.apply([], [provider()]), Rules(), options(), third)
    assert (fourth.epoch, fourth.empty_reason) == (3, reason.VERSION_MISMATCH)


def test_another_reason_for_emptiness_is_another_epoch() -> None:
    table = InstanceTable()
    first = build_snapshot(KEY, table, None, Rules(), options())
    change = table.apply([provider(version="2.0.0")])
    second = build_snapshot(KEY, table, change, Rules(), options(), first)
    assert (second.epoch, second.empty_reason) == (2, reason.VERSION_MISMATCH)


@pytest.mark.parametrize("is_latest_given", [True, False])
def test_a_missed_change_means_building_anew(is_latest_given: bool) -> None:
    table = InstanceTable()
    first = build_snapshot(KEY, table, table.apply([provider("192.0.2.1")]), Rules(), options())
    missed = table.apply([provider("192.0.2.2")], [provider("192.0.2.1")])
    latest = table.apply([provider("192.0.2.3")])
    change = latest if is_latest_given else missed
    second = build_snapshot(KEY, table, change, Rules(), options(), first)
    assert (untagged(second), second.epoch, second.version) == ({2, 3}, 2, 3)


def test_each_protocol_has_its_own_view() -> None:
    table = InstanceTable()
    local = [provider(f"192.0.2.{n}", zone="bj", protocol="tri") for n in (1, 2, 3)]
    remote = [provider("192.0.2.4", zone="bj"), provider("192.0.2.5", zone="sh")]
    near = options("", Nearby(threshold=60), "bj")
    found = build_snapshot(KEY, table, table.apply([*local, *remote]), Rules(), near)
    assert (len(found.members), found.empty_reason) == (5, "")
    assert hosts(found, found.view(DUBBO).members) == {4, 5}
    assert hosts(found, found.view(TRIPLE).members) == {1, 2, 3}
    assert seen(found, DUBBO) == {4, 5}  # one of two is 50 %; four of five would be local
    assert seen(found, TRIPLE) == {1, 2, 3}


def test_what_nobody_speaks_has_no_chain() -> None:
    table = InstanceTable()
    first = build_snapshot(KEY, table, table.apply([provider()]), Rules(), options())
    assert first.triple.empty_reason == reason.PROTOCOL_MISMATCH
    assert not first.triple.chain.routers
    assert first.dubbo.empty_reason == ""
    second = build_snapshot(
        KEY,
        table,
        table.apply([provider("192.0.2.2")]),
        Rules({"cart-app": RULE}),
        options(),
        first,
    )
    assert second.triple.chain is first.triple.chain
    third = build_snapshot(
        KEY, table, table.apply([provider("192.0.2.3", protocol="tri")]), Rules(), options(), second
    )
    assert (third.epoch, seen(third, TRIPLE)) == (3, {3})
    assert third.dubbo.empty_reason == third.triple.empty_reason == ""
    gone = [provider(), provider("192.0.2.2")]
    fourth = build_snapshot(KEY, table, table.apply([], gone), Rules(), options(), third)
    assert (fourth.epoch, fourth.dubbo.empty_reason) == (4, reason.PROTOCOL_MISMATCH)
    assert not fourth.dubbo.chain.routers
    last = table.apply([], [provider("192.0.2.3")])
    fifth = build_snapshot(KEY, table, last, Rules(), options(), fourth)
    assert fifth.dubbo.empty_reason == fifth.triple.empty_reason == reason.EMPTY_REGISTRY


def test_who_speaks_both_is_seen_by_both_through_one_view() -> None:
    table = InstanceTable()
    both = [provider("192.0.2.1", protocols=EVERY), provider("192.0.2.2", protocols=EVERY)]
    first = build_snapshot(KEY, table, table.apply(both), Rules(), options())
    assert first.dubbo is first.triple
    second = build_snapshot(
        KEY, table, table.apply([provider("192.0.2.1")]), Rules(), options(), first
    )
    assert (seen(second, DUBBO), seen(second, TRIPLE)) == ({1, 2}, {2})
    third = build_snapshot(KEY, table, table.apply(both), Rules(), options(), second)
    assert third.dubbo is third.triple
    assert seen(third, TRIPLE) == {1, 2}
    assert third.epoch == 3


def test_several_changes_may_be_built_one_by_one() -> None:
    table = InstanceTable()
    found: ServiceSnapshot | None = None
    for n in range(5):
        change = table.apply([provider(f"192.0.2.{n}")])
        found = build_snapshot(KEY, table, change, Rules(), options(), found)
    assert found is not None
    assert untagged(found) == set(range(5))


def test_a_router_that_is_switched_on_later_is_prepared_from_all_members() -> None:
    table = InstanceTable()
    fleet = [provider("192.0.2.1", tag="gray"), provider("192.0.2.2")]
    off, on = options("-tag"), options()
    first = build_snapshot(KEY, table, table.apply(fleet), Rules(), off)
    assert untagged(first) == {1, 2}
    second = build_snapshot(KEY, table, None, Rules(), on, first)
    assert (untagged(second), second.epoch) == ({2}, 2)
    third = build_snapshot(KEY, table, None, Rules(), off, second)
    assert (untagged(third), third.epoch) == ({1, 2}, 3)


def test_an_old_snapshot_is_not_touched_by_a_new_one() -> None:
    table = InstanceTable()
    rules = Rules({"cart-app": RULE})
    first = build_snapshot(KEY, table, table.apply([provider("192.0.2.2")]), rules, options())
    second = first
    for n in range(1, 40):
        change = table.apply([provider(f"192.0.2.{n}")], [provider("192.0.2.2")])
        second = build_snapshot(KEY, table, change, rules, options(), second)
    assert untagged(first) == {2}
    assert [i and i.host for i in first.instances] == ["192.0.2.2"]
    assert untagged(second) == set(range(3, 40))


def test_services_of_one_interface_do_not_touch_each_other() -> None:
    table = InstanceTable()
    other = ServiceKey(INTERFACE, "2.0.0")
    change = table.apply([provider("192.0.2.1")])
    one = build_snapshot(KEY, table, change, Rules(), options())
    two = build_snapshot(other, table, change, Rules(), options())
    change = table.apply([provider("192.0.2.2", version="2.0.0")])
    one = build_snapshot(KEY, table, change, Rules(), options(), one)
    two = build_snapshot(other, table, change, Rules(), options(), two)
    assert (untagged(one), untagged(two)) == ({1}, {2})


def test_one_change_among_many_costs_no_full_build() -> None:
    table = InstanceTable()
    fleet = [
        provider(f"10.0.{n >> 8}.{n & 255}", zone="a" if n % 2 else "b") for n in range(10_000)
    ]
    rules, chain = Rules({"cart-app": RULE}), options(location="a")
    found = build_snapshot(KEY, table, table.apply(fleet), rules, chain)
    best = 1.0
    for weight in range(5):
        started = time.process_time()
        change = table.apply([provider("10.0.0.1", weight=weight, zone="b")])
        found = build_snapshot(KEY, table, change, rules, chain, found)
        best = min(best, time.process_time() - started)
    assert best < 0.005
    assert found.epoch == 6
