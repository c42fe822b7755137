"""Tag sets: changed by difference under one rule, built anew under another."""

from __future__ import annotations

import time

from sidecar.model.instance import Instance
from sidecar.routing.tag_sets import SLICE, TagSets
from tests.fixtures.fleet import provider, rule

RULE = rule("configVersion: v3.0\ntags: [{name: m, match: [{key: env, value: {exact: x}}]}]")


def slots(*instances: Instance) -> list[Instance | None]:
    table: list[Instance | None] = [None] * 8
    for instance in instances:
        table[instance.id] = instance
    return table


def test_an_instance_leaves_and_another_takes_its_id() -> None:
    matching = provider("192.0.2.1", id=3, env="x", tag="blue")
    first = TagSets().changed(RULE, [], [matching], slots(matching))
    assert (set(first.dynamic("m")), set(first.listed), set(first.static("blue"))) == (
        {3},
        {3},
        {3},
    )
    assert first.knows("m")
    assert first.knows("blue")
    other = provider("192.0.2.2", id=3)
    second = first.changed(RULE, [matching], [other], slots(other))
    assert (set(second.dynamic("m")), set(second.listed)) == (set(), set())
    assert (set(second.static("blue")), set(second.untagged)) == (set(), {3})
    assert not second.knows("m")
    assert not second.knows("blue")
    assert set(first.listed) == {3}


def test_the_same_rule_and_no_change_is_the_same_value() -> None:
    sets = TagSets().changed(RULE, [], [provider(id=0)], slots())
    assert sets.changed(RULE, [], [], slots()) is sets


def test_a_rule_that_comes_and_goes() -> None:
    matching = provider(id=1, env="x")
    plain = TagSets().changed(None, [], [matching], slots(matching))
    assert set(plain.listed) == set()
    ruled = plain.changed(RULE, [], [], slots(matching))
    assert set(ruled.listed) == {1}
    assert ruled.tags_of(matching) == "tagged m by rule"
    again = ruled.changed(rule("enabled: false"), [], [], slots(matching))
    assert (again.rule, set(again.listed)) == (None, set())


def test_levels_of_a_long_tag_take_no_time() -> None:
    """A consumer may send megabytes of separators."""
    text = "tags: [{name: gray, addresses: [192.0.2.1]}, {name: 'gray|x', addresses: [192.0.2.1]}]"
    sets = TagSets(rule(text))
    started = time.process_time()
    for tag in ("|" * 1_000_000, "gray" + "|x" * 500_000, "g" * 1_000_000, "gray|" * 200_000):
        for exact in (False, True):
            expected = "" if exact or not tag.startswith("gray") else "gray"
            if tag.startswith("gray|x") and not exact:
                expected = "gray|x"
            assert sets.defined_level(tag, exact) == expected
    assert time.process_time() - started < 0.1
    assert sets.defined_level("gray|xy", False) == "gray"
    assert sets.defined_level("gray|x", True) == "gray|x"


def test_a_rule_over_more_instances_than_a_slice() -> None:
    fleet = [provider(f"10.{n >> 8}.{n & 255}.1", id=n) for n in range(SLICE + 1)]
    members = TagSets().changed(None, [], fleet, [*fleet])
    ends = "tags: [{name: a, addresses: [10.0.0.1, 10.16.0.1]}, {name: b, addresses: ['*']}]"
    sets = members.changed(rule(ends), [], [], [*fleet])
    assert set(sets.dynamic("a")) == {0, SLICE}
    assert sets.dynamic("b") == sets.listed == sets.members
