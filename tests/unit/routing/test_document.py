"""Rule documents: YAML 1.1 values, and the guards."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.routing.document import (
    MAX_ERROR,
    MAX_NUMBER,
    MAX_RULE_SIZE,
    DocumentError,
    load_document,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# only a comment", None),
        ("a: 1\nb: [x, 1.5, ~, null]", {"a": 1, "b": ["x", 1.5, None, None]}),
        ("a: yes\nb: On\nc: FALSE\nd: 'yes'", {"a": True, "b": True, "c": False, "d": "yes"}),
        ("a: 0x10\nb: 017\nc: 1_000", {"a": 16, "b": 15, "c": 1000}),
        ("a: 2024-01-01\nb: =", {"a": "2024-01-01", "b": "="}),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
        ("yes: 1\n2: x", {"yes": 1, "2": "x"}),
        ("a: 192.0.2.11:20880", {"a": "192.0.2.11:20880"}),
        ("a: 1:30\nb: 1:30.5", {"a": 90, "b": 90.5}),
        ("a: " + "9" * MAX_NUMBER, {"a": int("9" * MAX_NUMBER)}),
        ("a: " + "9" * (MAX_NUMBER + 1), {"a": "9" * (MAX_NUMBER + 1)}),
        ("a: 0x" + "f" * 5000, {"a": "0x" + "f" * 5000}),
        ("a: " + ":".join(["1"] * 300) + ".5", {"a": ":".join(["1"] * 300) + ".5"}),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert load_document(text) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: &x 1", "anchor"),
        ("a: *x", "alias"),
        ("a: 1\na: 2", "duplicate"),
        ("a: !!python/object:os.system x", "tag"),
        ("a: 1\n---\nb: 2", "second"),
        ("a: [", "line 2"),
        ("a: [\n", "line 2"),
        ('a: 1\nb: "x\n', "line 3, column 1: not valid YAML: .* begins on line 2"),
        ("a: \x00", "character"),
        ("a: \ud800", "character"),
        ("a: 0x_", "line 1, column 4: a number that cannot be read"),
        (f"{'k' * 1000}: 1\n{'k' * 1000}: 2", "duplicate key 'kkk"),
    ],
)
def test_refusals(text: str, complaint: str) -> None:
    with pytest.raises(DocumentError, match=complaint) as raised:
        load_document(text)
    assert len(str(raised.value)) <= MAX_ERROR


def _bomb() -> str:
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (_bomb(), "anchor"),
        ("a: x\n" * (5 * 1024 * 1024 // 5), "more than"),
        ("{a: " * 200 + "1" + "}" * 200, "deeper than 32"),
        ("key: a\nkey: b", "duplicate"),
    ],
    ids=["bomb", "size", "depth", "duplicate"],
)
def test_fc_76_bombs_are_refused_at_once(text: str, complaint: str) -> None:
    best = 1.0
    for _ in range(3):  # the collector may strike in one of them
        started = time.process_time()
        with pytest.raises(DocumentError, match=complaint):
            load_document(text)
        best = min(best, time.process_time() - started)
    assert best < 0.02


@pytest.mark.parametrize(
    "text",
    ["a: 1" + ":1" * 120_000, "a: [" + "1," * 120_000 + "]", "a: [" + "x," * 120_000 + "]"],
    ids=["base 60", "numbers", "words"],
)
def test_fc_76_texts_within_the_size_cap_are_bounded_in_time(text: str) -> None:
    started = time.process_time()
    with contextlib.suppress(DocumentError):
        load_document(text)
    assert time.process_time() - started < 3  # quadratic would be minutes; a tracer costs ten times


def test_nothing_of_a_text_is_kept() -> None:
    text = "a: [" + "12345," * 5_000 + "]"
    load_document(text)
    tracemalloc.start()
    try:
        load_document(text)
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


def test_the_size_cap_counts_bytes() -> None:
    assert load_document("é" * 10, 20) == "é" * 10
    with pytest.raises(DocumentError, match="20 bytes are more than the 19 allowed"):
        load_document("é" * 10, 19)
    assert MAX_RULE_SIZE == 262144


@given(st.text(max_size=200))
def test_nothing_else_is_raised(text: str) -> None:
    with contextlib.suppress(DocumentError):
        load_document(text)
