"""Deadlines as they stand in headers: `grpc-timeout` and Dubbo's `tri-service-timeout`.

Microseconds throughout. Every conversion rounds down, so that no hop gives a call more time than
the one before it. A limit below one microsecond is over, as is a limit of 0.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

NO_TIMEOUT: Final = -1
MAX_DIGITS: Final = 8  # of a grpc-timeout, by the gRPC specification
MAX_NUMBER: Final = 10**MAX_DIGITS - 1
MAX_MS_DIGITS: Final = 19  # of a Java long, which Dubbo parses a tri-service-timeout as

_HOUR: Final = 3_600_000_000
MAX_TIMEOUT_US: Final = MAX_NUMBER * _HOUR  # the longest that can be written; fits 64 bits

_ZERO: Final = 0x30
_NANOSECONDS: Final = 0x6E
_UNITS: Final[dict[int, int]] = {
    0x75: 1,  # u
    0x6D: 1000,  # m
    0x53: 1_000_000,  # S
    0x4D: 60_000_000,  # M
    0x48: _HOUR,  # H
}


def parse(value: bytes) -> int:
    """Return a `grpc-timeout` in microseconds, rounded down; -1 when it is not one.

    The gRPC specification: one to eight digits and a unit of H, M, S, m, u or n.
    """
    end: i64 = len(value) - 1
    if end < 1 or end > MAX_DIGITS:
        return NO_TIMEOUT
    number: i64 = 0
    at: i64 = 0
    while at < end:
        digit: i64 = value[at]
        digit -= _ZERO
        if digit < 0 or digit > 9:
            return NO_TIMEOUT
        number = number * 10 + digit
        at += 1
    unit = value[end]
    if unit == _NANOSECONDS:
        return number // 1000
    size = _UNITS.get(unit)
    return NO_TIMEOUT if size is None else number * size


def render(us: int) -> bytes:
    """Write microseconds (0 or more) as a `grpc-timeout`, in the finest unit that has room.

    What is longer than the format can say is cut to its longest limit.
    """
    for unit, size in _UNITS.items():
        number = us // size
        if number <= MAX_NUMBER:
            return str(number).encode() + bytes((unit,))
    return str(MAX_NUMBER).encode() + b"H"


def parse_ms(value: bytes) -> int:
    """Return a `tri-service-timeout` (plain milliseconds) in microseconds; -1 when it is not one.

    Limits beyond MAX_TIMEOUT_US are cut to it.
    """
    if not value.isdigit() or len(value) > MAX_MS_DIGITS:
        return NO_TIMEOUT
    return min(int(value) * 1000, MAX_TIMEOUT_US)


def render_ms(us: int) -> bytes:
    """Write microseconds (0 or more) as a `tri-service-timeout`."""
    return str(us // 1000).encode()
