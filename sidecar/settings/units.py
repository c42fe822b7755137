"""Durations and sizes as the configuration writes them: ``250ms``, ``1s``, ``10m``; ``8MiB``."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]*)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES: Final = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}

DURATION_PATTERN: Final = r"[0-9]+(\.[0-9]+)?(ms|s|m|h)"
SIZE_PATTERN: Final = r"[0-9]+(B|KiB|MiB|GiB)"


class Duration(float):
    """A length of time in seconds."""

    __slots__ = ()


class Size(int):
    """A number of bytes."""


def parse_duration(text: str) -> Duration:
    """Read ``250ms``, ``1.5s``, ``10m`` or ``2h``; raises ValueError with a plain sentence."""
    number, unit = _split(text, "a duration", "250ms, 1s, 10m or 2h")
    if unit not in _SECONDS:
        raise ValueError(_unit_problem(text, unit, "ms, s, m or h", f"{number}s"))
    return Duration(float(number) * _SECONDS[unit])


def parse_size(text: str) -> Size:
    """Read ``512B``, ``64KiB``, ``8MiB`` or ``1GiB``; raises ValueError with a plain sentence."""
    number, unit = _split(text, "a size", "512B, 64KiB, 8MiB or 1GiB")
    if unit not in _BYTES:
        raise ValueError(_unit_problem(text, unit, "B, KiB, MiB or GiB", f"{number}MiB"))
    if "." in number:
        raise ValueError(f"{text!r} is not a whole number of {unit}")
    return Size(int(number) * _BYTES[unit])


def format_duration(seconds: float) -> str:
    """Write a duration in the largest unit that keeps it a whole number."""
    for unit in ("h", "m", "s"):
        count = seconds / _SECONDS[unit]
        if seconds and count == int(count):
            return f"{int(count)}{unit}"
    return f"{round(seconds * 1000)}ms" if seconds else "0s"


def format_size(size: int) -> str:
    """Write a size in the largest unit that keeps it a whole number."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def _split(text: str, what: str, examples: str) -> tuple[str, str]:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {what}; write for example {examples}")
    return match[1], match[2]


def _unit_problem(text: str, unit: str, known: str, example: str) -> str:
    if not unit:
        return f"{text!r} has no unit ({known}); write for example {example}"
    return f"{text!r} has the unknown unit {unit!r}; the units are {known}"
