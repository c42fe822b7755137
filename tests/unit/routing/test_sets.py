"""Sets that change by difference."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.instance_set import InstanceSet
from sidecar.routing.sets import SetEdits, edited

IDS = st.lists(st.integers(0, 9))
KEYS = st.sampled_from("abc")


@given(IDS, IDS, IDS)
def test_edited_is_set_arithmetic(old: list[int], dropped: list[int], added: list[int]) -> None:
    before = InstanceSet(old)
    after = edited(before, dropped, added)
    assert set(after) == (set(old) - set(dropped)) | set(added)
    assert set(before) == set(old)
    assert isinstance(after, InstanceSet)


@given(
    st.dictionaries(KEYS, st.lists(st.integers(0, 9), min_size=1)),
    st.lists(st.tuples(st.booleans(), KEYS, st.integers(0, 9))),
)
def test_edits_of_many_sets(
    start: dict[str, list[int]], edits: list[tuple[bool, str, int]]
) -> None:
    before = {key: InstanceSet(ids) for key, ids in start.items()}
    twin = {key: set(ids) for key, ids in start.items()}
    collected = SetEdits()
    for is_drop, key, id in edits:  # noqa: A001
        if is_drop:
            collected.drop(key, id)
        else:
            collected.add(key, id)
    for is_drop, key, id in sorted(edits, reverse=True):  # noqa: A001 - drops first
        if is_drop:
            twin.setdefault(key, set()).discard(id)
        else:
            twin.setdefault(key, set()).add(id)
    after = collected.applied_to(before)
    assert {key: set(ids) for key, ids in after.items()} == {k: v for k, v in twin.items() if v}
    assert {key: set(ids) for key, ids in before.items()} == {k: set(v) for k, v in start.items()}


def test_no_edits_are_the_same_sets() -> None:
    before = {"a": InstanceSet([1])}
    assert SetEdits().applied_to(before) is before
    assert edited(before["a"], (), ()) is before["a"]
