"""Providers, registry and sidecar come and go while Java consumers call."""

from __future__ import annotations

import contextlib
import time

import pytest

from tests.e2e.fleet import answered, offer_plain, others
from tests.e2e.peers import VERSIONS, Provider, free_port, wait_until
from tests.e2e.sidecar_process import SidecarProcess

pytestmark = [pytest.mark.java, pytest.mark.zookeeper, pytest.mark.timeout(120, func_only=True)]

callers = pytest.mark.parametrize("caller", VERSIONS, ids=lambda v: f"consumer{v}")
callees = pytest.mark.parametrize("callee", VERSIONS, ids=lambda v: f"provider{v}")


@callees
def test_a_graceful_end_fails_no_call(fleet, callee):
    group = f"ending-{callee}"
    offer_plain(fleet, others(callee)[0], group)
    leaver = Provider(
        callee, fleet.peers.directory, registry=fleet.registry, group=group, name="leaver"
    )
    with contextlib.closing(leaver):
        references = [fleet.reference(version, group=group, timeout=3000) for version in VERSIONS]
        for reference in references:
            wait_until(lambda r=reference: "leaver" in r.many(20)["histogram"], what="both serve")
            reference.start(threads=3, method="slow", arg=20)
        time.sleep(0.5)
        leaver.terminate()
        wait_until(lambda: leaver.has_ended, what="graceful end")
        outcomes = [reference.finish() for reference in references]
    assert [outcome["failures"] for outcome in outcomes] == [{}, {}, {}]
    assert all(outcome["histogram"].get("leaver") for outcome in outcomes)


@callees
def test_a_killed_provider_costs_only_the_calls_in_flight(fleet, callee):
    group, port = f"killed-{callee}", free_port()
    offer_plain(fleet, others(callee)[0], group)
    words = {"registry": fleet.registry, "group": group, "name": "phoenix", "port": port}
    reference = fleet.reference(VERSIONS[-1], group=group, timeout=3000)
    first = Provider(callee, fleet.peers.directory, **words)
    with contextlib.closing(first):
        wait_until(lambda: "phoenix" in reference.many(20)["histogram"], what="both serve")
        threads = 4
        reference.start(threads=threads, method="slow", arg=10)
        time.sleep(0.5)
        first.kill()
    second = Provider(callee, fleet.peers.directory, **words)
    with contextlib.closing(second):
        time.sleep(1)
        outcome = reference.finish()
        wait_until(lambda: "phoenix" in reference.many(20)["histogram"], what="it is back")
    # A dying process may still accept one more connection: a second round of calls in flight.
    assert sum(outcome["failures"].values()) <= 2 * threads, outcome
    assert all("CONNECTION_LOST" in kind for kind in outcome["failures"]), outcome


@callers
def test_a_restarted_sidecar_is_found_again(fleet, caller):
    """Nothing helps a call while nobody listens; afterwards the consumer recovers by itself."""
    group = "restart"
    offer_plain(fleet, VERSIONS[-1], group)
    directory, registry = fleet.peers.directory, fleet.zookeeper.url
    with contextlib.closing(SidecarProcess(directory, registry)) as first:
        reference = fleet.peers.reference(caller, first.url, group=group)
        answered(reference, 5)
        assert first.stop() == 0
    with contextlib.closing(SidecarProcess(directory, registry, first.port)):
        # 3.x: the call that connects succeeds, the next ones fail until the reconnect task's turn.
        wait_until(lambda: not reference.many(5, method="who")["failures"], what="it recovers")
        reference.destroy()


def test_calls_go_on_while_zookeeper_is_away(fleet):
    group = "outage"
    offer_plain(fleet, VERSIONS[-1], group)
    reference = fleet.reference(VERSIONS[-1], group=group)
    answered(reference, 5)
    reference.start(threads=2, method="who", pause=5)
    fleet.zookeeper.stop()
    time.sleep(2)
    fleet.zookeeper.start()
    fleet.wait_known()
    outcome = reference.finish()
    assert not outcome["failures"], outcome
    fleet.offer(VERSIONS[-1], f"{group}-late", group=group, version="2.0.0")
    late = fleet.reference(VERSIONS[-1], group=group, version="2.0.0")
    assert answered(late, 5) == {f"{group}-late": 5}


def test_every_instance_is_replaced_without_a_failed_call(fleet):
    group = "rolling"
    words = {"registry": fleet.registry, "group": group}
    reference = fleet.reference(VERSIONS[-1], group=group, timeout=3000)
    with contextlib.ExitStack() as running:
        old = [Provider(v, fleet.peers.directory, name=f"old-{v}", **words) for v in VERSIONS]
        for provider in old:
            running.callback(provider.close)
        fleet.wait_known()
        reference.start(threads=4, method="slow", arg=10)
        for leaver, version in zip(old, reversed(VERSIONS), strict=True):
            name = f"new-{version}"
            joiner = Provider(version, fleet.peers.directory, name=name, **words)
            running.callback(joiner.close)
            leaver.terminate()
        wait_until(lambda: all(leaver.has_ended for leaver in old), what="the old ones end")
        outcome = reference.finish()
        assert set(answered(reference, 60)) == {f"new-{version}" for version in VERSIONS}
    assert not outcome["failures"], outcome
