"""Measurements inside the product: each runs as its own process on the installed wheel.

A worker is a module of this package with `measure(quick) -> dict`; it imports the product from the
folder it is given and prints one JSON object.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness import process, wheels
from harness.native import Programs
from harness.progress import Progress
from harness.traffic import Plan

PACKAGES = Path(__file__).resolve().parents[1]


def decision(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return the cost of route + pick by number of instances."""
    return _both("decision", plan, out)


def change(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return the cost of a one-instance change in a large service."""
    return _both("change", plan, out)


def _both(worker: str, plan: Plan, out: Path) -> dict[str, Any]:
    progress = Progress(worker, 2)
    builds = {}
    for kind in ("compiled", "pure"):
        folder = wheels.installed(kind, out)
        builds[kind] = _run(worker, folder, plan.place, is_quick=plan.rounds == 1)
        progress.step(kind)
    progress.done()
    return {"builds": builds}


def _run(worker: str, folder: Path, place: process.Place, *, is_quick: bool) -> dict[str, Any]:
    command = [*wheels.PYTHON, "-m", "harness.micro", worker, *(["--quick"] if is_quick else [])]
    done = subprocess.run(
        place.command(command),
        env=wheels.environment(folder, PACKAGES),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise process.StartError(f"{worker} failed on {folder}:\n{done.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    module = importlib.import_module(f"harness.{sys.argv[1]}_cost")
    print(json.dumps(module.measure("--quick" in sys.argv)))
