"""The deadline wheel against a plain list of deadlines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.resilience.deadlines import NEVER, SLOT_MS, SLOTS, DeadlineWheel, Timed

HORIZON_MS = SLOT_MS * SLOTS


def timed(due_ms):
    item = Timed()
    item.due_ms = due_ms
    return item


def test_an_empty_wheel_never_wakes():
    wheel = DeadlineWheel()
    assert len(wheel) == 0
    assert wheel.wake_ms == NEVER
    assert wheel.expire(10_000) == []
    assert wheel.wake_ms == NEVER


def test_fires_when_due_and_not_before():
    wheel = DeadlineWheel()
    item = timed(1_100)
    wheel.add(item, 1_000)
    assert item.is_filed
    assert 1_100 <= wheel.wake_ms <= 1_100 + SLOT_MS
    assert wheel.expire(1_099) == []
    assert wheel.expire(wheel.wake_ms) == [item]
    assert not item.is_filed
    assert len(wheel) == 0
    assert wheel.wake_ms == NEVER


def test_what_is_due_already_fires_with_the_next_slot():
    wheel = DeadlineWheel()
    item = timed(5)
    wheel.add(item, 1_000)
    assert wheel.wake_ms <= 1_000 + SLOT_MS
    assert wheel.expire(wheel.wake_ms) == [item]


def test_a_far_deadline_is_filed_again_until_it_is_due():
    wheel = DeadlineWheel()
    item = timed(1_000 + 5 * HORIZON_MS)
    wheel.add(item, 1_000)
    wakes = 0
    while not (fired := wheel.expire(wheel.wake_ms)):
        wakes += 1
        assert item.is_filed
        assert len(wheel) == 1
    assert fired == [item]
    assert wakes in (5, 6)


def test_a_removed_item_never_fires_and_leaves_nothing():
    wheel = DeadlineWheel()
    items = [timed(1_000 + n) for n in range(100)]
    for item in items:
        wheel.add(item, 1_000)
    for item in items[::2]:
        wheel.remove(item)
        wheel.remove(item)
    assert len(wheel) == 50
    assert wheel.expire(2_000) == items[1::2]


def test_an_earlier_deadline_brings_the_wake_forward():
    wheel = DeadlineWheel()
    wheel.add(timed(1_900), 1_000)
    wheel.add(timed(1_200), 1_000)
    assert wheel.wake_ms <= 1_200 + SLOT_MS
    wheel.add(timed(1_500), 1_000)
    assert wheel.wake_ms <= 1_200 + SLOT_MS
    wheel.expire(1_300)
    assert 1_500 <= wheel.wake_ms <= 1_500 + SLOT_MS


def test_a_loop_that_stood_still_loses_nothing():
    wheel = DeadlineWheel()
    items = [timed(1_000 + 40 * n) for n in range(100)]
    for item in items:
        wheel.add(item, 1_000)
    assert sorted(each.due_ms for each in wheel.expire(90_000)) == [each.due_ms for each in items]


def test_an_idle_wheel_takes_up_time_again():
    wheel = DeadlineWheel()
    wheel.add(timed(50), 10)
    wheel.expire(100)
    item = timed(1_000_100)
    wheel.add(item, 1_000_000)
    assert 1_000_100 <= wheel.wake_ms <= 1_000_100 + SLOT_MS


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(-50, 4_000)),
        st.tuples(st.just("remove"), st.integers(0, 30)),
        st.tuples(st.just("pass"), st.integers(0, 2_500)),
        st.tuples(st.just("wake"), st.just(0)),
    ),
    max_size=60,
)


@given(steps, st.integers(0, 10**9))
def test_agrees_with_a_plain_list(script, start):
    wheel = DeadlineWheel()
    model: list[Timed] = []
    filed: dict[Timed, int] = {}
    now = start
    for step, number in script:
        if step == "add":
            item = timed(max(1, now + number))
            wheel.add(item, now)
            model.append(item)
            filed[item] = now
        elif step == "remove" and model:
            wheel.remove(model.pop(number % len(model)))
        else:
            now = max(now, wheel.wake_ms) if step == "wake" else now + number
            fired = wheel.expire(now)
            due = [item for item in model if item.due_ms <= now]
            overdue = [i for i in due if max(i.due_ms, filed[i]) + SLOT_MS <= now]
            assert set(overdue) <= set(fired) <= set(due), "neither early nor over a slot late"
            model = [item for item in model if item not in fired]
        assert len(wheel) == len(model)
        assert all(item.is_filed for item in model)
        if model:
            assert wheel.wake_ms != NEVER
            assert wheel.wake_ms <= max(min(i.due_ms for i in model), now) + 2 * SLOT_MS
    fired = wheel.expire(now + 10**6)
    assert set(fired) == set(model)
