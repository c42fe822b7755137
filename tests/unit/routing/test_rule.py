"""Tag rules: what a text compiles to, what is left out with a warning, and the last good one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.service import ServiceKey
from sidecar.routing.rule import (
    MAX_TAG,
    MAX_TAGS,
    MAX_WARNING,
    MAX_WARNINGS,
    RuleSlot,
    application_rule_name,
    parse_tag_rule,
    service_rule_name,
)
from tests.fixtures.fleet import APPLICATION, provider, rule


def tagged(text: str, *hosts: str, port: int = 20880, **parameters: str) -> list[set[str]]:
    compiled = rule(text)
    return [compiled.tags_of(provider(host, port, **parameters)) for host in hosts]


def warnings(text: str) -> list[str]:
    reading = parse_tag_rule(text, APPLICATION)
    assert reading.error == ""
    return reading.warnings


def test_node_names() -> None:
    assert application_rule_name("cart-app") == "cart-app.tag-router"
    key = ServiceKey("com.foo.Bar")
    assert service_rule_name(key) == "com.foo.Bar::.tag-router"
    assert service_rule_name(ServiceKey("a.B", "1.0.0", "g")) == "a.B:1.0.0:g.tag-router"


def test_fc_30_address_patterns_in_a_tag_rule() -> None:
    text = """
    key: cart-app
    tags:
      - {name: a, addresses: ["192.0.2.11:*", "192.0.2.12"]}
      - {name: b, addresses: ["0.0.0.0:20890"]}
      - {name: c, addresses: ["192.0.2.0/29"]}
      - {name: d, addresses: ["192.0.2.13-14:20880"]}
      - {name: e, addresses: ["192.0.2.0/29:20880", "not an ip", "192.0.2.15:20880"]}
    """
    hosts = [f"192.0.2.{n}" for n in range(11, 16)]
    assert tagged(text, *hosts) == [{"a"}, {"a"}, {"d"}, {"d"}, {"e"}]
    assert tagged(text, "192.0.2.11", port=20890) == [{"a", "b"}]
    assert rule(text).names == {"a", "b", "c", "d", "e"}
    assert [w.partition(" is left out")[0] for w in warnings(text)] == [
        "tag 'e': address '192.0.2.0/29:20880'",
        "tag 'e': address 'not an ip'",
    ]


@pytest.mark.parametrize("name", ["enabled", "force"])
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True), ("TRUE", True), ("yes", True), ("on", True), ("'true'", True),
        ("false", False), ("no", False), ("'yes'", False), ("1", False), ("[]", False),
    ],
)  # fmt: skip
def test_fc_31_flags_are_not_swapped(name: str, written: str, value: bool) -> None:
    other = "force" if name == "enabled" else "enabled"
    found = rule(f"{name}: {written}\n{other}: {str(not value).lower()}\ntags: []")
    flags = {"enabled": found.is_enabled, "force": found.force}
    assert flags == {name: value, other: not value}


@pytest.mark.parametrize("text", ["tags: []", "enabled: ~\nforce: ~\ntags: []"])
def test_flags_that_are_not_set(text: str) -> None:
    assert (rule(text).is_enabled, rule(text).force) == (True, False)


MATCH = """
configVersion: {version}
tags:
  - name: gray
    match:
      - {{key: env, value: {{exact: gray}}}}
      - {{key: zone, value: {{prefix: bj}}}}
