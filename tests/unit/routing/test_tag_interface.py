"""The interface-level tag router: one rule over what the application level left."""

from __future__ import annotations

import pytest

from sidecar.model import reason
from sidecar.model.instance_set import InstanceSet
from sidecar.routing.router import Call, Router, Rules, Step
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.telemetry.counters import Counters
from tests.fixtures.fleet import hosts, options, provider, rule, snapshot

KEY = "org.example.Cart::"
RULE = "tags: [{name: a, addresses: [192.0.2.1]}, {name: dead, addresses: [192.0.2.99]}]"


def fleet(text: str) -> ServiceSnapshot:
    instances = [provider("192.0.2.1"), provider("192.0.2.2", tag="blue"), provider("192.0.2.3")]
    rules = Rules({}, rule(text, KEY) if text else None)
    return snapshot(instances, rules=rules, chain=options("-default,tag-service"))


def router(found: ServiceSnapshot) -> Router:
    (only,) = found.dubbo.chain.routers
    return only


def step(text: str, call: Call, *without: int) -> tuple[set[int], str, str]:
    found = fleet(text)
    result: Step = router(found).route(call, found.members - InstanceSet(without))
    return hosts(found, result.out), result.reason, result.degraded


@pytest.mark.parametrize(
    ("call", "out", "why", "degraded"),
    [
        (Call(), {2, 3}, "untagged", ""),
        (Call("", True), {2, 3}, "untagged", ""),
        (Call("a"), {1}, "tagged", ""),
        (Call("x", False, "a"), {1}, "tagged", ""),
        (Call("a", False, "x"), {2, 3}, "untagged", "tag_fallback"),
        (Call("a", True, "x"), set(), reason.TAG_FORCED_EMPTY, ""),
        (Call("dead"), {2, 3}, "untagged", "tag_fallback"),
        (Call("dead", True), set(), reason.TAG_FORCED_EMPTY, ""),
        (Call("x", True), {2, 3}, "untagged", ""),  # the tag router has done what is forced
        (Call("blue"), {2, 3}, "untagged", ""),
        (Call("x", False, "a|b"), {1}, "tagged", ""),
        (Call("x", True, "a|b"), set(), reason.TAG_FORCED_EMPTY, ""),
    ],
)
def test_the_table(call: Call, out: set[int], why: str, degraded: str) -> None:
    assert step(RULE, call) == (out, why, degraded)


def test_a_forcing_rule() -> None:
    forced = "force: true\n" + RULE
    assert step(forced, Call("", False, "dead")) == (set(), reason.TAG_FORCED_EMPTY, "")
    assert step(forced, Call("", False, "x"))[0] == {2, 3}
    assert step(forced, Call("", False, "a"))[0] == {1}


def test_nothing_untagged_is_left() -> None:
    assert step(RULE, Call(), 1, 2) == (set(), reason.TAG_EMPTY, "")
    assert step(RULE, Call("", False, "x"), 1, 2) == (set(), reason.TAG_EMPTY, "")


@pytest.mark.parametrize("text", ["", "enabled: false\n" + RULE])
@pytest.mark.parametrize("call", [Call(), Call("a", True), Call("", True, "a")])
def test_without_an_active_rule_everything_passes(text: str, call: Call) -> None:
    assert step(text, call) == ({1, 2, 3}, "no_rule", "")
    assert router(fleet(text)).inputs(call) == ""


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (Call(), ""),
        (Call("a"), "=a"),
        (Call("x", False, "a|b"), "=a"),
        (Call("a", True), "!=a"),
        (Call("x"), "?"),
        (Call("x", True), "?"),
        (Call("", True, "x"), "!?s"),
        (Call("", False, "x"), "?s"),
    ],
)
def test_inputs(call: Call, text: str) -> None:
    assert router(fleet(RULE)).inputs(call) == text


@pytest.mark.parametrize("mark", ["!", "=", "?"])
def test_a_tag_that_looks_like_a_mark_has_inputs_of_its_own(mark: str) -> None:
    names = ("a", f"{mark}a", f"{mark}s")
    tags = ", ".join(
        f"{{name: '{name}', addresses: [192.0.2.{n}]}}" for n, name in enumerate(names)
    )
    found = router(fleet(f"tags: [{tags}]"))
    calls = [Call("", force, name) for name in (*names, "x") for force in (False, True)]
    assert len({found.inputs(call) for call in calls}) == len(calls)


def test_why_not() -> None:
    found = fleet(RULE)
    first, second, _ = found.instances
    assert first is not None
    assert second is not None
    why_not = router(found).why_not
    assert why_not(Call(), first) == "tagged a by the service's rule"
    assert why_not(Call("a"), second) == "not tagged a by the service's rule"
    assert why_not(Call("a", False, "b"), second) == "not tagged b by the service's rule"
    assert router(fleet("")).why_not(Call("a"), first) == "not tagged a by the service's rule"


def test_ten_instances_three_routers() -> None:
    """Application level, interface level and nearby one after the other."""
    gray1 = {1, 2, 7}
    instances = [
        provider(f"192.0.2.{n}", tag="blue" if n == 10 else "", zone="bj" if n < 6 else "sh")
        for n in range(1, 11)
    ]
    listed = ", ".join(f"192.0.2.{n}" for n in sorted(gray1))
    by_application = rule(
        f"tags: [{{name: gray1, addresses: [{listed}]}}, {{name: gray2, addresses: [192.0.2.4]}}]"
    )
    service = rule(f"tags: [{{name: grayA, addresses: [{listed}, 192.0.2.8]}}]", KEY)
    found = snapshot(
        instances,
        rules=Rules({"cart-app": by_application}, service),
        chain=options(location="bj"),
    )
    trace: list = []  # type: ignore[type-arg]
    call = Call("gray1", False, "grayA")
    out = found.dubbo.chain.route(call, found.members, Counters(), trace).out
    assert [hosts(found, each.step.out) for each in trace] == [gray1, gray1, {1, 2}]
    assert hosts(found, out) == {1, 2}
