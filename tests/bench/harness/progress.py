"""One line of progress on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
import time


class Progress:
    """Counts the steps of one part of the benchmark and shows the latest figure."""

    def __init__(self, part: str, steps: int) -> None:
        self.part = part
        self.steps = max(steps, 1)
        self.taken = 0
        self.begin = time.monotonic()
        self.is_shown = sys.stderr.isatty()

    def step(self, text: str) -> None:
        """Count one step; `text` says what it found."""
        self.taken += 1
        if not self.is_shown:
            return
        filled = 20 * self.taken // self.steps
        left = (time.monotonic() - self.begin) / self.taken * (self.steps - self.taken)
        bar = "#" * filled + "." * (20 - filled)
        line = f"{self.part} [{bar}] {self.taken}/{self.steps}, {left:.0f} s left  {text}"
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)

    def done(self) -> None:
        """Remove the line again."""
        if self.is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
