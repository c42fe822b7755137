"""Plans: pools are made once per kind of call, shared, and capped."""

from __future__ import annotations

import pytest

from sidecar.dispatch import plan as plan_module
from sidecar.dispatch.plan import MAX_RECENT, MAX_RECENT_LENGTH, Plan
from sidecar.model import reason
from sidecar.model.service import ServiceKey
from sidecar.routing.build import build_snapshot
from sidecar.routing.chain import RouterChain
from sidecar.routing.router import Call, Rules
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.routing.table import InstanceTable
from sidecar.telemetry.counters import Counters
from tests.fixtures.fleet import INTERFACE, options, provider, rule, snapshot


def plan(*tags: str, text: str = "", counters: Counters | None = None) -> Plan:
    instances = [provider(f"192.0.2.{n}", tag=tag) for n, tag in enumerate(tags)]
    rules = Rules({"cart-app": rule(text)} if text else {})
    return Plan(snapshot(instances, rules=rules), counters or Counters())


def ids(found: Plan, tag: str = "", force: bool = False, service_tag: str = "") -> set[int]:
    return {each.id for each in found.pool(tag, force, service_tag).instances}


def test_a_pool_is_made_once_per_kind_of_call() -> None:
    found = plan("", "gray", "blue")
    assert ids(found) == {0}
    assert found.pool("", False, "") is found.pool("", True, "")
    assert ids(found, "gray") == {1}
    assert found.pool("gray", False, "") is found.pool("gray", False, "")
    assert found.pool("gray", False, "") is found.pool("gray", True, "")  # the same instances
    assert ids(found, "blue") == {2}


def test_unknown_tags_share_a_pool() -> None:
    found = plan("", "gray")
    first = found.pool("x1", False, "")
    assert first is found.pool("x2", False, "")
    assert first is not found.pool("", False, "")  # it is degraded, the other is not
    assert first.degraded == (("tag", "tag_fallback"),)
    forced = found.pool("x1", True, "")
    assert (forced.instances, forced.reason) == ([], reason.TAG_FORCED_EMPTY)
    assert forced is found.pool("x3", True, "")


def test_tags_without_live_instances_share_a_pool() -> None:
    tags = ", ".join(f"{{name: t{n}, addresses: [198.51.100.1]}}" for n in range(50))
    found = plan("", "", text=f"tags: [{tags}]")
    assert len({id(found.pool(f"t{n}", False, "")) for n in range(50)}) == 1


def test_no_member() -> None:
    found = plan()
    assert found.pool("", False, "").reason == reason.EMPTY_REGISTRY
    assert found.pool("gray", True, "").reason == reason.EMPTY_REGISTRY


@pytest.mark.pure
def test_what_consumers_send_is_remembered_within_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    routed = 0
    real = RouterChain.inputs

    def inputs(self: RouterChain, call: Call) -> str | None:
        nonlocal routed
        routed += 1
        return real(self, call)

    monkeypatch.setattr(RouterChain, "inputs", inputs)
    found = plan("", "gray")
    for _ in range(2):
        for n in range(MAX_RECENT):
            found.pool(f"x{n}", False, "")
    assert routed == MAX_RECENT
    found.pool("one more", False, "")
    found.pool("x1", False, "")
    assert routed == MAX_RECENT + 2
    long = "x" * (MAX_RECENT_LENGTH + 1)
    found.pool(long, False, "")
    found.pool(long, False, "")
    assert routed == MAX_RECENT + 4


@pytest.mark.pure
def test_pools_are_capped_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "MAX_POOLS", 3)
    counters = Counters()
    found = plan("", "a", "b", "c", counters=counters)
    first = found.pool("", False, "")
    found.pool("a", False, "")
    found.pool("b", False, "")
    assert counters.named == {}
    assert ids(found, "c") == {3}
    assert counters.named == {("plan_memo_cleared", ""): 1}
    again = found.pool("", False, "")
    assert again is not first
    assert [each.id for each in again.instances] == [0]


@pytest.mark.pure
def test_pools_are_capped_by_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "MIN_REFERENCES", 0)
    monkeypatch.setattr(plan_module, "MAX_REFERENCES_PER_MEMBER", 1)
    counters = Counters()
    everyone = "{{name: t{0}, addresses: ['*']}}"
    text = "tags: [" + ", ".join(everyone.format(n) for n in range(3)) + "]"
    found = plan("", "", text=text, counters=counters)
    assert ids(found, "t0") == ids(found, "t1") == {0, 1}  # one pool, two references
    assert counters.named == {}
    second = plan("a", "b", counters=counters)
    assert (ids(second, "a"), ids(second, "b")) == ({0}, {1})
    assert counters.named == {}
    third = plan("", "a", text="tags: [{name: all, addresses: ['*']}]", counters=counters)
    assert ids(third, "all") == {0, 1}
    assert ids(third, "a") == {1}
    assert counters.named == {("plan_memo_cleared", ""): 1}
    assert ids(third, "all") == {0, 1}


def test_a_call_that_cannot_be_keyed_is_routed_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RouterChain, "inputs", lambda self, call: None)
    found = plan("", "gray")
    assert ids(found, "gray") == {1}
    assert ids(found) == {0}


def built(table: InstanceTable, previous: ServiceSnapshot | None, *hosts: str) -> ServiceSnapshot:
    change = table.apply(
        [provider(host, version="9" if host > "192.0.2.5" else "") for host in hosts]
    )
    return build_snapshot(ServiceKey(INTERFACE), table, change, Rules(), options(), previous)


def test_a_snapshot_that_routes_the_same_keeps_the_pools() -> None:
    table = InstanceTable()
    first = built(table, None, "192.0.2.1")
    found = Plan(first, Counters())
    pool = found.pool("", False, "")
    same = built(table, first, "192.0.2.9")
    assert found.adopt(same)
    assert found.snapshot is same
    assert found.pool("", False, "") is pool
    assert not found.adopt(built(table, same, "192.0.2.2"))
    assert found.snapshot is same
    assert not found.adopt(built(InstanceTable(), None, "192.0.2.1"))  # another history
