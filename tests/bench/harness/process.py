"""Starting, pinning, watching and ending the processes of a run."""

from __future__ import annotations

import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

START_SECONDS = 20.0
STOP_SECONDS = 5.0
REAL_TIME_PRIORITY = "10"  # any of them is above all ordinary processes


class StartError(Exception):
    """A process of the run did not come up."""


def free_port() -> int:
    """Return a loopback port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class Place:
    """A core, and whether what runs there keeps everybody else off it."""

    core: int
    is_real_time: bool = False

    def command(self, command: list[str]) -> list[str]:
        """Return the command bound to this place."""
        priority = ["chrt", "--fifo", REAL_TIME_PRIORITY] if self.is_real_time else []
        return ["taskset", "-c", str(self.core), *priority, *command]


@contextmanager
def started(
    command: list[str],
    *,
    port: int | None = None,
    log: Path,
    environment: dict[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the block ends; with a port, wait first until it accepts.

    Its output goes to the log file. Raises StartError when it ends early or does not listen.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        if port is not None:
            _wait_until_listening(process, port, " ".join(command), log)
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to stop, and make it stop when it does not."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_seconds(pid: int) -> float:
    """Return the time all threads of a process have spent on a core so far."""
    nanoseconds = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        nanoseconds += int(path.read_text().split()[0])
    return nanoseconds / 1e9


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def watched_memory(pid: int | None, seconds: float) -> Iterator[list[float]]:
    """Read the resident memory of a process in MiB again and again; without a process, nothing."""
    samples: list[float] = []
    is_over = threading.Event()

    def watch() -> None:
        while pid is not None:
            samples.append(resident_bytes(pid) / 2**20)
            if is_over.wait(seconds):
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield samples
    finally:
        is_over.set()
        watcher.join()


def wait_for_line(stream: IO[bytes], seconds: float) -> bool:
    """Tell whether something can be read from a pipe within that time."""
    return bool(select.select([stream], [], [], seconds)[0])


def _wait_until_listening(
    process: subprocess.Popen[bytes], port: int, command: str, log: Path
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    tail = log.read_text(errors="replace")[-2000:]
    raise StartError(f"{command} does not listen on {port}:\n{tail}")
