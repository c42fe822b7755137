from __future__ import annotations

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
    assert limiter.next_at() == 1000.1
    assert take_all(limiter, 1000.05) == 0
    assert take_all(limiter, 1000.1) == 1
    assert take_all(limiter, 1001.1) == 5
    assert take_all(limiter, 5000.0) == 5


def test_requests_under_way_are_capped():
    limiter = ReadLimiter(burst=100, per_second=10, in_flight=2)
    assert limiter.take(1000.0)
    assert limiter.take(1000.0)
    assert not limiter.take(1000.0)
    assert limiter.next_at() == 0.0
    limiter.done()
    assert limiter.next_at() == 1000.0
    assert limiter.take(1000.0)


def test_a_clock_that_stands_still_gives_nothing():
    limiter = ReadLimiter(burst=1, per_second=10)
    assert limiter.take(1000.0)
    assert not limiter.take(1000.0)
    assert not limiter.take(999.0)
