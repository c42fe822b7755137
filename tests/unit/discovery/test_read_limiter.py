from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.discovery.read_limiter import ReadLimiter


def take_all(limiter, now):
    count = 0
    while limiter.take(now):
        count += 1
        limiter.done()
    return count


def test_a_burst_then_a_steady_rate():
    limiter = ReadLimiter(burst=5, per_second=10, in_flight=100)
    assert take_all(limiter, 1000.0) == 5
    assert take_all(limiter, 1000.0) == 0
    assert limiter.next_at() == pytest.approx(1000.05)
    assert take_all(limiter, 1000.04) == 0
    assert take_all(limiter, limiter.next_at()) == 1
    assert take_all(limiter, 1001.2) == 5
    assert take_all(limiter, 5000.0) == 5


def test_requests_under_way_are_capped():
    limiter = ReadLimiter(burst=100, per_second=10, in_flight=2)
    assert limiter.take(1000.0)
    assert limiter.take(1000.0)
    assert not limiter.take(1000.0)
    assert limiter.next_at() == 0.0
    limiter.done()
    assert limiter.next_at() <= 1000.0
    assert limiter.take(1000.0)


@given(st.floats(1.0, 1e9), st.integers(1, 300), st.floats(0.1, 1000))
def test_what_is_promised_is_kept(now, burst, per_second):
    limiter = ReadLimiter(burst, per_second, in_flight=10_000)
    for _ in range(burst + 20):
        while limiter.take(now):
            pass
        assert limiter.next_at() > now
        now = limiter.next_at()
        assert limiter.take(now)
        if limiter.in_flight > 5000:
            return


def test_a_clock_that_stands_still_gives_nothing():
    limiter = ReadLimiter(burst=1, per_second=10)
    assert limiter.take(1000.0)
    assert not limiter.take(1000.0)
    assert not limiter.take(999.0)
