"""The application-level tag router: the table of fall-backs, levels, and several applications."""

from __future__ import annotations

import pytest

from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.instance_set import EMPTY, InstanceSet
from sidecar.model.service import ServiceKey
from sidecar.routing.build import build_snapshot
from sidecar.routing.router import Call, Router, Rules, Step
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.routing.table import InstanceTable
from sidecar.routing.tag import TagRouter
from tests.fixtures.fleet import INTERFACE, hosts, options, provider, rule, snapshot

ONLY_TAG = options("-default,tag")


def fleet(text: str, *instances: Instance) -> ServiceSnapshot:
    rules = Rules({"cart-app": rule(text) if text else None})
    return snapshot(instances, rules=rules, chain=ONLY_TAG)


def router(found: ServiceSnapshot) -> Router:
    (only,) = found.dubbo.chain.routers
    return only


def step(found: ServiceSnapshot, call: Call, without: InstanceSet = EMPTY) -> Step:
    return router(found).route(call, found.members - without)


def routed(found: ServiceSnapshot, tag: str = "", force: bool = False) -> tuple[set[int], str]:
    result = step(found, Call(tag, force))
    return hosts(found, result.out), result.reason


def machine(last: int, tag: str = "") -> Instance:
    return provider(f"192.0.2.{last}", tag=tag)


def addresses(name: str, *last: int) -> str:
    return f"{{name: {name}, addresses: [{', '.join(f'192.0.2.{n}' for n in last)}]}}"


DYNAMIC = f"tags: [{addresses('gray', 1)}, {addresses('dead', 99)}]"
FORCED = "force: true\n" + DYNAMIC
PLAIN, STATIC = (machine(1), machine(2), machine(3)), (machine(1), machine(2, "blue"), machine(3))


@pytest.mark.parametrize(
    ("row", "text", "tag", "force", "out", "why"),
    [
        ("a", "", "", False, {1, 3}, "untagged"),
        ("a", "", "", True, {1, 3}, "untagged"),
        ("b", "", "blue", False, {2}, "tagged"),
        ("b", "", "blue", True, {2}, "tagged"),
        ("b", "", "red", True, set(), reason.TAG_FORCED_EMPTY),
        ("c", "", "red", False, {1, 3}, "untagged"),
        ("d", DYNAMIC, "gray", False, {1}, "tagged"),
        ("d", DYNAMIC, "gray", True, {1}, "tagged"),
        ("d", FORCED, "dead", False, set(), reason.TAG_FORCED_EMPTY),
        ("e", DYNAMIC, "dead", True, set(), reason.TAG_FORCED_EMPTY),
        ("f", DYNAMIC, "dead", False, {3}, "untagged"),
        ("g", DYNAMIC, "blue", False, {2}, "tagged"),
        ("g", DYNAMIC, "red", True, set(), reason.TAG_FORCED_EMPTY),
        ("g", FORCED, "blue", False, {2}, "tagged"),
        ("h", DYNAMIC, "red", False, {3}, "untagged"),
        ("h", FORCED, "red", False, {3}, "untagged"),
        ("j", DYNAMIC, "", False, {3}, "untagged"),
        ("j", FORCED, "", True, {3}, "untagged"),
    ],
)
def test_the_table_of_fall_backs(
    row: str, text: str, tag: str, force: bool, out: set[int], why: str
) -> None:
    assert routed(fleet(text, *STATIC), tag, force) == (out, why), row


@pytest.mark.parametrize(
    ("row", "text", "tag", "without", "why"),
    [
        ("a", "", "", [0, 2], reason.TAG_EMPTY),
        ("c", "", "red", [0, 2], reason.TAG_EMPTY),
        ("f", DYNAMIC, "dead", [2], reason.TAG_EMPTY),
        ("h", DYNAMIC, "red", [2], reason.TAG_EMPTY),
        ("i", DYNAMIC, "", [1, 2], reason.TAG_EMPTY),
        ("j", DYNAMIC, "", [2], reason.TAG_EMPTY),
        ("d", FORCED, "gray", [0], reason.TAG_FORCED_EMPTY),
    ],
)
def test_rows_that_end_empty(row: str, text: str, tag: str, without: list[int], why: str) -> None:
    found = fleet(text, *STATIC)
    result = step(found, Call(tag), InstanceSet(without))
    assert (set(result.out), result.reason, result.degraded) == (set(), why, ""), row


