"""The directory of services."""

from __future__ import annotations

from sidecar.dispatch.directory import Directory
from sidecar.dispatch.dispatcher import decide
from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.service import ServiceKey
from sidecar.routing.build import build_snapshot
from sidecar.routing.router import Rules
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.routing.table import InstanceTable
from sidecar.telemetry.counters import Counters
from tests.fixtures.fleet import INTERFACE, options, provider, snapshot

KEY = ServiceKey(INTERFACE, "1.0.0", "dev")


def fleet(*instances: Instance) -> ServiceSnapshot:
    return snapshot(instances, KEY)


def member(host: str = "192.0.2.1") -> Instance:
    return provider(host, version="1.0.0", group="dev")


def test_services_are_found_by_the_text_of_their_key() -> None:
    directory = Directory(Counters(), 10)
    service = directory.add(KEY)
    assert service is not None
    assert directory.find("dev/org.example.Cart:1.0.0") is service
    assert directory.find("org.example.Cart") is None
    assert directory.add(ServiceKey(INTERFACE, "1.0.0", "dev")) is service
    assert directory.services() == [service]
    assert (service.plan, service.failure, service.last_used) == (None, "", 0)


def test_the_directory_is_capped() -> None:
    directory = Directory(Counters(), 2)
    first = directory.add(ServiceKey("a.A"))
    assert directory.add(ServiceKey("a.B")) is not None
    assert directory.add(ServiceKey("a.C")) is None
    assert directory.add(ServiceKey("a.A")) is first
    directory.remove(ServiceKey("a.B"))
    assert directory.add(ServiceKey("a.C")) is not None


def test_publish_and_fail() -> None:
    directory = Directory(Counters(), 10)
    service = directory.add(KEY)
    assert service is not None
    directory.fail(KEY, reason.REGISTRY_UNAVAILABLE)
    assert service.failure == reason.REGISTRY_UNAVAILABLE
    found = fleet(member())
    directory.publish(KEY, found)
    assert service.failure == ""
    assert service.plan is not None
    assert service.plan.snapshot is found
    directory.fail(KEY, reason.REGISTRY_UNAVAILABLE)
    assert service.plan.snapshot is found


def test_an_unknown_service_is_not_made_by_its_news() -> None:
    directory = Directory(Counters(), 10)
    directory.publish(KEY, fleet(member()))
    directory.fail(KEY, reason.REGISTRY_UNAVAILABLE)
    directory.remove(KEY)
    assert directory.services() == []


def test_a_holder_keeps_a_service_that_was_removed() -> None:
    directory = Directory(Counters(), 10)
    service = directory.add(KEY)
    assert service is not None
    directory.publish(KEY, fleet(member()))
    directory.remove(KEY)
    assert directory.find(KEY.text) is None
    assert service.plan is not None
    again = directory.add(KEY)
    assert again is not service


def test_a_call_keeps_its_plan_across_a_publish() -> None:
    directory = Directory(Counters(), 10)
    service = directory.add(KEY)
    assert service is not None
    directory.publish(KEY, fleet(member("192.0.2.1")))
    held = service.plan
    directory.publish(KEY, fleet(member("192.0.2.2")))
    assert held is not None
    assert held is not service.plan
    assert [each.host for each in held.pool("", False, "").instances] == ["192.0.2.1"]


def test_pools_survive_a_change_of_other_versions() -> None:
    table = InstanceTable()
    directory = Directory(Counters(), 10)
    service = directory.add(KEY)
    assert service is not None
    first = build_snapshot(KEY, table, table.apply([member()]), Rules(), options())
    directory.publish(KEY, first)
    plan = service.plan
    change = table.apply([provider(version="2.0.0")])
    directory.publish(KEY, build_snapshot(KEY, table, change, Rules(), options(), first))
    assert service.plan is plan


def test_fc_82_a_service_without_instances_has_no_label_of_its_own() -> None:
    counters = Counters()
    directory = Directory(counters, 1_000)
    for n in range(1_500):
        key = ServiceKey(f"random.Name{n}")
        service = directory.add(key)
        if service is None:
            break
        directory.publish(key, snapshot([], key))
        decision = decide(service, "", False, "", "m", 0, lambda: 0.5, {})
        counters.no_provider(service.stats_label, decision.reason)
    assert counters.no_eligible == {("_unknown", reason.EMPTY_REGISTRY): 1_000}


def test_a_label_is_given_by_the_first_instance_or_by_configuration() -> None:
    directory = Directory(Counters(), 10)
    service = directory.add(KEY)
    assert service is not None
    directory.publish(KEY, fleet(provider(version="2.0.0")))
    assert service.stats_label == "_unknown"
    directory.publish(KEY, fleet(member()))
    assert service.stats_label == KEY.text
    directory.publish(KEY, fleet())
    assert service.stats_label == KEY.text
    other = ServiceKey("a.B")
    named = directory.add(other)
    assert named is not None
    assert named.stats_label == "_unknown"
    assert directory.add(other, True) is named
    assert named.stats_label == "a.B"
    preloaded = directory.add(ServiceKey("a.C"), is_named=True)
    assert preloaded is not None
    assert preloaded.stats_label == "a.C"
