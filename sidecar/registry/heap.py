"""Giving memory back to the system.

A list of 10,000 names takes 13 MB for a moment, as an answer and as texts. glibc keeps what was
freed for the next time; a sidecar has hundreds of neighbours that need it now.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


def _find_trim() -> Callable[[int], Any] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None


_trim = _find_trim()


def release_heap() -> None:
    """Give freed memory back, which takes about a millisecond; nothing happens without glibc."""
    if _trim is not None:
        _trim(0)
