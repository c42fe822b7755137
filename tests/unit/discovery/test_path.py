"""Every pair of state and input, written out independently of the machine's own table."""

from __future__ import annotations

import itertools

import pytest

from sidecar.discovery import path as p
from sidecar.discovery.path import (
    ERROR_BACK_OFF,
    INPUT_NAMES,
    NO_AUTH_BACK_OFF,
    OVERSIZE_BACK_OFF,
    REQUEST_LIMIT,
    STATE_NAMES,
    BackOff,
    PathMachine,
)

NOW = 1000.0
DELAY = 1.0

# One row per state; columns: linked lost fired due grant listed missing found gone refused.
# "." is "nothing changes".
EXPECTED = """
offline  queued offline .       .      .       .       .      .      .       .
queued   queued offline .       .      reading .       .      .      .       .
reading  queued offline dirty   failed .       armed   queued queued absent  failed
dirty    queued offline .       failed .       waiting queued queued waiting failed
armed    queued offline waiting .      .       .       .      .      .       .
absent   queued offline waiting .      .       .       .      .      .       .
waiting  queued offline .       queued .       .       .      .      .       .
failed   queued offline .       queued .       .       .      .      .       .
"""
ROWS = {line.split()[0]: line.split()[1:] for line in EXPECTED.split("\n") if line}


def machine_in(state):
    """Lead a fresh machine into a state by inputs alone."""
    ways = {
        "offline": [],
        "queued": [p.LINKED],
        "reading": [p.LINKED, p.GRANT],
        "dirty": [p.LINKED, p.GRANT, p.FIRED],
        "armed": [p.LINKED, p.GRANT, p.LISTED],
        "absent": [p.LINKED, p.GRANT, p.MISSING, p.GRANT, p.GONE],
        "waiting": [p.LINKED, p.GRANT, p.LISTED, p.FIRED],
        "failed": [p.LINKED, p.GRANT, p.REFUSED],
    }
    machine = PathMachine("/p", DELAY)
    for event in ways[state]:
        assert machine.feed(event, NOW)
    assert STATE_NAMES[machine.state] == state
    return machine


def test_every_state_has_a_row():
    assert set(ROWS) == set(STATE_NAMES)
    assert all(len(row) == len(INPUT_NAMES) for row in ROWS.values())


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATE_NAMES, INPUT_NAMES)))
def test_every_pair(state, event):
    machine = machine_in(state)
    before = (machine.token, machine.due, machine.asks_existence)
    expected = ROWS[state][INPUT_NAMES.index(event)]
    changed = machine.feed(INPUT_NAMES.index(event), NOW + 0.25)
    assert changed == (expected != ".")
    if expected == ".":
        assert STATE_NAMES[machine.state] == state
        assert (machine.token, machine.due, machine.asks_existence) == before
    else:
        assert STATE_NAMES[machine.state] == expected


@pytest.mark.parametrize("state", STATE_NAMES)
@pytest.mark.parametrize("event", [p.LINKED, p.LOST])
def test_a_change_of_the_link_outdates_requests_and_stops_timers(state, event):
    machine = machine_in(state)
    token = machine.token
    machine.feed(event, NOW)
    assert machine.token > token
    assert machine.due == 0.0


def test_the_first_event_starts_the_timer_and_later_ones_do_not_restart_it():
    machine = machine_in("armed")
    machine.feed(p.FIRED, NOW)
    assert machine.due == NOW + DELAY
    machine.feed(p.FIRED, NOW + 0.9)
    assert machine.due == NOW + DELAY


def test_an_event_during_the_request_is_served_one_delay_after_it():
    machine = machine_in("reading")
    machine.feed(p.FIRED, NOW + 0.1)
    assert machine.due == NOW + REQUEST_LIMIT
    machine.feed(p.FIRED, NOW + 0.2)
    machine.feed(p.LISTED, NOW + 0.3)
    assert machine.due == NOW + 0.1 + DELAY


def test_an_event_during_a_long_request_is_served_at_once():
    machine = machine_in("reading")
    machine.feed(p.FIRED, NOW)
    machine.feed(p.LISTED, NOW + 5)
    assert machine.due == NOW + 5


def test_a_missing_node_is_probed_and_a_found_one_is_read():
    machine = machine_in("reading")
    machine.feed(p.MISSING, NOW)
    assert machine.asks_existence
    machine.feed(p.GRANT, NOW)
    machine.feed(p.FOUND, NOW)
    assert not machine.asks_existence


def test_creation_is_followed_by_a_read_and_a_reconnect_by_a_probe():
    machine = machine_in("absent")
    assert machine.asks_existence
    machine.feed(p.FIRED, NOW)
    assert not machine.asks_existence
    machine = machine_in("absent")
    machine.feed(p.LOST, NOW)
    machine.feed(p.LINKED, NOW)
    assert machine.asks_existence


def test_an_event_during_a_probe_means_that_the_node_exists_by_now():
    machine = machine_in("reading")
    machine.feed(p.MISSING, NOW)
    machine.feed(p.GRANT, NOW)
    machine.feed(p.FIRED, NOW)
    machine.feed(p.GONE, NOW)
    assert machine.state == p.WAITING
    assert not machine.asks_existence


def test_rules_begin_with_a_probe():
    assert PathMachine("/r", 0.05, asks_existence=True).asks_existence


def test_a_settled_answer_makes_it_known():
    assert not machine_in("reading").is_known
    assert not machine_in("failed").is_known
    assert machine_in("armed").is_known
    assert machine_in("absent").is_known


def test_each_request_has_its_own_token_and_a_failed_one_is_outdated():
    machine = machine_in("queued")
    tokens = [machine.token]
    for event in (p.GRANT, p.REFUSED, p.DUE, p.GRANT, p.LISTED, p.FIRED, p.DUE, p.GRANT):
        machine.feed(event, NOW)
        tokens.append(machine.token)
    assert tokens == sorted(tokens)
    assert len(set(tokens)) == 5  # three grants and one refusal


def test_failures_back_off_up_to_the_limit_and_success_starts_over():
    machine = machine_in("queued")
    pauses = []
    for _ in range(10):
        machine.feed(p.GRANT, NOW)
        machine.feed(p.REFUSED, NOW)
        pauses.append(machine.due - NOW)
        machine.feed(p.DUE, machine.due)
    assert pauses[:4] == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert pauses[-1] == ERROR_BACK_OFF.limit
    machine.feed(p.GRANT, NOW)
    machine.feed(p.LISTED, NOW)
    assert machine.failures == 0


@pytest.mark.parametrize("state", ["reading", "dirty"])
def test_a_request_without_reply_fails_at_its_deadline(state):
    machine = machine_in(state)
    token = machine.token
    assert machine.due == NOW + REQUEST_LIMIT
    machine.feed(p.DUE, machine.due)
    assert machine.state == p.FAILED
    assert machine.due == NOW + REQUEST_LIMIT + ERROR_BACK_OFF.first
    assert machine.token > token


def test_back_off_never_overflows():
    assert BackOff(1.0, 10.0).after(10_000) == 10.0


def test_fc_05_missing_permission_is_asked_for_once_a_second_at_most():
    assert NO_AUTH_BACK_OFF.first >= 1.0
    machine = machine_in("reading")
    machine.feed(p.REFUSED, NOW, NO_AUTH_BACK_OFF)
    assert machine.due == NOW + 1.0


def test_oversize_lists_are_not_read_in_a_hurry():
    assert OVERSIZE_BACK_OFF.first > ERROR_BACK_OFF.first
    assert OVERSIZE_BACK_OFF.limit == 60.0
