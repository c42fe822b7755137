"""Whether a silent peer is asked or given up."""

from __future__ import annotations

import pytest

from sidecar.resilience.liveness import ALIVE, ASK, DEAD, Liveness


def test_a_peer_that_is_read_from_is_alive():
    liveness = Liveness(60.0, 180.0, 1000.0)
    liveness.last_read = 1100.0
    assert liveness.check(1159.0) == ALIVE


def test_a_silent_peer_is_asked_once_a_period_and_then_given_up():
    liveness = Liveness(60.0, 180.0, 1000.0)
    checks = {now: liveness.check(now) for now in range(1000, 1185, 5)}
    assert [now for now, verdict in checks.items() if verdict == ASK] == [1060, 1120]
    assert [now for now, verdict in checks.items() if verdict == DEAD] == [1180]


def test_an_answer_starts_the_period_anew():
    liveness = Liveness(60.0, 180.0, 1000.0)
    assert liveness.check(1060.0) == ASK
    liveness.last_read = 1061.0
    assert liveness.check(1120.0) == ALIVE
    assert liveness.check(1121.0) == ASK


@pytest.mark.parametrize("now", [1060.0, 2000.0, 1e9])
def test_zero_switches_both_off(now):
    assert Liveness(0.0, 0.0, 1000.0).check(now) == ALIVE