"""


def test_match_needs_all_conditions() -> None:
    text = MATCH.format(version="v3.0")
    assert tagged(text, "192.0.2.1", env="gray", zone="bj-a") == [{"gray"}]
    assert tagged(text, "192.0.2.1", env="gray", zone="sh") == [set()]
    assert tagged(text, "192.0.2.1", env="gray") == [set()]
    assert rule(text).names == frozenset()  # exists only while an instance matches


@pytest.mark.parametrize("version", ["v2.7", "~", "v3.1"])
def test_match_needs_its_version(version: str) -> None:
    text = MATCH.format(version=version)
    assert tagged(text, "192.0.2.1", env="gray", zone="bj-a") == [set()]
    assert warnings(text) == ["tag 'gray' is left out: match needs configVersion v3.0"]


def test_addresses_win_over_match() -> None:
    text = """
    configVersion: v3.0
    tags: [{name: a, addresses: [192.0.2.1], match: [{key: env, value: {exact: x}}]}]
    """
    assert tagged(text, "192.0.2.1", "192.0.2.2", env="x") == [{"a"}, set()]
    assert warnings(text) == ["tag 'a': match is ignored beside addresses"]


@pytest.mark.parametrize(
    ("tag", "warning"),
    [
        ("{name: a}", "tag 'a' has neither addresses nor match and is left out"),
        ("{name: a, addresses: ~}", "tag 'a' has neither addresses nor match and is left out"),
        ("{name: a, addresses: []}", "tag 'a' has neither addresses nor match and is left out"),
        (
            "{name: a, addresses: 10.1.1.1}",
            "tag 'a' has neither addresses nor match and is left out",
        ),
        ("{name: '', addresses: [192.0.2.1]}", "tag 1 has no name and is left out"),
        ("{addresses: [192.0.2.1]}", "tag 1 has no name and is left out"),
        ("{name: true, addresses: [192.0.2.1]}", "tag 1 has no name and is left out"),
        (
            f"{{name: {'n' * (MAX_TAG + 1)}, addresses: [192.0.2.1]}}",
            "tag 1 has a name longer than 128 characters and is left out",
        ),
        ("just text", "tag 1 has no name and is left out"),
        ("{name: a, match: x}", "tag 'a' is left out: match is not a list"),
        (
            "{name: a, match: [x]}",
            "tag 'a' is left out: a match entry needs a key and a value with a matcher",
        ),
        (
            "{name: a, match: [{key: k, value: {}}]}",
            "tag 'a' is left out: key 'k' has no matcher that is known",
        ),
        (
            "{name: a, match: [{key: k, value: {regex: '('}}]}",
            "tag 'a' is left out: regex: missing ), unterminated subpattern at position 0",
        ),
    ],
)
def test_a_bad_tag_costs_only_itself(tag: str, warning: str) -> None:
    text = f"configVersion: v3.0\ntags:\n- {tag}\n- {{name: good, addresses: [192.0.2.1]}}"
    assert rule(text).names == {"good"}
    assert tagged(text, "192.0.2.1") == [{"good"}]
    assert warnings(text) == [warning]


def test_other_warnings() -> None:
    text = """
    key: other-app
    colour: red
    tags:
      - {name: a, addresses: [192.0.2.1, 5, cart.example], size: 3}
      - {name: a, addresses: [192.0.2.2]}
    """
    assert warnings(text) == [
        "unknown field 'colour' is ignored",
        "key 'other-app' is not 'cart-app', under which the rule is stored",
        "tag 'a' is there twice: the last one counts",
    ]
    assert tagged(text, "192.0.2.1", "192.0.2.2") == [set(), {"a"}]
    text = "tags: [{name: a, addresses: [5, cart.example], size: 3}]"
    assert warnings(text) == [
        "tag 'a': unknown field 'size' is ignored",
        "tag 'a': address '5' is left out: not a text",
        "tag 'a': address 'cart.example': host names are compared, not resolved",
    ]
    assert parse_tag_rule("key: a.B\ntags: []", "a.B:1.0.0:g").warnings == []
    assert parse_tag_rule("key: 'a.B:1.0.0:g'\ntags: []", "a.B:1.0.0:g").warnings == []
    assert len(parse_tag_rule("key: a.C\ntags: []", "a.B:1.0.0:g").warnings) == 1
    assert warnings("force: true") == ["no tags: only static tags apply"]


def test_a_number_is_a_name() -> None:
    assert tagged("tags: [{name: 2024, addresses: [192.0.2.1]}]", "192.0.2.1") == [{"2024"}]


def test_warnings_are_capped() -> None:
    entries = ", ".join(["bad address"] * (MAX_WARNINGS + 5))
    found = warnings(f"tags: [{{name: a, addresses: [{entries}]}}]")
    assert len(found) == MAX_WARNINGS + 1
    assert found[-1] == "more warnings are not shown"


def test_a_warning_is_cut() -> None:
    (found,) = warnings(f"key: {'k' * 100_000}\ntags: []")
    assert len(found) == MAX_WARNING


def test_the_longest_name_of_either_kind() -> None:
    by_match = "{name: abc, match: [{key: k, value: {exact: v}}]}"
    text = f"configVersion: v3.0\ntags: [{{name: ab, addresses: [192.0.2.1]}}, {by_match}]"
    assert rule(text).longest == 3
    assert rule("tags: []").longest == 0
    longest = "n" * MAX_TAG
    assert rule(f"tags: [{{name: {longest}, addresses: [192.0.2.1]}}]").names == {longest}


@pytest.mark.parametrize("text", ["", "  \n", "# nothing", "~"])
def test_a_blank_text_is_a_deleted_rule(text: str) -> None:
    reading = parse_tag_rule(text, APPLICATION)
    assert (reading.rule, reading.error, reading.warnings) == (None, "", [])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("- a", "the rule is not a mapping"),
        ("word", "the rule is not a mapping"),
        ("tags: word", "tags is not a list"),
        ("tags: {name: a}", "tags is not a list"),
        ("a: &x 1", "line 1, column 4: anchor &x: anchors and aliases are not allowed"),
        (f"tags: [{'x,' * MAX_TAGS}x]", "1001 tags are more than the 1000 allowed"),
    ],
)
def test_texts_that_are_no_rule(text: str, error: str) -> None:
    reading = parse_tag_rule(text, APPLICATION)
    assert (reading.rule, reading.error) == (None, error)


def test_the_size_cap_is_an_argument() -> None:
    assert parse_tag_rule("tags: []", APPLICATION, 8).error == ""
    assert "more than the 7" in parse_tag_rule("tags: []", APPLICATION, 7).error


class Word(str):
    """A scalar as it is written in the text, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


