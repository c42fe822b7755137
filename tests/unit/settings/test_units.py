import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.settings.units import (
    Duration,
    Size,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("1s", 1), ("1.5s", 1.5), ("10m", 600), ("2h", 7200), ("0s", 0), ("3 s", 3)],
)
def test_durations(text, seconds):
    value = parse_duration(text)
    assert type(value) is Duration
    assert value == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("5", ["no unit", "5s"]),
        ("5x", ["unknown unit 'x'", "ms, s, m or h"]),
        ("5S", ["unknown unit 'S'"]),
        ("", ["is not a duration"]),
        ("-1s", ["is not a duration"]),
        ("1s2", ["is not a duration"]),
        ("1e3s", ["is not a duration"]),
        ("9" * 400 + "s", ["is not a duration"]),
    ],
)
def test_bad_durations_say_what_to_write(text, words):
    with pytest.raises(ValueError, match=".*".join(map(re.escape, words))):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0B", 0), ("512B", 512), ("64KiB", 65536), ("8MiB", 8 << 20), ("1GiB", 1 << 30)],
)
def test_sizes(text, size):
    value = parse_size(text)
    assert type(value) is Size
    assert value == size


@pytest.mark.parametrize(
    ("text", "word"),
    [("8", "8MiB"), ("8MB", "unknown unit 'MB'"), ("8.5MiB", "whole number"), ("x", "not a size")],
)
def test_bad_sizes_say_what_to_write(text, word):
    with pytest.raises(ValueError, match=word):
        parse_size(text)


@given(st.integers(0, 10**9))
def test_a_written_duration_reads_back(milliseconds):
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000
    )


@given(st.integers(0, 2**40))
def test_a_written_size_reads_back(size):
    assert parse_size(format_size(size)) == size


def test_the_largest_whole_unit_is_written():
    assert [format_duration(x) for x in (0, 0.1, 1, 90, 180, 7200)] == [
        "0s", "100ms", "1s", "90s", "3m", "2h",
    ]  # fmt: skip
    assert [format_size(x) for x in (0, 1000, 1024, 3 << 20)] == ["0B", "1000B", "1KiB", "3MiB"]
