"""The instance table: dense ids that stay with an identity."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.instance import Instance
from sidecar.model.protocol import DUBBO, EVERY
from sidecar.routing.table import InstanceTable
from tests.fixtures.fleet import provider


def test_ids_are_dense_and_kept() -> None:
    table = InstanceTable()
    first = table.apply([provider("192.0.2.1"), provider("192.0.2.2"), provider("192.0.2.3")])
    assert [instance.id for instance in first.added] == [0, 1, 2]
    assert (first.previous, first.version, first.removed) == (0, 1, [])
    second = table.apply([provider("192.0.2.2", weight=7)], [provider("192.0.2.1")])
    assert [(i.id, i.host) for i in second.removed] == [(0, "192.0.2.1"), (1, "192.0.2.2")]
    assert [(i.id, i.weight) for i in second.added] == [(1, 7)]
    assert table.size == 2
    assert [i and i.host for i in table.instances] == [None, "192.0.2.2", "192.0.2.3"]


def test_a_freed_id_is_used_by_a_later_change_only() -> None:
    table = InstanceTable()
    table.apply([provider("192.0.2.1")])
    change = table.apply([provider("192.0.2.2")], [provider("192.0.2.1")])
    assert [i.id for i in change.added] == [1]
    assert [i.id for i in table.apply([provider("192.0.2.3")]).added] == [0]


def test_readers_keep_their_list() -> None:
    table = InstanceTable()
    table.apply([provider("192.0.2.1")])
    held = table.instances
    table.apply([provider("192.0.2.2")], [provider("192.0.2.1")])
    assert [i and i.host for i in held] == ["192.0.2.1"]


def test_what_changes_nothing_is_no_change() -> None:
    table = InstanceTable()
    table.apply([provider("192.0.2.1")])
    held = table.instances
    change = table.apply([provider("192.0.2.1")], [provider("192.0.2.9")])
    assert change.is_empty
    assert (change.previous, change.version, table.version) == (1, 1, 1)
    assert table.instances is held


def test_a_draft_wins_over_its_own_removal_and_the_last_draft_wins() -> None:
    table = InstanceTable()
    table.apply([provider("192.0.2.1")])
    change = table.apply(
        [provider("192.0.2.1", weight=1), provider("192.0.2.1", weight=2)], [provider("192.0.2.1")]
    )
    assert [i.weight for i in change.added] == [2]
    assert [i.weight for i in change.removed] == [100]
    assert table.size == 1


def test_group_and_version_are_part_of_the_identity() -> None:
    table = InstanceTable()
    drafts = [
        provider(), provider(group="dev"), provider(version="1.0.0"), provider(port=20881),
    ]  # fmt: skip
    table.apply(drafts)
    assert table.size == 4
    for draft in drafts:
        found = table.find(draft)
        assert found is not None
        assert found.is_same(draft)
    assert table.find(provider(group="other")) is None
    assert table.find(provider(port=1)) is None


def test_fc_10_a_restart_of_the_same_address_keeps_the_id() -> None:
    table = InstanceTable()
    table.apply([provider("192.0.2.9"), provider(started_ms=1_700_000_000_000)])
    change = table.apply([provider(started_ms=1_700_000_600_000)])
    assert [(i.id, i.started_ms) for i in change.added] == [(1, 1_700_000_600_000)]
    assert [i.id for i in change.removed] == [1]


def test_another_protocol_of_the_same_port_keeps_the_id() -> None:
    table = InstanceTable()
    table.apply([provider("192.0.2.9"), provider()])
    change = table.apply([provider(protocols=EVERY)])
    assert [(i.id, i.protocols) for i in change.removed] == [(1, DUBBO)]
    assert [(i.id, i.protocols) for i in change.added] == [(1, EVERY)]
    assert [i.id for i in table.apply([], [provider(protocol="tri")]).removed] == [1]


def test_applications_are_counted() -> None:
    table = InstanceTable()
    table.apply(
        [provider("192.0.2.1"), provider("192.0.2.2"), provider("192.0.2.3", application="b")]
    )
    assert table.applications == {"cart-app": 2, "b": 1}
    table.apply([provider("192.0.2.1", application="b")], [provider("192.0.2.2")])
    assert table.applications == {"b": 2}


PROVIDERS = st.builds(
    provider,
    st.sampled_from([f"192.0.2.{n}" for n in range(6)]),
    weight=st.integers(0, 2),
    group=st.sampled_from(["", "g"]),
    application=st.sampled_from(["a", "b"]),
)


def _key(instance: Instance) -> tuple[str, str]:
    return instance.address, instance.group


@given(st.lists(st.tuples(st.lists(PROVIDERS), st.lists(PROVIDERS)), max_size=8))
def test_the_table_is_a_dictionary_with_stable_ids(
    changes: list[tuple[list[Instance], list[Instance]]],
) -> None:
    table = InstanceTable()
    twin: dict[tuple[str, str], Instance] = {}
    ids: dict[tuple[str, str], int] = {}
    for drafts, gone in changes:
        before = set(ids.values())
        change = table.apply(drafts, gone)
        for instance in gone:
            twin.pop(_key(instance), None)
        twin.update({_key(instance): instance for instance in drafts})
        present = [instance for instance in table.instances if instance is not None]
        assert {_key(i): i.weight for i in present} == {k: i.weight for k, i in twin.items()}
        assert table.size == len(twin)
        assert all(table.instances[i.id] is i for i in present)
        now = {_key(i): i.id for i in present}
        assert len(set(now.values())) == len(now)
        for key, id in now.items():  # noqa: A001
            assert ids.get(key, id) == id
        came = {i.id for i in change.added} - {i.id for i in change.removed}
        assert not came & before
        ids = now
        counts: dict[str, int] = {}
        for instance in twin.values():
            counts[instance.application] = counts.get(instance.application, 0) + 1
        assert table.applications == counts