def test_a_fall_back_is_degraded_and_nothing_else_is() -> None:
    found = fleet(DYNAMIC, *STATIC)
    degraded = {tag: step(found, Call(tag)).degraded for tag in ("", "gray", "blue", "dead", "red")}
    assert degraded == {
        "": "", "gray": "", "blue": "", "dead": "tag_fallback", "red": "tag_fallback",
    }  # fmt: skip


def test_row_f_does_not_try_a_static_tag_of_the_same_name() -> None:
    found = fleet(DYNAMIC, machine(2, "dead"), machine(3))
    assert routed(found, "dead") == ({3}, "untagged")


def test_row_g_finds_static_tags_on_instances_that_the_rule_lists() -> None:
    found = fleet(DYNAMIC, machine(1, "blue"), machine(3))
    assert routed(found, "blue") == ({1}, "tagged")
    assert routed(found, "gray") == ({1}, "tagged")


def test_five_instances_two_dynamic_tags() -> None:
    text = f"tags: [{addresses('gray1', 1)}, {addresses('gray2', 3)}]"
    found = fleet(text, *(machine(n) for n in range(1, 6)))
    assert routed(found, "gray1") == ({1}, "tagged")
    assert routed(found, "gray3") == ({2, 4, 5}, "untagged")
    assert routed(found) == ({2, 4, 5}, "untagged")


def test_fc_28_untagged_traffic_does_not_leak() -> None:
    text = "tags: [" + addresses("grey", 11, 12) + "]"
    rest = (machine(13, "blue"), machine(14), machine(15))
    found = fleet(text, machine(11), machine(12), *rest)
    assert routed(found) == ({14, 15}, "untagged")
    assert routed(found, "grey") == ({11, 12}, "tagged")
    assert routed(found, "blue") == ({13}, "tagged")
    assert routed(found, "red") == ({14, 15}, "untagged")
    assert routed(found, "red", force=True) == (set(), reason.TAG_FORCED_EMPTY)
    assert routed(fleet(text, *rest), "grey") == ({14, 15}, "untagged")
    forced = fleet("force: true\n" + text, *rest)
    assert routed(forced, "grey") == (set(), reason.TAG_FORCED_EMPTY)


def test_fc_31_a_rule_that_is_switched_off_leaves_static_tags() -> None:
    found = fleet("enabled: false\nforce: true\ntags: [" + addresses("gray", 1) + "]", *STATIC)
    assert routed(found, "gray") == ({1, 3}, "untagged")
    assert routed(found) == ({1, 3}, "untagged")


LEVELS = f"tags: [{addresses('beta', 1)}, {addresses('beta|team1', 2)}]"


@pytest.mark.parametrize(
    ("tag", "force", "out"),
    [
        ("beta|team1|partner1", False, {2}),
        ("beta|team1", False, {2}),
        ("beta|team2", False, {1}),
        ("beta|team2|x", False, {1}),
        ("gamma|team1", False, {3}),
        ("beta|team1|partner1", True, set()),
        ("beta|team1", True, {2}),
        ("|beta", False, {3}),
    ],
)
def test_levels(tag: str, force: bool, out: set[int]) -> None:
    assert routed(fleet(LEVELS, *PLAIN), tag, force)[0] == out


def test_static_tags_have_no_levels() -> None:
    found = fleet("", machine(1, "beta"), machine(2, "beta|x"), machine(3))
    assert routed(found, "beta|x")[0] == {2}
    assert routed(found, "beta|y")[0] == {3}


def test_a_match_tag_without_instance_is_not_defined() -> None:
    text = """
    configVersion: v3.0
    force: true
    tags: [{name: gray, match: [{key: env, value: {exact: gray}}]}]
    """
    static = provider("192.0.2.1", tag="gray")
    assert routed(fleet(text, static), "gray") == ({1}, "tagged")
    matching = provider("192.0.2.2", env="gray")
    assert routed(fleet(text, static, matching), "gray") == ({2}, "tagged")
    assert routed(fleet(text, static, matching, machine(3)))[0] == {3}


