"""The switch string, the order of the chain, and routers that fail."""

from __future__ import annotations

import pytest

from sidecar.model import reason
from sidecar.model.instance_set import EMPTY, InstanceSet
from sidecar.routing.chain import RouterChain, TraceStep, router_names
from sidecar.routing.router import Call, Rules, Step
from sidecar.telemetry.counters import Counters
from tests.fixtures.fleet import hosts, options, provider, snapshot
from tests.fixtures.scripted_router import ScriptedRouter

ALL = ("tag", "tag-service", "nearby")


@pytest.mark.parametrize(
    ("switch", "names"),
    [
        ("", ALL),
        (" , ", ALL),
        ("default", ALL),
        ("-tag", ("tag-service", "nearby")),
        ("-default", ()),
        ("-default,nearby", ("nearby",)),
        ("-default, nearby ,tag", ("tag", "nearby")),
        ("nearby,default", ("nearby", "tag", "tag-service")),
        ("nearby,default,tag", ("nearby", "tag-service", "tag")),
        ("nearby,default,-tag", ("nearby", "tag-service")),
        ("-default,nearby,default,tag", ("nearby", "tag")),
        ("a,-tag", ("tag-service", "nearby")),
        ("a,default,b", ALL),
        ("tag,-tag", ("tag-service", "nearby")),
        ("tag,tag,default", ALL),
        ("-unknown", ALL),
        ("tag", ALL),
    ],
)
def test_the_switch_string(switch: str, names: tuple[str, ...]) -> None:
    assert router_names(switch) == names


def test_without_the_tag_router_tagged_instances_are_eligible() -> None:
    fleet = [provider("192.0.2.1", tag="gray"), provider("192.0.2.2")]
    without = snapshot(fleet, chain=options("-tag"))
    routed = without.dubbo.chain.route(Call(), without.members, Counters())
    assert hosts(without, routed.out) == {1, 2}
    whole = snapshot(fleet)
    routed = whole.dubbo.chain.route(Call(), whole.members, Counters())
    assert hosts(whole, routed.out) == {2}


SOME = InstanceSet([1, 2])


def test_each_router_sees_what_the_one_before_left() -> None:
    first = ScriptedRouter("a", Step(SOME, "first", "wide"))
    second = ScriptedRouter("b", Step(InstanceSet([2]), "second"))
    third = ScriptedRouter("c", Step(InstanceSet([2]), "third", "wider"))
    trace: list[TraceStep] = []
    chain = RouterChain((first, second, third))
    routed = chain.route(Call(), InstanceSet([0, 1, 2]), Counters(), trace)
    assert (set(routed.out), routed.reason) == ({2}, "")
    assert routed.degraded == (("a", "wide"), ("c", "wider"))
    assert [first.seen, second.seen, third.seen] == [[{0, 1, 2}], [{1, 2}], [{2}]]
    assert [(each.router, set(each.before), each.step.reason) for each in trace] == [
        (first, {0, 1, 2}, "first"),
        (second, {1, 2}, "second"),
        (third, {2}, "third"),
    ]


def test_the_chain_stops_at_an_empty_set() -> None:
    last = ScriptedRouter("b", Step(SOME, "x"))
    chain = RouterChain((ScriptedRouter("a", Step(EMPTY, reason.TAG_EMPTY)), last))
    routed = chain.route(Call(), SOME, Counters())
    assert (set(routed.out), routed.reason, routed.degraded) == (set(), reason.TAG_EMPTY, ())
    assert last.seen == []


def test_a_router_that_raises_is_skipped_and_counted() -> None:
    counters = Counters()
    trace: list[TraceStep] = []
    chain = RouterChain(
        (ScriptedRouter("a", None), ScriptedRouter("b", Step(InstanceSet([1]), "x")))
    )
    routed = chain.route(Call(), SOME, counters, trace)
    assert (set(routed.out), routed.reason) == ({1}, "")
    assert counters.named == {("router_errors", "a"): 1}
    assert [each.step.reason for each in trace] == ["skipped_after_error", "x"]


def test_the_memo_key_keeps_parts_apart() -> None:
    def key(*parts: str) -> str | None:
        return RouterChain(tuple(ScriptedRouter("r", None, part) for part in parts)).inputs(Call())

    assert key("a", "bc") != key("ab", "c")
    assert key("1:", "") != key("", "1:")
    assert key() == ""


def test_a_router_that_cannot_say_its_inputs_is_not_memoised() -> None:
    silent = ScriptedRouter("b", None, None)
    assert RouterChain((ScriptedRouter("a", None, "x"), silent)).inputs(Call()) is None


def test_the_default_chain_and_its_order() -> None:
    found = snapshot([provider(tag="gray", zone="a")], rules=Rules(), chain=options(location="a"))
    assert tuple(router.name for router in found.dubbo.chain.routers) == ALL
