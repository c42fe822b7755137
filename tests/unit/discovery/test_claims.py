from __future__ import annotations

from functools import reduce
from itertools import permutations
from operator import or_

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.discovery.address import AddressPolicy
from sidecar.discovery.claims import Claims
from sidecar.discovery.provider_url import read_provider
from sidecar.discovery.registration import Interner
from sidecar.model.protocol import DUBBO, EVERY, TRIPLE
from sidecar.routing.table import InstanceTable
from tests.fixtures.provider_names import provider_name

INTERNER = Interner()
POLICY = AddressPolicy([])


def instance(n, started=1_700_000_000_000, **more):
    return read_provider(provider_name(n, started=started, **more), "demo.Cart", INTERNER, POLICY)


def make():
    table = InstanceTable()
    return table, Claims(table)


def test_one_claim_is_one_instance():
    table, claims = make()
    change = claims.apply({("a", 1): instance(11), ("a", 2): instance(12)}, {})
    assert len(change.added) == 2
    assert table.size == 2
    assert claims.contested == 0
    change = claims.apply({}, {("a", 1): instance(11)})
    assert [each.host for each in change.removed] == ["192.0.2.11"]
    assert table.size == 1


def test_fc_10_the_newest_twin_speaks_and_either_may_leave():
    for first_to_go in (1, 2):
        table, claims = make()
        old, new = instance(11), instance(11, started=1_700_000_600_000)
        claims.apply({("a", 1): old}, {})
        ordinal = table.find(old).id
        claims.apply({("a", 2): new}, {})
        assert table.size == 1
        assert table.find(old).started_ms == 1_700_000_600_000
        assert claims.contested == 1
        change = claims.apply({}, {("a", first_to_go): old if first_to_go == 1 else new})
        assert table.size == 1
        assert change.is_empty == (first_to_go == 1)
        assert table.find(old).id == ordinal
        assert table.find(old).started_ms == (
            1_700_000_600_000 if first_to_go == 1 else old.started_ms
        )
        assert claims.contested == 0
        claims.apply({}, {("a", 3 - first_to_go): new})
        assert table.size == 0


def test_fc_10_twins_in_one_list_in_either_order():
    for swap in (False, True):
        table, claims = make()
        pair = [instance(11), instance(11, started=1_700_000_600_000)]
        if swap:
            pair.reverse()
        claims.apply({("a", 1): pair[0], ("a", 2): pair[1]}, {})
        assert table.size == 1
        assert table.find(pair[0]).started_ms == 1_700_000_600_000


def test_a_restart_replaces_in_place():
    table, claims = make()
    old, new = instance(11), instance(11, started=1_700_000_600_000, weight=7)
    claims.apply({("a", 1): old}, {})
    ordinal = table.find(old).id
    change = claims.apply({("a", 2): new}, {("a", 1): old})
    assert len(change.added) == len(change.removed) == 1
    assert table.find(new).id == ordinal
    assert table.find(new).weight == 7
    assert claims.contested == 0


def test_an_equal_claim_of_another_registry_changes_nothing():
    table, claims = make()
    claims.apply({("a", 1): instance(11)}, {})
    assert claims.apply({("b", 1): instance(11)}, {}).is_empty
    assert claims.apply({}, {("a", 1): instance(11)}).is_empty
    assert not claims.apply({}, {("b", 1): instance(11)}).is_empty
    assert table.size == 0


def registered(*schemes, **more):
    """Two or more URLs of one start time for one port, as Dubbo 3.2 registers it."""
    return [instance(11, scheme=each, **more) for each in schemes]


@pytest.mark.parametrize("schemes", list(permutations(["dubbo", "tri"])))
@pytest.mark.parametrize("at_once", [True, False])
def test_two_protocols_of_one_port_are_one_instance(schemes, at_once):
    table, claims = make()
    first, second = registered(*schemes)
    if not at_once:
        claims.apply({("a", 1): first}, {})
        assert table.find(first).protocols == first.protocols
    claims.apply({("a", 1): first, ("a", 2): second} if at_once else {("a", 2): second}, {})
    assert table.size == 1
    # The same in both orders, so that all sidecars agree.
    assert (table.find(first).protocol, table.find(first).protocols) == ("dubbo", EVERY)
    ordinal = table.find(first).id
    change = claims.apply({}, {("a", 1): first})
    assert [(each.id, each.protocols) for each in change.added] == [(ordinal, second.protocols)]
    assert table.find(second).is_same(second)
    claims.apply({}, {("a", 2): second})
    assert table.size == 0


def test_protocols_of_two_registries_add_up():
    table, claims = make()
    both, only = registered("dubbo", "tri", ext__protocol="tri")
    claims.apply({("a", 1): both}, {})
    assert claims.apply({("b", 1): only}, {}).is_empty
    assert table.find(both).is_same(both)


def test_two_protocols_on_two_ports_are_two_instances():
    table, claims = make()
    (dubbo,) = registered("dubbo")
    (triple,) = registered("tri", port=50051)
    claims.apply({("a", 1): dubbo, ("a", 2): triple}, {})
    assert [each.protocols for each in table.instances] == [DUBBO, TRIPLE]
    assert claims.contested == 0


def test_equal_start_times_keep_the_one_that_was_there():
    table, claims = make()
    claims.apply({("a", 1): instance(11, weight=1)}, {})
    claims.apply({("b", 1): instance(11, weight=2)}, {})
    assert table.find(instance(11)).weight == 1


def test_group_and_version_are_part_of_the_identity():
    table, claims = make()
    claims.apply({("a", 1): instance(11), ("a", 2): instance(11, group="g")}, {})
    assert table.size == 2


def test_hundreds_of_twins_cost_no_more_than_hundreds_of_instances():
    table, claims = make()
    twins = {("a", k): instance(11, started=1_700_000_000_000 + k) for k in range(3000)}
    claims.apply(twins, {})
    assert table.size == 1
    claims.apply({}, {claim: each for claim, each in twins.items() if claim[1] != 7})
    assert table.find(instance(11)).started_ms == 1_700_000_000_007


CLAIM = st.tuples(st.sampled_from("ab"), st.integers(0, 5))
SAID = st.tuples(st.integers(11, 13), st.integers(0, 3), st.sampled_from([1, 2]), st.integers(1, 3))


@given(st.lists(st.tuples(st.dictionaries(CLAIM, SAID), st.sets(CLAIM)), max_size=12))
def test_the_table_is_what_the_claims_in_force_say(steps):
    table, claims = make()
    known = {}
    ordinals = {}
    for wanted, leaving in steps:
        made = {
            claim: instance(n, started=1_700_000_000_000 + s, weight=w).with_protocols(p)
            for claim, (n, s, w, p) in wanted.items()
            if claim not in known
        }
        dropped = {claim: known.pop(claim) for claim in leaving if claim in known}
        claims.apply(made, dropped)
        known.update(made)
        best = {}
        for each in known.values():
            best.setdefault(each.address, []).append(each)
        assert {each.address for each in table.instances if each} == set(best)
        assert table.size == len(best)
        for address, candidates in best.items():
            found = table.find(candidates[0])
            assert any(found.is_same(each.with_protocols(found.protocols)) for each in candidates)
            assert found.protocols == reduce(or_, (each.protocols for each in candidates))
            assert found.started_ms == max(each.started_ms for each in candidates)
            assert ordinals.setdefault(address, found.id) == found.id
        ordinals = {address: number for address, number in ordinals.items() if address in best}
        assert claims.contested == sum(len(each) > 1 for each in best.values())
