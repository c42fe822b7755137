"""Providers, registry and sidecar come and go while Java consumers call, over both protocols."""

from __future__ import annotations

import contextlib
import time

import pytest

from tests.e2e.fleet import (
    Fleet,
    answered,
    offer_both,
    other_modern,
    protocols,
)
from tests.e2e.peers import HASTY, VERSIONS, Provider, Reference, Version, free_port, wait_until
from tests.e2e.sidecar_process import SidecarProcess

pytestmark = [pytest.mark.java, pytest.mark.zookeeper, pytest.mark.timeout(120, func_only=True)]

modern = pytest.mark.parametrize("caller", VERSIONS[1:], ids=lambda v: f"consumer{v}")
callers = pytest.mark.parametrize("caller", VERSIONS, ids=lambda v: f"consumer{v}")
callees = pytest.mark.parametrize("callee", VERSIONS, ids=lambda v: f"provider{v}")


def callers_of(fleet: Fleet, callee: Version, group: str) -> list[Reference]:
    """References of every version and protocol that can reach the callee."""
    references = fleet.both(group, timeout=3000)
    return references[: len(VERSIONS)] if callee.is_legacy else references


@callees
def test_a_graceful_end_fails_no_call(fleet, callee):
    group = f"ending-{callee}"
    offer_both(fleet, other_modern(callee), group)
    words = {"registry": fleet.registry, "group": group, "protocol": protocols(callee)}
    leaver = Provider(callee, fleet.peers.directory, name="leaver", **words)
    with contextlib.closing(leaver):
        references = callers_of(fleet, callee, group)
        for reference in references:
            wait_until(lambda r=reference: "leaver" in r.many(20)["histogram"], what="both serve")
            reference.start(threads=2, method="slow", arg=20, pause=20)  # 50 calls a second
        time.sleep(0.5)
        leaver.terminate()
        wait_until(lambda: leaver.has_ended, what="graceful end")
        outcomes = [reference.finish() for reference in references]
    assert all(outcome["failures"] == {} for outcome in outcomes), outcomes
    assert all(outcome["histogram"].get("leaver") for outcome in outcomes)


@callees
def test_a_killed_provider_costs_only_the_calls_in_flight(fleet, callee):
    group, threads = f"killed-{callee}", 4
    offer_both(fleet, other_modern(callee), group)
    words = {"registry": fleet.registry, "group": group, "protocol": protocols(callee)}
    words |= {"name": "phoenix", "port": free_port(2)}
    references = callers_of(fleet, callee, group)[2:]
    first = Provider(callee, fleet.peers.directory, **words)
    with contextlib.closing(first):
        for reference in references:
            wait_until(lambda r=reference: "phoenix" in r.many(20)["histogram"], what="both serve")
            reference.start(threads=threads, method="slow", arg=20, pause=20)
        time.sleep(0.5)
        first.kill()
    second = Provider(callee, fleet.peers.directory, **words)
    with contextlib.closing(second):
        time.sleep(1)
        outcomes = [reference.finish() for reference in references]
        for reference in references:
            wait_until(lambda r=reference: "phoenix" in r.many(20)["histogram"], what="it is back")
    for outcome in outcomes:
        # A dying process may still accept one more connection: a second round of calls in flight.
        assert sum(outcome["failures"].values()) <= 2 * threads, outcome
        assert all("CONNECTION_LOST" in kind for kind in outcome["failures"]), outcome


@callers
def test_a_restarted_sidecar_is_found_again(fleet, caller):
    """Nothing helps a call while nobody listens; afterwards the consumer recovers by itself."""
    group = "restart"
    offer_both(fleet, VERSIONS[-1], group)
    directory, registry = fleet.peers.directory, fleet.zookeeper.url
    with contextlib.closing(SidecarProcess(directory, registry)) as first:
        urls = [first.url] if caller.is_legacy else [first.url, first.triple_url + HASTY]
        references = [fleet.peers.reference(caller, url, group=group) for url in urls]
        for reference in references:
            answered(reference, 5)
        assert first.stop() == 0
    with contextlib.closing(SidecarProcess(directory, registry, **first.ports)):
        # 3.x: the call that connects succeeds, the next ones fail until the reconnect task's turn.
        for reference in references:
            wait_until(
                lambda r=reference: not r.many(5, method="who")["failures"], what="it recovers"
            )
            reference.destroy()


