"""What the figures were taken on; a figure without this is worth nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def cores() -> tuple[int, int]:
    """Return the core of the proxies and the core of load and provider.

    They are the same core on a machine with one; the figures say so through `describe`.
    """
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


def describe() -> dict[str, str | int | float]:
    """Return CPU, memory, kernel, interpreter, commit and how busy the machine is."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": _commit(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def sentence(machine: dict[str, str | int | float]) -> str:
    """Return the description as one line of text."""
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}, Linux"
        f" {machine['kernel']}, Python {machine['python']}, commit {machine['commit']},"
        f" load average {machine['load_average']}"
    )


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"
