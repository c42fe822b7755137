"""Events in, requests out."""

from __future__ import annotations

import itertools

import pytest

from sidecar.discovery import path as p
from sidecar.discovery.path import NO_AUTH_BACK_OFF, REQUEST_LIMIT
from sidecar.discovery.path_table import PathTable, Request
from sidecar.discovery.read_limiter import ReadLimiter

NOW = 1000.0


@pytest.fixture
def table():
    return PathTable()


def armed(table, path="/a", delay=1.0, now=NOW):
    table.watch(path, delay, now)
    (request,) = table.tick(now)
    assert request.path == path
    assert table.replied(path, request.token, p.LISTED, now)
    return request.token


def test_nothing_is_asked_before_there_is_a_connection(table):
    table.watch("/a", 1.0, NOW)
    assert table.tick(NOW) == []
    assert table.next_due() == 0.0
    table.linked(NOW)
    assert [request.path for request in table.tick(NOW)] == ["/a"]
    assert table.is_linked
    assert len(table) == 1


def test_watching_twice_is_watching_once(table):
    table.linked(NOW)
    token = armed(table)
    table.watch("/a", 1.0, NOW)
    assert table.tick(NOW) == []
    assert table.machine("/a").token == token


def test_one_read_per_delay_however_many_events(table):
    table.linked(NOW)
    token = armed(table)
    for k in range(10):
        table.fired("/a", token, NOW + k * 0.1)
        assert table.tick(NOW + k * 0.1) == []
    assert table.events == 10
    assert table.next_due() == NOW + 1.0
    (request,) = table.tick(NOW + 1.0)
    assert request == Request("/a", request.token, False)
    assert request.token > token


def test_replies_and_events_of_other_requests_are_dropped(table):
    table.linked(NOW)
    token = armed(table)
    assert not table.replied("/a", token, p.LISTED, NOW)
    table.fired("/a", token - 1, NOW)
    table.fired("/nowhere", token, NOW)
    assert not table.replied("/nowhere", token, p.LISTED, NOW)
    assert table.events == 0
    assert table.machine("/a").state == p.ARMED


def test_a_path_watched_again_takes_nothing_from_its_first_life(table):
    table.linked(NOW)
    table.watch("/a", 1.0, NOW)
    (old,) = table.tick(NOW)
    table.unwatch("/a")
    table.unwatch("/a")
    table.watch("/a", 1.0, NOW)
    (new,) = table.tick(NOW)
    assert not table.replied("/a", old.token, p.LISTED, NOW)
    table.fired("/a", old.token, NOW)
    assert table.machine("/a").state == p.READING
    assert table.replied("/a", new.token, p.LISTED, NOW)


def test_reconnect_reads_everything_in_order_and_serves_unserved_events(table):
    table.linked(NOW)
    tokens = {path: armed(table, path) for path in ("/a", "/b", "/c")}
    table.fired("/b", tokens["/b"], NOW)
    table.lost(NOW + 0.1)
    assert not table.is_linked
    assert table.tick(NOW + 5) == []
    table.linked(NOW + 5)
    requests = table.tick(NOW + 5)
    assert [request.path for request in requests] == ["/a", "/b", "/c"]
    assert all(request.token > tokens[request.path] for request in requests)


def test_a_new_connection_without_a_loss_reads_everything_too(table):
    table.linked(NOW)
    armed(table)
    table.linked(NOW)
    table.linked(NOW)
    assert len(table.tick(NOW)) == 1


def test_reads_are_paced():
    table = PathTable(ReadLimiter(burst=3, per_second=10, in_flight=100))
    for k in range(5):
        table.watch(f"/{k}", 1.0, NOW)
    table.linked(NOW)
    first = table.tick(NOW)
    assert len(first) == 3
    assert table.next_due() == pytest.approx(NOW + 0.05)
    assert len(table.tick(NOW + 0.1)) == 1
    for request in first:
        table.replied(request.path, request.token, p.LISTED, NOW + 0.1)
    assert len(table.tick(NOW + 0.3)) == 1
    assert table.tick(NOW + 9) == []


def test_a_new_path_does_not_wait_behind_those_that_are_read_again():
    table = PathTable(ReadLimiter(burst=1, per_second=1.0, in_flight=100))
    table.linked(NOW)
    now = NOW
    for n in range(20):
        now += 1.0
        armed(table, f"/{n}", now=now)
    table.lost(now)
    table.linked(now)
    table.watch("/new", 1.0, now)
    now = table.next_due()
    assert [request.path for request in table.tick(now)] == ["/new"]
    paths = []
    while table.next_due() < now + 30:
        paths += [request.path for request in table.tick(table.next_due())]
    assert paths == [f"/{n}" for n in range(20)]
    table.watch("/late", 1.0, now)
    table.lost(now)
    assert table.tick(now + 60) == []