def two_applications(first: str, second: str) -> ServiceSnapshot:
    instances = [
        provider("192.0.2.1", application="a"),
        provider("192.0.2.2", application="a"),
        provider("192.0.2.3", application="b"),
        provider("192.0.2.4", application="b", tag="blue"),
        provider("192.0.2.5", application=""),
    ]
    rules = Rules({name: rule(t, name) for name, t in (("a", first), ("b", second)) if t})
    return snapshot(instances, rules=rules, chain=ONLY_TAG)


def test_each_rule_governs_its_own_application() -> None:
    everywhere = "tags: [{name: gray, addresses: ['*']}]"
    found = two_applications(everywhere, "")
    assert routed(found, "gray") == ({1, 2}, "tagged")
    assert routed(found) == ({3, 5}, "untagged")
    found = two_applications(everywhere, f"tags: [{addresses('gray', 1, 3)}]")
    assert routed(found, "gray") == ({1, 2, 3}, "tagged")
    assert routed(found, "blue") == ({4}, "tagged")


def test_a_forcing_rule_keeps_only_its_application_out_of_the_fall_back() -> None:
    forcing = f"force: true\ntags: [{addresses('gray', 99)}]"
    found = two_applications(forcing, "")
    result = step(found, Call("gray"))
    assert (hosts(found, result.out), result.degraded) == ({3, 5}, "tag_fallback")
    (only,) = [i for i in found.instances if i is not None and i.host == "192.0.2.1"]
    assert router(found).why_not(Call("gray"), only) == "not tagged gray, which the rule forces"


@pytest.mark.parametrize(
    ("call", "instance", "text"),
    [
        (Call(), 0, "tagged gray by rule"),
        (Call("gray"), 1, "tagged blue"),
        (Call("red"), 2, "not tagged red"),
        (Call("dead", True), 2, "not tagged dead"),
    ],
)
def test_why_not(call: Call, instance: int, text: str) -> None:
    found = fleet(FORCED, *STATIC)
    subject = found.instances[instance]
    assert subject is not None
    assert router(found).why_not(call, subject) == text


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (Call(), ""),
        (Call("", True), ""),
        (Call("gray"), "=gray"),
        (Call("gray", True), "!=gray"),
        (Call("blue"), "=blue"),
        (Call("nowhere"), "?"),
        (Call("nowhere", True), "!?"),
        (Call("gray|x|y"), "<gray"),
        (Call("gray|x", True), "!?"),
        (Call("nowhere|x"), "?"),
    ],
)
def test_inputs_are_bounded_by_the_rules(call: Call, text: str) -> None:
    assert router(fleet(DYNAMIC, *STATIC)).inputs(call) == text


@pytest.mark.parametrize("mark", ["!", "=", "!=", "?", "<"])
def test_a_tag_that_looks_like_a_mark_has_inputs_of_its_own(mark: str) -> None:
    tags = ("gray", f"{mark}gray", "gray|x")
    found = fleet("", *(machine(n, tag) for n, tag in enumerate(tags, 1)))
    calls = [Call(tag, force) for tag in (*tags, mark) for force in (False, True)]
    keys = [router(found).inputs(call) for call in calls]
    assert len({*keys}) == len(calls), keys


def test_what_nothing_concerns_is_kept() -> None:
    table = InstanceTable()
    key = ServiceKey(INTERFACE)
    rules = Rules({"cart-app": rule(DYNAMIC)})
    first = build_snapshot(key, table, table.apply(STATIC), rules, ONLY_TAG)
    other = table.apply([provider("192.0.2.9", application="b")])
    second = build_snapshot(key, table, other, rules, ONLY_TAG, first)
    one, two = router(first), router(second)
    assert isinstance(one, TagRouter)
    assert isinstance(two, TagRouter)
    assert two.applications["cart-app"] is one.applications["cart-app"]
    third = build_snapshot(key, table, None, rules, ONLY_TAG, second)
    assert router(third) is two
    gone = table.apply([], [provider("192.0.2.9", application="b")])
    assert "b" not in router(build_snapshot(key, table, gone, rules, ONLY_TAG, third)).applications  # type: ignore[attr-defined]
