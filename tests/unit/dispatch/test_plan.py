"""Plans: pools are made once per kind of call, shared, and capped."""

from __future__ import annotations

from itertools import combinations

from sidecar.dispatch.plan import MAX_RECENT, MAX_RECENT_LENGTH, Plan
from sidecar.model import reason
from sidecar.model.instance_set import InstanceSet
from sidecar.model.protocol import EVERY, TRIPLE
from sidecar.model.service import ServiceKey
from sidecar.routing.build import build_snapshot
from sidecar.routing.chain import RouterChain
from sidecar.routing.router import Rules, Step
from sidecar.routing.snapshot import ServiceSnapshot, View
from sidecar.routing.table import InstanceTable
from sidecar.telemetry.counters import Counters
from tests.fixtures.fleet import INTERFACE, options, provider, rule, snapshot
from tests.fixtures.scripted_router import ScriptedRouter, with_routers


def fleet(*tags: str, text: str = "") -> ServiceSnapshot:
    instances = [provider(f"192.0.2.{n}", tag=tag) for n, tag in enumerate(tags)]
    rules = Rules({"cart-app": rule(text)} if text else {})
    return snapshot(instances, rules=rules)


def plan(*tags: str, text: str = "") -> Plan:
    return Plan(fleet(*tags, text=text), Counters())


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


def test_each_protocol_has_pools_of_its_own() -> None:
    fleet = [
        provider("192.0.2.1"), provider("192.0.2.2", protocol="tri"),
        provider("192.0.2.3", protocol="tri", tag="gray"),
    ]  # fmt: skip
    found = Plan(snapshot(fleet), Counters())
    for _ in range(2):
        for tag, dubbo, triple in (("", {0}, {1}), ("gray", {0}, {2}), ("x", {0}, {1})):
            assert ids(found, tag) == dubbo
            assert {i.id for i in found.pool(tag, False, "", TRIPLE).instances} == triple
    assert found.pool("", False, "", TRIPLE) is found.pool("", False, "", TRIPLE)
    assert found.pool("gray", True, "").reason == reason.TAG_FORCED_EMPTY


def test_equal_results_share_a_pool_across_protocols() -> None:
    found = Plan(snapshot([provider(protocols=EVERY), provider("192.0.2.9")]), Counters())
    assert found.pool("", False, "") is not found.pool("", False, "", TRIPLE)
    found = Plan(snapshot([provider(protocols=EVERY)]), Counters())
    assert found.pool("", False, "") is found.pool("", False, "", TRIPLE)
    assert found.pool("x", False, "") is found.pool("x", False, "", TRIPLE)
    assert found._references == 2


def test_nobody_speaks_the_protocol() -> None:
    found = plan("", "gray")
    assert found.pool("", False, "", TRIPLE).reason == reason.PROTOCOL_MISMATCH
    assert found.pool("gray", True, "", TRIPLE) is found.pool("", False, "", TRIPLE)


def test_what_consumers_send_is_remembered_within_caps() -> None:
    router = ScriptedRouter("r", Step(InstanceSet([0]), "x"))
    found = Plan(with_routers(snapshot([provider()]), router), Counters())
    for _ in range(2):
        for n in range(MAX_RECENT):
            found.pool(f"x{n}", False, "")
    assert router.asked == MAX_RECENT
    found.pool("one more", False, "")
    found.pool("x1", False, "")
    assert router.asked == MAX_RECENT + 2
    long = "x" * (MAX_RECENT_LENGTH + 1)
    found.pool(long, False, "")
    found.pool("", False, long)
    found.pool(long, False, "")
    assert router.asked == MAX_RECENT + 5
    assert len(router.seen) == 1


def test_pools_are_capped_by_number() -> None:
    counters = Counters()
    found = Plan(fleet("", "a", "b", "c"), counters, max_pools=3)
    first = found.pool("", False, "")
    found.pool("a", False, "")
    found.pool("b", False, "")
    assert counters.named == {}
    assert ids(found, "c") == {3}
    assert counters.named == {("plan_memo_cleared", ""): 1}
    again = found.pool("", False, "")
    assert again is not first
    assert [each.id for each in again.instances] == [0]


def test_pools_are_capped_by_references() -> None:
    """The 63 subsets of six instances have 192 members, twice what a plan may hold of six."""
    hosts = [f"192.0.2.{n}" for n in range(6)]
    subsets = [subset for size in range(1, 7) for subset in combinations(hosts, size)]
    tags = [f"{{name: t{n}, addresses: [{', '.join(s)}]}}" for n, s in enumerate(subsets)]
    counters = Counters()
    snapshot = fleet(*[""] * 6, text=f"tags: [{', '.join(tags)}]")
    found = Plan(snapshot, counters, min_references=0)
    for n, subset in enumerate(subsets):
        assert len(ids(found, f"t{n}")) == len(subset)
    assert counters.named == {("plan_memo_cleared", ""): 1}
    assert len(ids(found, "t0")) == 1
    roomy = Counters()
    found = Plan(snapshot, roomy)
    for n in range(len(subsets)):
        found.pool(f"t{n}", False, "")
    assert roomy.named == {}


def test_the_pool_that_is_made_at_the_cap_counts_too() -> None:
    counters = Counters()
    found = Plan(fleet(*[""] * 6, "a"), counters, max_pools=1, min_references=0)
    for _ in range(40):
        found.pool("", False, "")
        found.pool("a", False, "")
        assert found._references == sum(len(each.instances) for each in found._pools.values())
    assert counters.named == {("plan_memo_cleared", ""): 79}


def test_a_call_that_cannot_be_keyed_is_routed_each_time() -> None:
    step = Step(InstanceSet([0]), "x")
    router = ScriptedRouter("r", step, None)
    found = Plan(with_routers(snapshot([provider()]), router), Counters())
    long = "x" * (MAX_RECENT_LENGTH + 1)
    assert ids(found, long) == ids(found, long) == {0}
    assert len(router.seen) == 2


def built(table: InstanceTable, previous: ServiceSnapshot | None, *hosts: str) -> ServiceSnapshot:
    drafts = [provider(host, version="9" if host == "192.0.2.9" else "") for host in hosts]
    change = table.apply(drafts)
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
    assert not found.adopt(_with_other_chain(same))


def _with_other_chain(found: ServiceSnapshot) -> ServiceSnapshot:
    triple = View(found.triple.members, RouterChain(), "")
    return ServiceSnapshot(
        found.key, found.epoch, found.version, found.size, found.instances, found.member_sets,
        found.dubbo, triple,
    )  # fmt: skip