def test_calls_go_on_while_zookeeper_is_away(fleet):
    group = "outage"
    offer_both(fleet, VERSIONS[-1], group)
    references = fleet.both(group)[2:]
    for reference in references:
        answered(reference, 5)
        reference.start(threads=2, method="who", pause=5)
    fleet.zookeeper.stop()
    time.sleep(2)
    fleet.zookeeper.start()
    fleet.wait_known()
    outcomes = [reference.finish() for reference in references]
    assert all(not outcome["failures"] for outcome in outcomes), outcomes
    fleet.offer(VERSIONS[-1], f"{group}-late", group=group, version="2.0.0")
    late = fleet.reference(VERSIONS[-1], group=group, version="2.0.0")
    assert answered(late, 5) == {f"{group}-late": 5}


def test_every_instance_is_replaced_without_a_failed_call(fleet):
    group = "rolling"
    with contextlib.ExitStack() as running:

        def begin(version: Version, age: str) -> Provider:
            words = {"registry": fleet.registry, "group": group, "name": f"{age}-{version}"}
            words["protocol"] = protocols(version)
            provider = Provider(version, fleet.peers.directory, **words)
            running.callback(provider.close)
            return provider

        old = [begin(version, "old") for version in VERSIONS]
        references = fleet.both(group, timeout=3000)[2:]
        for reference in references:
            reference.start(threads=2, method="slow", arg=20, pause=20)
        for leaver, version in zip(old, reversed(VERSIONS), strict=True):
            begin(version, "new")
            leaver.terminate()
        wait_until(lambda: all(leaver.has_ended for leaver in old), what="the old ones end")
        outcomes = [reference.finish() for reference in references]
        new = {f"new-{version}" for version in VERSIONS}
        assert [set(answered(reference, 60)) for reference in references] == [
            new, new - {"new-2.7"}, new - {"new-2.7"},
        ]  # fmt: skip
    assert all(not outcome["failures"] for outcome in outcomes), outcomes


@pytest.fixture
def own_sidecar(fleet):
    """A sidecar of its own for a consumer of 3.x, which it will leave soon."""
    offer_both(fleet, VERSIONS[-1], "drained")
    with contextlib.closing(
        SidecarProcess(fleet.peers.directory, fleet.zookeeper.url, grace=2)
    ) as sidecar:
        yield sidecar


@modern
def test_a_sidecar_that_ends_serves_as_long_as_consumers_call(fleet, own_sidecar, caller):
    words = {"group": "drained", "timeout": 3000}
    reference = fleet.peers.reference(caller, f"{own_sidecar.triple_url}?heartbeat=300", **words)
    answered(reference, 5)
    time.sleep(1.5)  # a consumer whose pings are not answered closes, and fails the next calls
    reference.start(threads=3, method="slow", arg=20)
    own_sidecar.terminate()
    time.sleep(1)
    outcome = reference.finish()
    assert own_sidecar.wait() == 0
    assert not outcome["failures"], outcome
    reference.destroy()


@modern
def test_a_sidecar_that_must_end_finishes_the_calls_in_flight(fleet, own_sidecar, caller):
    """A consumer that goes on gets GOAWAY at the end: it is refused calls, but none is lost."""
    words = {"group": "drained", "timeout": 3000}
    reference = fleet.peers.reference(caller, own_sidecar.triple_url, **words)
    answered(reference, 5)
    reference.start(threads=3, method="slow", arg=300, pause=5)
    own_sidecar.terminate()
    assert own_sidecar.wait() == 0
    outcome = reference.finish()
    assert outcome["histogram"]["drained-3.3"] > 3
    assert all(
        "No provider available" in kind or kind.endswith("is unavailable")
        for kind in outcome["failures"]
    ), outcome
    reference.destroy()
