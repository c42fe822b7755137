"""Where the first gRPC message of a body ends.

Each message is a flag, a length in four bytes, and as many bytes. Frames may end anywhere.
"""

from __future__ import annotations

from typing import Final, final

PREFIX_SIZE: Final = 5
_UNKNOWN: Final = -1


@final
class FirstMessage:
    """Measures the pieces of a body as they pass; ``is_over`` once the first message has passed."""

    def __init__(self) -> None:
        self._prefix = b""
        self._left = _UNKNOWN
        self.is_over = False

    def measure(self, data: bytes) -> int:
        """Return how many of the next bytes belong to the first message."""
        at = 0
        if self._left == _UNKNOWN:
            at = min(PREFIX_SIZE - len(self._prefix), len(data))
            self._prefix += data[:at]
            if len(self._prefix) < PREFIX_SIZE:
                return at
            self._left = int.from_bytes(self._prefix[1:], "big")
        size = min(self._left, len(data) - at)
        self._left -= size
        self.is_over = self._left == 0
        return at + size
