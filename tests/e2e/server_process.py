"""A peer that serves in a process of its own and prints ``ready`` once it does."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.e2e.peers import environment, wait_until

START_LIMIT = 60.0
END_LIMIT = 20.0


class ServerProcess:
    """One server; it starts at once and serves when ``wait_ready`` returns."""

    def __init__(self, log: Path, port: int, *command: str) -> None:
        self.port = port
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment()
            )

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def text(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-4000:]

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.log.name} ended:\n{self.text()}")
        return "ready" in self.text().split()

    def wait_ready(self) -> None:
        """Wait until it serves. Raises ``RuntimeError`` with its output when it ended."""
        wait_until(self._is_ready, START_LIMIT, f"{self.log.name} serves")

    def terminate(self) -> None:
        """Ask for the graceful end (SIGTERM) and return at once."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        return self._process.wait(END_LIMIT)

    def kill(self) -> None:
        """End it at once, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
