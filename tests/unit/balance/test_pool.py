"""The weighted pick: exact shares, masks, zero weights, and what it costs."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.balance.pool import (
    BACKING_OFF,
    DRAINING,
    MAX_EXACT_CLASSES,
    MAX_METHOD_TABLES,
    REST_ABOVE,
    REST_MS,
    Pool,
    build_table,
)
from sidecar.balance.weight import weight_at
from sidecar.model.instance import Instance
from sidecar.telemetry.counters import Counters
from tests.fixtures.fleet import NOW_MS, numbered, provider

PICKS = 100_000
NONE: dict[str, int] = {}


def fleet(*weights: int) -> list[Instance]:
    return numbered(
        *(provider(f"10.0.{n >> 8}.{n & 255}", weight=weight) for n, weight in enumerate(weights))
    )


def aged(*uptimes: int, weight: int = 100, warmup_ms: int = 600_000) -> list[Instance]:
    return numbered(
        *(
            provider(f"10.0.0.{n}", weight=weight, started_ms=NOW_MS - up, warmup_ms=warmup_ms)
            for n, up in enumerate(uptimes)
        )
    )


def draws(
    pool: Pool,
    unavailable: dict[str, int] = NONE,
    method: str = "m",
    now_ms: int = NOW_MS,
    picks: int = PICKS,
) -> Counter[int]:
    rng = Random(20_880).random
    found: Counter[int] = Counter()
    for _ in range(picks):
        instance = pool.pick(method, now_ms, rng, unavailable)
        assert instance is not None
        found[instance.id] += 1
    return found


def assert_shares(found: Counter[int], weights: dict[int, int]) -> None:
    """Chi-square at a level of about 1 in 10,000; ids without weight must not occur."""
    total, picks = sum(weights.values()), found.total()
    assert {id for id in found if not weights.get(id)} == set()  # noqa: A001
    expected = {id: picks * weight / total for id, weight in weights.items() if weight}  # noqa: A001
    statistic = sum((found[id] - e) ** 2 / e for id, e in expected.items())  # noqa: A001
    freedom = len(expected) - 1
    if freedom:
        spread = 2 / (9 * freedom)
        assert statistic < freedom * (1 - spread + 3.72 * spread**0.5) ** 3


def exact(instances: list[Instance], method: str = "m", now_ms: int = NOW_MS) -> dict[int, int]:
    return {each.id: weight_at(each, method, now_ms) for each in instances}


MIXED_AGES = aged(0, 1, 30_000, 60_000, 300_000, 599_999, 600_000, 10**8, -5_000, 90_000)


@pytest.mark.parametrize(
    "instances",
    [
        fleet(*[100] * 20),
        fleet(100),
        fleet(*range(1, 13)),
        fleet(*range(60, 0, -1)),
        fleet(10_000, *[1] * 30),
        fleet(0, 100),
        fleet(0, 0, 50, 100, 0),
        fleet(*[2_000_000_000] * 3),
        fleet(*[100] * 10, *[50] * 10, *[1] * 10),
        MIXED_AGES,
        aged(*[5_000] * 8),
        [*MIXED_AGES, *(each.with_id(each.id + 10) for each in fleet(7, 70, 700))],
    ],
    ids=[
        "equal", "one", "linear", "many weights", "one heavy", "zero", "zeros", "huge",
        "three weights", "warm-up", "all cold", "cold and warm",
    ],
)  # fmt: skip
def test_shares_are_exact(instances: list[Instance]) -> None:
    counters = Counters()
    found = draws(Pool(instances, "", counters))
    assert_shares(found, exact(instances))
    assert counters.named == {}


def test_warm_up_is_followed_over_time() -> None:
    instances = aged(0, 200_000, 10**8)
    pool = Pool(instances, "", Counters())
    for later in (0, 1, 40, 4_000, 30_000, 200_000, 590_000, 600_000, 10**7):
        now = NOW_MS + later
        assert_shares(draws(pool, now_ms=now, picks=20_000), exact(instances, now_ms=now))


def test_a_short_warm_up_is_followed_too() -> None:
    instances = aged(0, 10**8, weight=10_000, warmup_ms=3_000)
    pool = Pool(instances, "", Counters())
    for later in range(0, 3_200, 100):
        now = NOW_MS + later
        assert_shares(draws(pool, now_ms=now, picks=5_000), exact(instances, now_ms=now))


def test_the_table_is_kept_until_weights_can_outgrow_it() -> None:
    assert build_table(fleet(1, 2), "m", NOW_MS).valid_until > NOW_MS * 1000
    assert build_table(aged(0, 10**8), "m", NOW_MS).valid_until == NOW_MS + 4_687
    assert build_table(aged(0, warmup_ms=10), "m", NOW_MS).valid_until == NOW_MS + 50
    assert build_table(aged(0, warmup_ms=10**9), "m", NOW_MS).valid_until == NOW_MS + 5_000
    assert build_table(aged(-9, warmup_ms=-1), "m", NOW_MS).valid_until == NOW_MS + 50


def test_fc_41_a_clock_that_is_ahead_does_not_wear_out_the_table() -> None:
    """The weight is 1 until the start has come, were it in years and the warm-up a millisecond."""
    day = 86_400_000
    ahead = build_table(aged(-day, 10**8, warmup_ms=1), "m", NOW_MS)
    assert ahead.valid_until == NOW_MS + day
    assert build_table(aged(-day, -5 * day), "m", NOW_MS).valid_until == NOW_MS + day
    assert build_table(aged(-day, 0), "m", NOW_MS).valid_until == NOW_MS + 4_687
    instances = aged(-day, 10**8)
    pool = Pool(instances, "", Counters())
    for later in (0, day - 1, day, day + 1, day + 300_000, day + 600_000):
        now = NOW_MS + later
        assert_shares(draws(pool, now_ms=now, picks=20_000), exact(instances, now_ms=now))


def test_tables_of_methods_are_capped() -> None:
    weights = {f"m{n}": n for n in range(MAX_METHOD_TABLES + 1)}
    instances = numbered(provider("10.0.0.1", methods=weights), provider("10.0.0.2", weight=30))
    pool = Pool(instances, "", Counters())
    for _ in range(2):
        for method in ("list", *weights):
            assert_shares(draws(pool, method=method, picks=500), exact(instances, method))
            assert len(pool._of_methods) <= MAX_METHOD_TABLES


def test_few_weights_have_a_class_each_and_many_share() -> None:
    few = build_table(fleet(*range(1, MAX_EXACT_CLASSES + 1)), "m", NOW_MS)
    assert len(few.classes) == MAX_EXACT_CLASSES
    many = build_table(fleet(*range(1, 1001)), "m", NOW_MS)
    assert sorted(each.bound for each in many.classes) == [1, 3, 7, 15, 31, 63, 127, 255, 511, 1000]
    assert [each.span for each in many.classes] == sorted(
        (each.span for each in many.classes), reverse=True
    )


@pytest.mark.parametrize(
    ("instances", "most"),
    [
        (fleet(*[100] * 50), 1.0),
        (fleet(10_000, *[1] * 99), 1.0),
        (fleet(*range(1, 1001)), 1.5),
        (fleet(*[3**n for n in range(25)]), 2.0),
        (aged(*range(1_000, 600_000, 5_990)), 2.0),
    ],
)
def test_the_number_of_tries_is_bounded(instances: list[Instance], most: float) -> None:
    random = Random(1)
    calls = 0

    def rng() -> float:
        nonlocal calls
        calls += 1
        return random.random()

    pool = Pool(instances, "", Counters())
    for _ in range(10_000):
        pool.pick("m", NOW_MS, rng, NONE)
    assert calls <= 10_000 * most


def test_a_seed_decides_all() -> None:
    pools = [Pool(MIXED_AGES, "", Counters()) for _ in range(2)]
    rngs = [Random(7).random for _ in range(2)]
    for _ in range(500):
        one, two = (p.pick("m", NOW_MS, r, NONE) for p, r in zip(pools, rngs, strict=True))
        assert one is two


def test_an_empty_pool_has_a_reason() -> None:
    pool = Pool([], "TAG_EMPTY", Counters())
    assert pool.pick("m", NOW_MS, Random(1).random, NONE) is None
    assert (pool.reason, pool.degraded) == ("TAG_EMPTY", ())


def test_fc_43_zero_weights() -> None:
    assert draws(Pool(fleet(0, 100), "", Counters()), picks=10_000) == {1: 10_000}
    counters = Counters()
    found = draws(Pool(fleet(0, 0), "", counters), picks=10_000)
    assert_shares(found, {0: 1, 1: 1})
    assert counters.named == {("pick_even_splits", ""): 10_000}
    assert draws(Pool(fleet(0), "", Counters()), picks=10) == {0: 10}
    assert draws(Pool(fleet(-5, 1), "", Counters()), picks=10) == {1: 10}


def test_fc_43_a_method_has_its_own_weights() -> None:
    instances = numbered(
        provider("10.0.0.1", methods={"find": 0, "save": 300}),
        provider("10.0.0.2"),
        provider("10.0.0.3", weight=0, methods={"find": 50}),
    )
    pool = Pool(instances, "", Counters())
    for method in ("find", "save", "list"):
        assert_shares(draws(pool, method=method), exact(instances, method))
    assert exact(instances, "find") == {0: 0, 1: 100, 2: 50}


def test_a_method_whose_weights_are_all_zero_is_split_evenly() -> None:
    instances = numbered(
        provider("10.0.0.1", methods={"find": 0}), provider("10.0.0.2", methods={"find": 0})
    )
    counters = Counters()
    pool = Pool(instances, "", counters)
    assert_shares(draws(pool, method="find", picks=2_000), {0: 1, 1: 1})
    assert counters.named == {("pick_even_splits", ""): 2_000}
    assert_shares(draws(pool, method="list", picks=2_000), {0: 100, 1: 100})
    assert counters.named == {("pick_even_splits", ""): 2_000}


@pytest.mark.parametrize("usable", [15, 8, 1])
def test_unavailable_instances_are_passed_over(usable: int) -> None:
    instances = fleet(*range(10, 26))
    unavailable = {each.address: BACKING_OFF for each in instances[usable:]}
    found = draws(Pool(instances, "", Counters()), unavailable, picks=20_000)
    assert_shares(found, exact(instances[:usable]))


def test_almost_everything_is_unavailable() -> None:
    instances = fleet(*[100, 50] * (REST_ABOVE // 2))
    unavailable = {each.address: DRAINING for each in instances[2:]}
    counters = Counters()
    found = draws(Pool(instances, "", counters), unavailable, picks=1_000)
    assert_shares(found, exact(instances[:2]))
    assert 600 < counters.named[("pick_summed", "")] < 1_000


@pytest.mark.parametrize("weight", [100, 0])
def test_a_large_fleet_that_is_almost_gone_is_passed_over_once_in_a_while(weight: int) -> None:
    instances = fleet(*[weight, weight // 2] * REST_ABOVE)
    unavailable = {each.address: BACKING_OFF for each in instances[3:]}
    counters = Counters()
    pool = Pool(instances, "", counters)
    for later in (0, REST_MS, REST_MS + 1):
        found = draws(pool, unavailable, now_ms=NOW_MS + later, picks=2_000)
        assert_shares(found, exact(instances[:3]) if weight else {0: 1, 1: 1, 2: 1})
    assert counters.named[("pick_summed", "")] == 2


def test_an_instance_that_comes_back_to_a_large_fleet_is_seen_soon() -> None:
    instances = fleet(*[100] * (REST_ABOVE + 1))
    unavailable = {each.address: BACKING_OFF for each in instances[1:]}
    pool = Pool(instances, "", Counters())
    assert draws(pool, unavailable, picks=100) == {0: 100}
    del unavailable[instances[1].address]
    soon = draws(pool, unavailable, now_ms=NOW_MS + REST_MS + 1, picks=2_000)
    assert_shares(soon, {0: 1, 1: 1})
    unavailable[instances[0].address] = DRAINING
    assert draws(pool, unavailable, now_ms=NOW_MS + REST_MS + 2, picks=100) == {1: 100}


def test_what_one_call_has_tried_does_not_lead_others_astray() -> None:
    """A retry leaves out the last usable instance; the next call must still be given it."""
    instances = fleet(*[100] * (2 * REST_ABOVE))
    unavailable = {each.address: BACKING_OFF for each in instances[1:]}
    pool = Pool(instances, "", Counters())
    tried = {**unavailable, instances[0].address: BACKING_OFF}
    for _ in range(20):
        draws(pool, tried, picks=1)
        assert draws(pool, unavailable, picks=5) == {0: 5}


@pytest.mark.parametrize("last", [DRAINING, BACKING_OFF, 99])
def test_fc_63_the_only_instance_is_used_although_it_drains(last: int) -> None:
    (only,) = fleet(100)
    pool = Pool([only], "", Counters())
    assert draws(pool, {only.address: last}, picks=10) == {0: 10}


def test_draining_instances_come_before_those_in_back_off() -> None:
    instances = fleet(100, 50, 100, 0)
    unavailable = {
        instances[0].address: DRAINING,
        instances[1].address: DRAINING,
        instances[2].address: BACKING_OFF,
        instances[3].address: DRAINING,
    }
    pool = Pool(instances, "", Counters())
    assert_shares(draws(pool, unavailable, picks=3_000), {0: 100, 1: 50})
    del unavailable[instances[3].address]  # weight 0 stays out while others have a weight
    assert_shares(draws(pool, unavailable, picks=3_000), {0: 100, 1: 50})


def test_zero_weights_and_masks_together() -> None:
    instances = fleet(0, 0, 0)
    unavailable = {instances[0].address: DRAINING, instances[1].address: BACKING_OFF}
    pool = Pool(instances, "", Counters())
    assert draws(pool, unavailable, picks=50) == {2: 50}
    unavailable[instances[2].address] = BACKING_OFF
    assert draws(pool, unavailable, picks=50) == {0: 50}


def test_refusals_name_what_a_pick_passes_over() -> None:
    instances = fleet(100, 100, 100, 0)
    pool = Pool(instances, "", Counters())
    assert pool.refusals("m", {}) == {3: "weight 0"}
    unavailable = {instances[0].address: DRAINING, instances[1].address: BACKING_OFF}
    assert pool.refusals("m", unavailable) == {0: "draining", 1: "backing off", 3: "weight 0"}
    unavailable[instances[2].address] = BACKING_OFF
    assert pool.refusals("m", unavailable) == {1: "backing off", 2: "backing off", 3: "weight 0"}
    assert Pool(fleet(0, 0), "", Counters()).refusals("m", {}) == {}
    assert Pool([], "", Counters()).refusals("m", {}) == {}


def test_the_largest_random_number_is_in_range() -> None:
    pool = Pool(fleet(3, 7, 9), "", Counters())
    assert pool.pick("m", NOW_MS, lambda: 1.0 - 2**-53, NONE) is not None
    assert pool.pick("m", NOW_MS, lambda: 0.0, NONE) is not None
    assert pool.pick("m", NOW_MS, lambda: 1.0, NONE) is not None  # out of contract, and harmless


def test_a_random_number_that_rounds_past_the_end_is_drawn_again() -> None:
    numbers = iter([1.0 - 2**-53, 0.5])
    pool = Pool(fleet(*[9_622_836_667_495_484] * 5), "", Counters())
    instance = pool.pick("m", NOW_MS, lambda: next(numbers), NONE)
    assert instance is not None
    assert instance.id == 2


INSTANCES = st.lists(
    st.builds(
        provider,
        weight=st.sampled_from([-1, 0, 1, 2, 100, 5_000]),
        started_ms=st.sampled_from([0, NOW_MS + 50, NOW_MS, NOW_MS - 100_000, 5]),
        warmup_ms=st.sampled_from([0, 10, 600_000]),
        methods=st.none() | st.dictionaries(st.sampled_from("mn"), st.sampled_from([0, 3])),
    ),
    min_size=1,
    max_size=12,
)


@given(INSTANCES, st.randoms(use_true_random=False), st.data())
def test_a_pick_is_always_among_the_best_there_are(
    drafts: list[Instance], random: Random, data: st.DataObject
) -> None:
    instances = [
        provider(
            f"10.0.0.{n}", id=n, weight=each.weight, started_ms=each.started_ms,
            warmup_ms=each.warmup_ms, methods=each.method_weights,
        )
        for n, each in enumerate(drafts)
    ]  # fmt: skip
    states = data.draw(st.lists(st.sampled_from([0, DRAINING, BACKING_OFF]), max_size=12))
    unavailable = {i.address: s for i, s in zip(instances, states, strict=False) if s}
    pool = Pool(instances, "", Counters())
    for method in ("m", "n", "x"):
        weighted = [each for each in instances if weight_at(each, method, NOW_MS) > 0] or instances
        best = min(unavailable.get(each.address, 0) for each in weighted)
        legal = {each.id for each in weighted if unavailable.get(each.address, 0) == best}
        assert legal == {e.id for e in instances} - pool.refusals(method, unavailable).keys()
        for _ in range(5):
            picked = pool.pick(method, NOW_MS, random.random, unavailable)
            assert picked is not None
            assert picked.id in legal
