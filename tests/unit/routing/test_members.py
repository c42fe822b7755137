"""Group, version and switched-off instances: who belongs to a service."""

from __future__ import annotations

import pytest

from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.protocol import DUBBO, EVERY, TRIPLE
from sidecar.model.service import ServiceKey
from sidecar.routing.members import MEMBER, MemberSets
from tests.fixtures.fleet import INTERFACE, numbered, provider


def sets(key: ServiceKey, *instances: Instance) -> MemberSets:
    return MemberSets(key).changed([], numbered(*instances))


def test_fc_18_same_interface_other_version() -> None:
    fleet = (
        provider("192.0.2.11", version="1.0.0", group="dev"),
        provider("192.0.2.12", version="1.0.0", group="dev"),
        provider("192.0.2.13", version="2.0.0", group="dev"),
        provider("192.0.2.14"),
    )
    assert set(sets(ServiceKey(INTERFACE, "1.0.0", "dev"), *fleet).members) == {0, 1}
    assert set(sets(ServiceKey(INTERFACE, "0.0.0"), *fleet).members) == {3}
    assert set(sets(ServiceKey(INTERFACE), *fleet).members) == {3}


def test_members_by_what_they_speak() -> None:
    key = ServiceKey(INTERFACE)
    dubbo, triple = provider("192.0.2.1"), provider("192.0.2.2", protocol="tri")
    both, other = provider("192.0.2.3", protocols=EVERY), provider("192.0.2.4", version="2.0.0")
    found = sets(key, dubbo, triple, both, other)
    assert set(found.members) == {0, 1, 2}
    assert set(found.speaking(DUBBO)) == {0, 2}
    assert set(found.speaking(TRIPLE)) == {1, 2}
    before, after = numbered(dubbo)[0], numbered(dubbo.with_protocols(TRIPLE))[0]
    found = found.changed([before], [after])
    assert set(found.members) == {0, 1, 2}
    assert set(found.speaking(DUBBO)) == {2}
    assert set(found.speaking(TRIPLE)) == {0, 1, 2}


def test_one_protocol_costs_no_set_of_its_own() -> None:
    key = ServiceKey(INTERFACE)
    found = sets(key, provider(), provider("192.0.2.9"))
    assert found.speaking(DUBBO) is found.members
    assert not found.speaking(TRIPLE)
    found = sets(key, provider(protocols=EVERY))
    assert found.speaking(DUBBO) is found.speaking(TRIPLE) is found.members
    assert sets(key).speaking(DUBBO) is sets(key).speaking(TRIPLE)


@pytest.mark.parametrize(
    ("version", "group", "instance", "verdict"),
    [
        ("", "", provider(), MEMBER),
        ("", "", provider(version="0.0.0"), MEMBER),
        ("1.0.0", "", provider(version="1.0.0"), MEMBER),
        ("1.0.0", "", provider(), reason.VERSION_MISMATCH),
        ("", "", provider(version="1.0.0"), reason.VERSION_MISMATCH),
        ("*", "", provider(version="1.0.0"), MEMBER),
        ("", "dev", provider(), reason.GROUP_MISMATCH),
        ("", "", provider(group="dev"), reason.GROUP_MISMATCH),
        ("", "dev,test", provider(group="test"), MEMBER),
        ("", "dev,test", provider(), reason.GROUP_MISMATCH),
        ("", "dev,", provider(), reason.GROUP_MISMATCH),
        ("", "*", provider(group="dev"), MEMBER),
        ("", "*", provider(), MEMBER),
        ("1.0.0", "*", provider(group="dev"), reason.VERSION_MISMATCH),
        ("", "", provider(enabled="false"), reason.DISABLED),
        ("", "", provider(disabled="true"), reason.DISABLED),
        ("", "", provider(enabled="true", disabled="false"), MEMBER),
        ("", "", provider(enabled="true", disabled="true"), reason.DISABLED),
        ("", "", provider(enabled="", disabled=""), MEMBER),
        ("", "", provider(enabled="TRUE", disabled="no"), MEMBER),
        ("", "", provider(enabled="FALSE"), reason.DISABLED),
        ("", "", provider(enabled="no"), reason.DISABLED),
        ("", "", provider(disabled="True"), reason.DISABLED),
        ("2.0.0", "", provider(disabled="true"), reason.VERSION_MISMATCH),
    ],
)
def test_verdicts(version: str, group: str, instance: Instance, verdict: str) -> None:
    assert MemberSets(ServiceKey(INTERFACE, version, group)).verdict(instance) == verdict


def test_why_there_is_no_member() -> None:
    key = ServiceKey(INTERFACE, "1.0.0", "dev")
    disabled = provider("192.0.2.1", version="1.0.0", group="dev", enabled="false")
    other_version = provider("192.0.2.2", version="2.0.0", group="dev")
    other_group = provider("192.0.2.3", version="1.0.0")
    assert sets(key).empty_reason == reason.EMPTY_REGISTRY
    assert sets(key, other_group).empty_reason == reason.GROUP_MISMATCH
    assert sets(key, other_group, other_version).empty_reason == reason.VERSION_MISMATCH
    assert sets(key, other_group, other_version, disabled).empty_reason == reason.DISABLED
    good = provider("192.0.2.4", version="1.0.0", group="dev")
    assert sets(key, other_group, good).empty_reason == ""


def test_a_change_moves_instances_between_the_sets() -> None:
    key = ServiceKey(INTERFACE)
    (before,) = numbered(provider())
    (after,) = numbered(provider(disabled="true"))
    first = MemberSets(key).changed([], [before])
    second = first.changed([before], [after])
    assert (set(first.members), first.empty_reason) == ({0}, "")
    assert (set(second.members), second.empty_reason) == (set(), reason.DISABLED)
    assert second.changed([after], []).empty_reason == reason.EMPTY_REGISTRY