def test_requests_under_way_are_counted_right_through_every_way_out():
    limiter = ReadLimiter(burst=1000, per_second=1000, in_flight=2)
    table = PathTable(limiter)
    table.linked(NOW)
    for path in ("/a", "/b", "/c"):
        table.watch(path, 1.0, NOW)
    first, second = table.tick(NOW)
    assert table.next_due() == NOW + REQUEST_LIMIT
    table.replied("/a", first.token, p.REFUSED, NOW)
    assert limiter.in_flight == 1
    table.unwatch("/b")
    assert limiter.in_flight == 0
    (third,) = table.tick(NOW)
    table.fired("/c", third.token, NOW)
    assert limiter.in_flight == 1
    table.lost(NOW)
    assert limiter.in_flight == 0
    assert second.token


def test_an_unwatched_path_loses_its_turn(table):
    table.linked(NOW)
    table.watch("/a", 1.0, NOW)
    table.unwatch("/a")
    assert table.tick(NOW) == []
    assert table.machine("/a") is None


def test_a_request_without_reply_is_repeated(table):
    table.linked(NOW)
    table.watch("/a", 1.0, NOW)
    (request,) = table.tick(NOW)
    assert table.next_due() == NOW + REQUEST_LIMIT
    assert table.tick(NOW + REQUEST_LIMIT) == []
    assert table.take_overdue() == ["/a"]
    assert table.take_overdue() == []
    (again,) = table.tick(table.next_due())
    assert again.token > request.token


def test_absent_node_probe_and_creation(table):
    table.linked(NOW)
    table.watch("/a", 1.0, NOW)
    (read,) = table.tick(NOW)
    table.replied("/a", read.token, p.MISSING, NOW)
    (probe,) = table.tick(NOW)
    assert probe.is_probe
    assert table.replied("/a", probe.token, p.GONE, NOW)
    assert table.next_due() == 0.0
    table.fired("/a", probe.token, NOW + 3)
    (read,) = table.tick(NOW + 4)
    assert not read.is_probe


def test_fc_05_one_failing_path_does_not_touch_the_others(table):
    table.linked(NOW)
    table.watch("/pay", 1.0, NOW)
    (request,) = table.tick(NOW)
    token = armed(table, "/cart")
    times = []
    now = NOW
    while now < NOW + 60:
        table.replied("/pay", request.token, p.REFUSED, now, NO_AUTH_BACK_OFF)
        now = table.next_due()
        times.append(now)
        (request,) = table.tick(now)
    assert all(later - earlier >= 1.0 for earlier, later in itertools.pairwise(times))
    assert all(later - earlier <= 10.0 for earlier, later in itertools.pairwise(times))
    assert table.machine("/cart").token == token


def test_fc_12_flapping_costs_one_read_per_delay(table):
    table.linked(NOW)
    token = armed(table)
    reads = 0
    now = NOW
    while now < NOW + 5:
        table.fired("/a", token, now)
        for request in table.tick(now):
            reads += 1
            token = request.token
            table.replied("/a", token, p.LISTED, now)
        now += 0.1
    assert reads <= 6


def test_outdated_timers_do_not_pile_up(table):
    table.linked(NOW)
    token = armed(table)
    for k in range(1000):
        now = NOW + 2 * k
        table.fired("/a", token, now)
        for request in table.tick(now + 1):
            token = request.token
            table.replied("/a", token, p.LISTED, now + 1)
    assert len(table._timers) < 100


def test_outdated_timers_of_quick_changes_do_not_pile_up_either(table):
    table.linked(NOW)
    token = armed(table, delay=0.05)
    for k in range(500):
        now = NOW + 0.1 * k
        table.fired("/a", token, now)
        for request in table.tick(now + 0.06):
            token = request.token
            table.replied("/a", token, p.LISTED, now + 0.06)
    assert table.machine("/a").state == p.ARMED
    assert len(table._timers) < 100


def test_states_are_counted(table):
    table.linked(NOW)
    armed(table)
    table.watch("/b", 1.0, NOW)
    assert table.states() == {"armed": 1, "queued": 1}


def test_hundreds_of_paths_are_served_by_one_clock(table):
    table.linked(NOW)
    for k in range(300):
        table.watch(f"/{k}", 1.0, NOW)
    done, now = 0, NOW
    while done < 300:
        for request in table.tick(now):
            table.replied(request.path, request.token, p.LISTED, now)
            done += 1
        now = max(now, table.next_due())
    assert now - NOW < 2.0
