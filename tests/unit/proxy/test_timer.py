"""One timer for all deadlines."""

from __future__ import annotations

from sidecar.proxy.timer import DeadlineTimer
from sidecar.resilience.deadlines import SLOT_MS, Timed
from tests.fixtures.stage import FakeLoop


def rig():
    loop = FakeLoop()
    timer = DeadlineTimer(loop.call_later, loop.time)
    fired = []
    timer.on_expired = lambda item, now: fired.append((item, now))
    return loop, timer, fired


def filed(timer, loop, seconds):
    item = Timed()
    item.due_ms = int((loop.now + seconds) * 1000)
    timer.add(item, loop.now)
    return item


def test_hands_over_what_is_due():
    loop, timer, fired = rig()
    item = filed(timer, loop, 0.5)
    loop.advance(0.499)
    assert fired == []
    loop.advance(0.001 + 2 * SLOT_MS / 1000)
    ((found, when),) = fired
    assert found is item
    assert 0 <= when * 1000 - item.due_ms <= 2 * SLOT_MS
    assert len(timer) == 0


def test_a_thousand_deadlines_arm_one_timer():
    loop, timer, fired = rig()
    for number in range(1000):
        filed(timer, loop, 0.3 + number / 10_000)
    assert loop.armed == 1
    loop.advance(1.0)
    assert len(fired) == 1000
    assert loop.armed == 0


def test_an_earlier_deadline_moves_the_timer():
    loop, timer, fired = rig()
    filed(timer, loop, 5.0)
    early = filed(timer, loop, 0.1)
    assert loop.armed == 1
    loop.advance(0.2)
    assert [item for item, _ in fired] == [early]


def test_a_removed_deadline_does_not_fire():
    loop, timer, fired = rig()
    timer.remove(filed(timer, loop, 0.1))
    loop.advance(1.0)
    assert fired == []
    assert loop.armed == 0


def test_filing_again_moves_an_item():
    loop, timer, fired = rig()
    item = filed(timer, loop, 0.1)
    timer.remove(item)
    item.due_ms += 400
    timer.add(item, loop.now)
    timer.add(item, loop.now)
    loop.advance(0.4)
    assert fired == []
    loop.advance(0.2)
    assert [found for found, _ in fired] == [item]
    assert len(timer) == 0


def test_far_deadlines_do_not_wake_the_loop_all_the_time():
    loop, timer, fired = rig()
    filed(timer, loop, 60.0)
    wakes = 0
    while not fired:
        loop.now = loop.timers[0][0]
        *_, callback = loop.timers.pop(0)
        callback()
        wakes += 1
    assert wakes < 70


def test_a_defect_at_one_deadline_costs_no_other(caplog):
    loop, timer, fired = rig()
    first = filed(timer, loop, 0.1)
    others = [filed(timer, loop, 0.1), filed(timer, loop, 0.5)]

    def fire(item, now):
        assert item is not first
        fired.append((item, now))

    timer.on_expired = fire
    loop.advance(1.0)
    assert [item for item, _ in fired] == others
    assert "a deadline was missed" in caplog.text


def test_stopped_it_never_wakes():
    loop, timer, fired = rig()
    filed(timer, loop, 0.1)
    timer.stop()
    loop.advance(1.0)
    assert fired == []


def test_without_a_taker_expired_items_are_let_go():
    loop, timer, _fired = rig()
    timer.on_expired = None
    filed(timer, loop, 0.1)
    loop.advance(1.0)
    assert len(timer) == 0
