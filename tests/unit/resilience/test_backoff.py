"""Back-off after failed connections."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.resilience.backoff import backoff


def test_doubles_up_to_the_cap():
    waits = [backoff(n, 0.1, 1.0, 0.999999) for n in range(1, 8)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0], rel=1e-3)


def test_spreads_over_the_upper_half():
    assert backoff(3, 0.1, 10.0, 0.0) == pytest.approx(0.2)
    assert backoff(3, 0.1, 10.0, 0.5) == pytest.approx(0.3)


def test_a_minimum_above_the_maximum_is_capped():
    assert backoff(1, 5.0, 2.0, 0.0) == pytest.approx(1.0)


@given(st.integers(-3, 10**9), st.floats(0.0, 1.0, exclude_max=True))
def test_is_within_bounds_for_any_count(failures, fraction):
    assert 0.05 <= backoff(failures, 0.1, 10.0, fraction) <= 10.0
