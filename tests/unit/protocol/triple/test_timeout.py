"""Deadlines in headers."""

from __future__ import annotations

import pytest

from sidecar.protocol.triple.timeout import (
    MAX_TIMEOUT_US,
    NO_TIMEOUT,
    parse,
    parse_ms,
    render,
    render_ms,
)

HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("value", "us"),
    [
        (b"1000m", 1_000_000),
        (b"1S", 1_000_000),
        (b"500u", 500),
        (b"99999999n", 99_999),
        (b"0n", 0),
        (b"999n", 0),
        (b"1000n", 1),
        (b"100m", 100_000),
        (b"2M", 120_000_000),
        (b"1H", HOUR),
        (b"00000001S", 1_000_000),
        (b"99999999H", 99_999_999 * HOUR),
    ],
)
def test_grpc_timeouts(value: bytes, us: int) -> None:
    assert parse(value) == us


@pytest.mark.parametrize(
    "value",
    [
        b"", b"S", b"1", b"100000000m", b"000000001S", b"1s", b"1h", b"-1S", b"+1S", b" 1S", b"1S ",
        b"1 S", b"1.5S", b"1_0S", b"1mS", b"\xb2S", b"1\xff", b"1ms", b"/1S", b":1S",
    ],
)  # fmt: skip
def test_what_is_no_grpc_timeout(value: bytes) -> None:
    assert parse(value) == NO_TIMEOUT == -1


@pytest.mark.parametrize(
    ("us", "value"),
    [
        (0, b"0u"),
        (1, b"1u"),
        (99_999_999, b"99999999u"),
        (100_000_000, b"100000m"),
        (100_000_999, b"100000m"),
        (99_999_999_999, b"99999999m"),
        (100_000_000_000, b"100000S"),
        (99_999_999_999_999, b"99999999S"),
        (100_000_000_000_000, b"1666666M"),
        (100_000_000 * 60_000_000, b"1666666H"),
        (MAX_TIMEOUT_US, b"99999999H"),
        (MAX_TIMEOUT_US * 1000, b"99999999H"),
    ],
)
def test_rendering(us: int, value: bytes) -> None:
    assert render(us) == value


@pytest.mark.parametrize(
    ("value", "us"),
    [
        (b"0", 0),
        (b"1", 1000),
        (b"3000", 3_000_000),
        (b"0003000", 3_000_000),
        (b"9223372036854775807", MAX_TIMEOUT_US),
    ],
)
def test_rest_timeouts(value: bytes, us: int) -> None:
    assert parse_ms(value) == us


@pytest.mark.parametrize(
    "value", [b"", b"-1", b"+1", b" 1", b"1.5", b"1_0", b"1m", b"\xb2", b"1" * 20]
)
def test_what_is_no_rest_timeout(value: bytes) -> None:
    assert parse_ms(value) == NO_TIMEOUT


@pytest.mark.parametrize(
    ("us", "value"), [(0, b"0"), (999, b"0"), (1999, b"1"), (10**9, b"1000000")]
)
def test_rendering_for_rest(us: int, value: bytes) -> None:
    assert render_ms(us) == value


def test_fc_70_the_remainder_is_never_more_than_what_is_left() -> None:
    arrived = parse(b"1S")
    left = render(arrived - 120_000)
    assert left == b"880000u"
    assert parse(left) == 880_000
    assert parse(render(arrived - 120_001)) == 879_999
