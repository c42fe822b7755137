"""Decisions: the instance, or the reason."""

from __future__ import annotations

import time
from random import Random

import pytest

from sidecar.balance.pool import BACKING_OFF, DRAINING
from sidecar.dispatch.directory import Directory, Service
from sidecar.dispatch.dispatcher import Decision, decide
from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.protocol import DUBBO, EVERY, TRIPLE
from sidecar.model.service import ServiceKey
from sidecar.routing.router import Rules
from sidecar.settings.schema import Nearby
from sidecar.telemetry.counters import Counters
from tests.fixtures.fleet import INTERFACE, NOW_MS, options, provider, rule, snapshot

KEY = ServiceKey(INTERFACE)


def service(*instances: Instance, text: str = "", location: str = "") -> Service:
    directory = Directory(Counters(), 10)
    found = directory.add(KEY)
    assert found is not None
    rules = Rules({"cart-app": rule(text)} if text else {})
    nearby = Nearby(force=True) if location else None
    directory.publish(KEY, snapshot(instances, rules=rules, chain=options("", nearby, location)))
    return found


def call(
    found: Service, tag: str = "", force: bool = False, unavailable: dict[str, int] | None = None
) -> Decision:
    rng = Random(1).random
    return decide(found, tag, force, "", "m", NOW_MS, rng, unavailable or {})


def test_an_instance_is_chosen() -> None:
    found = service(provider("192.0.2.1"), provider("192.0.2.2", tag="gray"))
    decision = call(found)
    assert decision.instance is not None
    assert (decision.instance.host, decision.reason, decision.override) == ("192.0.2.1", "", 0)
    gray = call(found, "gray").instance
    assert gray is not None
    assert gray.host == "192.0.2.2"
    assert found.last_used == NOW_MS


def test_only_what_speaks_the_protocol_is_chosen() -> None:
    found = service(
        provider("192.0.2.1"),
        provider("192.0.2.2", protocol="tri"),
        provider("192.0.2.3", protocol="grpc"),
        provider("192.0.2.4", protocols=EVERY),
    )
    rng = Random(1).random
    picked: dict[int, set[str]] = {DUBBO: set(), TRIPLE: set()}
    for protocol, hosts in picked.items():
        for tag in ("", "x") * 50:
            decision = decide(found, tag, False, "", "m", NOW_MS, rng, {}, protocol)
            assert decision.instance is not None
            hosts.add(decision.instance.host)
    assert picked[DUBBO] == {"192.0.2.1", "192.0.2.4"}
    assert picked[TRIPLE] == {"192.0.2.2", "192.0.2.3", "192.0.2.4"}
    assert all(d.instance.host in picked[DUBBO] for _ in range(50) if (d := call(found)).instance)


def test_the_interface_level_tag_and_the_method_count() -> None:
    directory = Directory(Counters(), 10)
    found = directory.add(KEY)
    assert found is not None
    rules = Rules({}, rule("tags: [{name: s, addresses: [192.0.2.2, 192.0.2.3]}]", "k"))
    fleet = [
        provider("192.0.2.1"), provider("192.0.2.2", methods={"m": 0}), provider("192.0.2.3"),
    ]  # fmt: skip
    directory.publish(KEY, snapshot(fleet, rules=rules))
    rng = Random(1).random
    picked = {
        (d.instance.host if (d := decide(found, "", False, "s", "m", 0, rng, {})).instance else "")
        for _ in range(50)
    }
    assert picked == {"192.0.2.3"}


def test_before_the_first_publish() -> None:
    directory = Directory(Counters(), 10)
    found = directory.add(KEY)
    assert found is not None
    decision = call(found)
    assert (decision.instance, decision.reason, decision.override) == (None, "", 0)
    directory.fail(KEY, reason.REGISTRY_NOAUTH)
    assert call(found).reason == reason.REGISTRY_NOAUTH


FORCED = "force: true\ntags: [{name: dead, addresses: [198.51.100.1]}]"


@pytest.mark.parametrize(
    ("token", "found", "tag", "force"),
    [
        (reason.EMPTY_REGISTRY, service(), "", False),
        (reason.VERSION_MISMATCH, service(provider(version="2.0.0")), "", False),
        (reason.GROUP_MISMATCH, service(provider(group="dev")), "", False),
        (reason.DISABLED, service(provider(disabled="true")), "", False),
        (reason.PROTOCOL_MISMATCH, service(provider(protocol="tri")), "", False),
        (reason.TAG_FORCED_EMPTY, service(provider()), "gray", True),
        (reason.TAG_FORCED_EMPTY, service(provider(), text=FORCED), "dead", False),
        (reason.TAG_EMPTY, service(provider(tag="gray")), "", False),
        (reason.NEARBY_FORCED_EMPTY, service(provider(zone="sh"), location="bj"), "", False),
    ],
)
def test_fc_81_each_cause_has_its_token(token: str, found: Service, tag: str, force: bool) -> None:
    decision = call(found, tag, force)
    assert (decision.instance, decision.reason) == (None, token)


def test_degraded_decisions_are_counted() -> None:
    found = service(provider(zone="sh"))
    call(found, "gray")
    call(found, "gray")
    call(found)
    assert found.counters.degraded == {(KEY.text, "tag", "tag_fallback"): 2}


def test_fc_63_an_address_that_drains_is_a_last_resort() -> None:
    found = service(provider("192.0.2.1"), provider("192.0.2.2"))
    draining = {"192.0.2.1:20880": DRAINING}
    for _ in range(20):
        decision = call(found, unavailable=draining)
        assert decision.instance is not None
        assert (decision.instance.host, decision.override) == ("192.0.2.2", 0)
    draining["192.0.2.2:20880"] = BACKING_OFF
    decision = call(found, unavailable=draining)
    assert decision.instance is not None
    assert (decision.instance.host, decision.override) == ("192.0.2.1", DRAINING)
    draining["192.0.2.1:20880"] = BACKING_OFF
    assert call(found, unavailable=draining).override == BACKING_OFF


def test_the_cost_of_a_decision_does_not_grow_with_the_fleet() -> None:
    def seconds(size: int) -> float:
        found = service(*(provider(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}") for n in range(size)))
        rng, nothing = Random(1).random, dict[str, int]()
        decide(found, "", False, "", "m", NOW_MS, rng, nothing)
        best = 1.0
        for _ in range(5):
            started = time.process_time()
            for _ in range(2_000):
                decide(found, "", False, "", "m", NOW_MS, rng, nothing)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(10_000) < 3 * seconds(10)  # a scan would be 1,000 times slower
