"""When a draining data plane is done."""

from __future__ import annotations

from sidecar.proxy.drain import DONE, FINISH, FINISH_TIME, SERVE, Drain


def test_serves_while_consumers_are_active_and_ends_when_they_are_quiet():
    drain = Drain(grace=25.0, idle=5.0, now=100.0)
    assert drain.step(102.0, 101.9, 0) == SERVE
    assert drain.step(106.8, 101.9, 0) == SERVE
    assert drain.step(106.9, 101.9, 0) == FINISH
    assert drain.step(106.95, 101.9, 0) == DONE


def test_fc_77_app_that_goes_on_is_served_until_the_grace_ends():
    drain = Drain(grace=25.0, idle=5.0, now=0.0)
    now = 0.0
    while drain.step(now, now, 1) == SERVE:
        now += 0.05
    assert 24.9 <= now <= 25.1
    assert drain.phase == FINISH
    assert drain.step(now + 0.5, now, 0) == DONE


def test_fc_77_app_that_leaves_early_ends_it_early():
    drain = Drain(grace=25.0, idle=5.0, now=0.0)
    now = 0.0
    while drain.step(now, min(now, 3.0), 0) != DONE:
        now += 0.05
    assert 7.9 <= now <= 8.1


def test_fc_77_second_signal_finishes_what_is_in_flight_for_two_seconds():
    drain = Drain(grace=25.0, idle=5.0, now=0.0)
    drain.step(1.0, 1.0, 3)
    drain.hurry(1.0)
    assert drain.step(1.5, 1.5, 3) == FINISH
    assert drain.step(2.9, 2.9, 1) == FINISH
    assert drain.step(1.0 + FINISH_TIME, 2.9, 1) == DONE


def test_a_further_signal_does_not_extend_the_end():
    drain = Drain(grace=25.0, idle=5.0, now=0.0)
    drain.hurry(1.0)
    drain.hurry(2.5)
    assert drain.step(2.9, 0.0, 1) == FINISH
    assert drain.step(3.0, 0.0, 1) == DONE


def test_a_slow_call_counts_as_activity():
    drain = Drain(grace=25.0, idle=5.0, now=0.0)
    assert drain.step(20.0, 1.0, 1) == SERVE
    assert drain.step(24.9, 1.0, 0) == SERVE


def test_without_consumers_it_ends_after_the_idle_time():
    drain = Drain(grace=25.0, idle=5.0, now=0.0)
    assert drain.step(4.9, 0.0, 0) == SERVE
    assert drain.step(5.0, 0.0, 0) == FINISH
    assert drain.step(5.05, 0.0, 0) == DONE


def test_consumers_are_told_before_the_end_although_nothing_is_open():
    drain = Drain(grace=25.0, idle=5.0, now=0.0)
    drain.hurry(1.0)
    assert drain.step(1.0, 0.0, 0) == FINISH
    assert drain.step(1.05, 0.0, 1) == FINISH
    assert drain.step(1.1, 0.0, 0) == DONE