# Numbers that Python refuses to read, to print or to make a float of.
HOSTILE = [
    Word("9" * 5000),
    Word("0x" + "f" * 5000),
    Word("0x_"),
    Word("1" + ":1" * 300 + ".5"),
    Word("192.0.2.1:" + "9" * 5000),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["a", "192.0.2.1", "192.0.2.1:" + "9" * 5000, "v3.0", *HOSTILE]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "addresses", "match", "tags", "key", "value", "exact", "force"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["tags", "enabled", "force", "configVersion", "key", "x"]), VALUES
    )
)
def test_any_document_is_read_without_raising(document: dict[str, Any]) -> None:
    reading = parse_tag_rule(repr(document).replace("None", "~"), APPLICATION)
    assert (reading.rule is None) == bool(reading.error)
    if reading.rule is not None:
        reading.rule.tags_of(provider())


GOOD = "force: true\ntags: [{name: a, addresses: [192.0.2.11]}]"


def test_fc_31_the_last_good_rule_stays() -> None:
    slot = RuleSlot(APPLICATION)
    assert slot.offer(GOOD, 101, 1_000)
    good = slot.rule
    assert good is not None
    assert good.force
    assert not slot.offer("tags: [ {name: a, addresses: 192.0.2.11", 102, 2_000)
    assert not slot.offer("- name: a", 103, 3_000)
    assert slot.rule is good
    assert (slot.version, slot.invalid_count) == (101, 2)
    assert slot.view(5_000) == {
        "key": APPLICATION,
        "active": True,
        "version": 101,
        "age_s": 4.0,
        "error": "the rule is not a mapping",
        "error_version": 103,
        "error_age_s": 2.0,
        "warnings": [],
    }
    assert slot.offer("enabled: false\nforce: true", 104, 6_000)
    assert slot.rule is not None
    assert not slot.rule.is_enabled
    view = slot.view(6_500)
    assert (view["active"], view["error"], view["error_age_s"]) == (False, "", 0.0)
    assert (view["version"], view["warnings"]) == (104, ["no tags: only static tags apply"])


def test_a_version_that_was_seen_is_not_read_again() -> None:
    slot = RuleSlot(APPLICATION)
    slot.offer(GOOD, 101, 0)
    good = slot.rule
    assert not slot.offer(GOOD, 101, 1)
    assert slot.rule is good
    slot.offer("[", 102, 2)
    slot.offer("[", 102, 3)
    assert slot.invalid_count == 1


def test_a_deleted_rule_is_gone_and_may_come_back() -> None:
    slot = RuleSlot(APPLICATION)
    assert not slot.offer("", 0, 0)
    slot.offer(GOOD, 101, 1)
    assert slot.offer("", 0, 2)
    assert (slot.rule, slot.version) == (None, 0)
    assert slot.view(2)["active"] is False
    assert slot.offer(GOOD, 105, 3)
    assert slot.rule is not None


def test_deleting_a_faulty_text_clears_the_fault() -> None:
    slot = RuleSlot(APPLICATION)
    slot.offer(GOOD, 101, 1)
    slot.offer("[", 102, 2)
    assert slot.error
    assert slot.offer("", 0, 3)
    assert (slot.error, slot.rule) == ("", None)


def test_the_slot_has_the_size_cap() -> None:
    slot = RuleSlot(APPLICATION, 10)
    assert not slot.offer(GOOD, 1, 0)
    assert "more than the 10" in slot.error
