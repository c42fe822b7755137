"""Weight and warm-up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.balance.weight import base_weight, is_warming, weight_at
from tests.fixtures.fleet import NOW_MS, provider


def weight(up: int, base: int = 100, warmup: int = 600_000) -> int:
    instance = provider(weight=base, started_ms=NOW_MS - up, warmup_ms=warmup)
    return weight_at(instance, "m", NOW_MS)


@pytest.mark.parametrize(
    ("up", "base", "expected"),
    [
        (1, 100, 1), (6_000, 100, 1), (12_000, 100, 2), (60_000, 100, 10), (300_000, 100, 50),
        (599_999, 100, 99), (600_000, 100, 100), (300_000, 0, 0), (1, 1, 1), (599_999, 1, 1),
        (30_000, 10, 1),
    ],
)  # fmt: skip
def test_warm_up(up: int, base: int, expected: int) -> None:
    assert weight(up, base) == expected


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("up", "warmup", "expected"),
    [
        (-90_000, 600_000, 1),
        (0, 600_000, 1),
        (1, 600_000, 1),
        (60_000, 600_000, 10),
        (600_000, 600_000, 100),
        (30 * DAY_MS, 600_000, 100),  # more milliseconds than 31 bits hold
        (60_000, 0, 100),
        (0, 0, 100),
        (60_000, -1, 100),
        (1, 1, 100),
        (-1, 0, 1),
    ],
)
def test_fc_41_clocks(up: int, warmup: int, expected: int) -> None:
    assert weight(up, warmup=warmup) == expected


@pytest.mark.parametrize("started", [0, -5])
def test_fc_41_an_unknown_start_is_warm(started: int) -> None:
    instance = provider(started_ms=started)
    assert weight_at(instance, "m", NOW_MS) == 100
    assert not is_warming(instance, NOW_MS)


def test_method_weights_win_for_their_method() -> None:
    instance = provider(weight=100, methods={"find": 0, "list": -3, "save": 300})
    assert [base_weight(instance, m) for m in ("find", "list", "save", "other")] == [0, 0, 300, 100]
    assert base_weight(provider(weight=-5), "m") == 0


def test_fc_43_huge_weights_do_not_overflow() -> None:
    assert weight(300_000, 2_000_000_000) == 1_000_000_000


@given(
    st.integers(-(10**7), 10**7),
    st.integers(0, 5000),
    st.integers(0, 2_000_000_000),
    st.integers(-5, 10**6),
)
def test_the_weight_only_grows_and_stays_in_range(
    up: int, later: int, base: int, warmup: int
) -> None:
    instance = provider(weight=base, started_ms=NOW_MS - up, warmup_ms=warmup)
    now = weight_at(instance, "m", NOW_MS)
    assert min(1, base) <= now <= base
    assert now <= weight_at(instance, "m", NOW_MS + later)
    if not is_warming(instance, NOW_MS):
        assert now == base
