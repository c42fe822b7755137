"""The nearby router: ratio and count at none, below, equal and above."""

from __future__ import annotations

import pytest

from sidecar.model import reason
from sidecar.model.service import ServiceKey
from sidecar.routing.build import build_snapshot
from sidecar.routing.nearby import NearbyRouter
from sidecar.routing.router import Call, Rules, Step
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.routing.table import InstanceTable
from sidecar.settings.schema import Nearby
from tests.fixtures.fleet import INTERFACE, options, provider, snapshot


def step(local: int, others: int, nearby: Nearby, location: str = "loc1") -> Step:
    instances = [provider(f"10.0.{n >> 8}.{n & 255}", zone="loc1") for n in range(local)]
    instances += [provider(f"10.1.{n >> 8}.{n & 255}", zone="loc2") for n in range(others)]
    found = snapshot(instances, chain=options("-default,nearby", nearby, location))
    (router,) = found.dubbo.chain.routers
    return router.route(Call(), found.members)


def size(local: int, others: int, nearby: Nearby, location: str = "loc1") -> tuple[int, str, str]:
    result = step(local, others, nearby, location)
    return len(result.out), result.reason, result.degraded


FIVE = Nearby(mode="ratio", threshold=5)
THREE = Nearby(mode="count", threshold=3)


@pytest.mark.parametrize(
    ("local", "others", "nearby", "out", "why"),
    [
        (4, 96, FIVE, 100, "few_local"),
        (5, 95, FIVE, 100, "few_local"),  # equality does not keep
        (6, 94, FIVE, 6, "local"),
        (0, 100, FIVE, 100, "no_local"),
        (5, 94, FIVE, 99, "few_local"),  # 5.05 %, floor 5
        (2, 2, THREE, 4, "few_local"),
        (0, 4, THREE, 4, "no_local"),
        (3, 1, THREE, 3, "local"),  # equality keeps
        (4, 0, THREE, 4, "local"),
        (0, 4, Nearby(mode="count", threshold=0), 4, "no_local"),
        (1, 9, Nearby(mode="ratio", threshold=0), 1, "local"),
        (4, 0, Nearby(mode="ratio", threshold=100), 4, "few_local"),
    ],
)
def test_fc_38_thresholds(local: int, others: int, nearby: Nearby, out: int, why: str) -> None:
    degraded = "" if why == "local" else why
    assert size(local, others, nearby) == (out, why, degraded)


def test_fc_38_force_with_none_is_empty_in_ratio_mode_only() -> None:
    forced = Nearby(mode="ratio", threshold=5, force=True)
    assert size(0, 100, forced) == (0, reason.NEARBY_FORCED_EMPTY, "")
    assert size(4, 96, forced) == (100, "few_local", "few_local")
    assert size(0, 4, Nearby(mode="count", threshold=3, force=True)) == (4, "no_local", "no_local")


def test_fc_38_unknown_locations() -> None:
    assert size(6, 94, FIVE, "") == (100, "location_unknown", "location_unknown")
    nowhere = [
        provider("192.0.2.1"),
        provider("192.0.2.2", zone=""),
        provider("192.0.2.3", zone="x"),
    ]
    found = snapshot(nowhere, chain=options("-default,nearby", FIVE, "x"))
    (router,) = found.dubbo.chain.routers
    assert set(router.route(Call(), found.members).out) == {2}


@pytest.mark.parametrize(("local", "out"), [(3, 3), (0, 7), (1, 8)])
def test_safe_minimum_decides(local: int, out: int) -> None:
    assert size(local, 7, Nearby(mode="count", threshold=2))[0] == out


def test_the_denominator_is_the_input_of_the_router() -> None:
    found = snapshot(
        [provider(f"192.0.2.{n}", zone="loc1" if n < 3 else "loc2") for n in range(9)],
        chain=options("-default,nearby", Nearby(threshold=34), "loc1"),
    )
    (router,) = found.dubbo.chain.routers
    assert len(router.route(Call(), found.members).out) == 9
    assert len(router.route(Call(), found.members - found.members[5:]).out) == 3


def fleet() -> tuple[InstanceTable, ServiceSnapshot]:
    table = InstanceTable()
    change = table.apply([provider("192.0.2.1", zone="a"), provider("192.0.2.2", zone="b")])
    chain = options("-default,nearby", FIVE, "a")
    return table, build_snapshot(ServiceKey(INTERFACE), table, change, Rules(), chain)


def local_after(snapshot: ServiceSnapshot) -> set[int]:
    (router,) = snapshot.dubbo.chain.routers
    return set(router.route(Call(), snapshot.members).out)


def test_the_local_set_follows_changes() -> None:
    table, before = fleet()
    key, chain = ServiceKey(INTERFACE), options("-default,nearby", FIVE, "a")
    assert local_after(before) == {0}
    moved = table.apply([provider("192.0.2.1", zone="b"), provider("192.0.2.2", zone="a")])
    after = build_snapshot(key, table, moved, Rules(), chain, before)
    assert local_after(after) == {1}
    other = table.apply([provider("192.0.2.3", zone="c")])
    last = build_snapshot(key, table, other, Rules(), chain, after)
    assert last.dubbo.chain is after.dubbo.chain
    assert len(local_after(last)) == 1


@pytest.mark.parametrize(
    ("nearby", "location", "out"),
    [(FIVE, "b", {1}), (Nearby(key="dc", threshold=5), "a", {0, 1}), (THREE, "a", {0, 1})],
)
def test_a_new_configuration_starts_anew(nearby: Nearby, location: str, out: set[int]) -> None:
    table, before = fleet()
    chain = options("-default,nearby", nearby, location)
    after = build_snapshot(ServiceKey(INTERFACE), table, None, Rules(), chain, before)
    assert local_after(after) == out


def test_why_not_and_inputs() -> None:
    router = NearbyRouter(FIVE, "a")
    assert router.why_not(Call(), provider(zone="b")) == "zone b, not a"
    assert router.why_not(Call(), provider()) == "no zone"
    assert router.inputs(Call("x", True, "y")) == ""
