"""String matchers and the bound on regular expressions."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.routing.text_match import (
    MAX_INPUT,
    MAX_KNOWN,
    MAX_REGEX,
    MatcherError,
    TextMatcher,
    compile_regex,
)


@pytest.mark.parametrize(
    ("fields", "yes", "no"),
    [
        ({"exact": "gray"}, ["gray"], ["grayer", "", None]),
        ({"exact": 2024}, ["2024"], ["2025"]),
        ({"exact": True}, ["true"], ["True"]),
        ({"prefix": "gr"}, ["gr", "gray"], ["agr", None]),
        ({"regex": "gr.y"}, ["gray", "grey"], ["grays", "agray", None]),
        ({"wildcard": "*"}, ["", "x"], [None]),
        ({"wildcard": "gr*"}, ["gr*"], ["gray"]),
        ({"empty": "yes"}, ["", None], ["x"]),
        ({"noempty": ""}, ["x"], ["", None]),
        ({"exact": "a", "prefix": "b"}, ["a"], ["b"]),
        ({"exact": "a", "empty": "1"}, ["a", None], ["", "b"]),
        ({"exact": None, "prefix": "b"}, ["b"], ["a"]),
        ({}, [], ["a", "", None]),
    ],
)
def test_the_first_field_decides(
    fields: dict[str, Any], yes: list[str | None], no: list[str | None]
) -> None:
    matcher = TextMatcher(fields)
    assert [value for value in yes if not matcher.matches(value)] == []
    assert [value for value in no if matcher.matches(value)] == []


@pytest.mark.parametrize("value", [[], {"a": 1}])
def test_a_field_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(MatcherError, match="exact is not a text"):
        TextMatcher({"exact": value})


@pytest.mark.parametrize(
    "pattern",
    [
        "gray.*", "v1(-gray)?", "(gray|blue|red)-[0-9]+", r"\d+\.\d+\.\d+", ".*?x", "[]a+]*",
        "[(*+]x", "a{2,5}", "a|b|c", "(?:a|b)c",
    ],
)  # fmt: skip
def test_ordinary_expressions(pattern: str) -> None:
    assert compile_regex(pattern).pattern == pattern


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("(a+)+", "repeated group"),
        ("(a|b)*", "repeated group"),
        ("(ab){2}", "repeated group"),
        ("(?i)a", "assertion or a flag"),
        ("(?=a)", "assertion or a flag"),
        (r"(a)\1", "reference"),
        ("(a|a)" * 30, "too many"),
        ("a?" * 30, "too many"),
        ("(a|a)" * 11, "too many"),
        ("a?" * 11, "too many"),
        ("a*a*(a|a)(a|a)(a|a)(a|a)", "too many"),
        (".*.*.*.*", "too many"),
        ("a" * (MAX_REGEX + 1), "longer"),
        ("(", "regex: "),
        (")", "regex: "),
        ("a{1,99999999999999999999}", "regex: "),
        ("\\", "regex: "),
        ("[[a]", "regex: Possible nested set"),
    ],
)
def test_dangerous_or_broken_expressions(pattern: str, complaint: str) -> None:
    with pytest.raises(MatcherError, match=complaint):
        compile_regex(pattern)


def test_a_long_value_does_not_match() -> None:
    matcher = TextMatcher({"regex": "a*"})
    assert matcher.matches("a" * 128)
    assert not matcher.matches("a" * 129)


@pytest.mark.parametrize(
    "pattern",
    [
        ".*.*.*x", "(a|a)" * 10 + "x", "a?" * 10 + "b", "a*a*(a|a)(a|a)(a|a)x",
        "(a|aa|aaa)" * 6 + "x", "(a*|a)(a*|a)(a|a)x",
    ],
)  # fmt: skip
def test_the_worst_that_is_accepted_takes_milliseconds(pattern: str) -> None:
    matcher = TextMatcher({"regex": pattern})
    started = time.process_time()
    for value in ("a" * MAX_INPUT, "a" * (MAX_INPUT - 1) + "b", "a" * 40):
        matcher.matches(value)
    assert time.process_time() - started < 0.02


def test_a_value_is_matched_once() -> None:
    matcher = TextMatcher({"regex": ".*.*.*x"})
    started = time.process_time()
    for _ in range(1_000):
        assert not matcher.matches("a" * MAX_INPUT)
    assert time.process_time() - started < 0.2
    for n in range(MAX_KNOWN + 1):
        assert matcher.matches(f"{n}x")
        assert not matcher.matches(f"{n}")


@given(st.text(alphabet="ab.*+?()|[]{}1,\\-", max_size=40), st.text(alphabet="ab1", max_size=128))
def test_what_is_accepted_is_fast(pattern: str, value: str) -> None:
    try:
        matcher = TextMatcher({"regex": pattern})
    except MatcherError:
        return
    started = time.process_time()
    matcher.matches(value)
    matcher.matches("a" * 127 + "b")
    assert time.process_time() - started < 0.2
