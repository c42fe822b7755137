"""How long to leave an address alone after a failed connection."""

from __future__ import annotations

from typing import Final

MAX_DOUBLINGS: Final = 16  # beyond it only the cap counts; keeps the power small


def backoff(failures: int, minimum: float, maximum: float, fraction: float) -> float:
    """Return the seconds to wait after the n-th failure in a row (``failures`` >= 1).

    The time doubles with each failure up to ``maximum``; ``fraction`` (a random number in [0, 1))
    spreads it over its upper half, so that many sidecars do not return to a provider together.
    """
    doubled: float = minimum * (1 << min(max(failures - 1, 0), MAX_DOUBLINGS))
    full = min(doubled, maximum)
    return full * (0.5 + fraction / 2)
