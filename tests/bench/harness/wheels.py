"""The product as shipped: one wheel with compiled modules, one without, each in its own folder.

A folder is a `pip install --target` of the wheel alone; the dependencies come from the
environment that runs the benchmark. Both are rebuilt only when the sources changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.machine import ROOT

INPUTS = ("pyproject.toml", "README.md", "LICENSE", "sidecar", "deploy/build")
# -P keeps the working directory off the path: it may be the source tree.
PYTHON = (sys.executable, "-P")
SWITCH = {"compiled": "SIDECAR_COMPILED", "pure": "SIDECAR_PURE"}


class WheelError(Exception):
    """What was built is not what is about to be measured."""


def installed(kind: str, out: Path) -> Path:
    """Return the folder with the product installed, `compiled` or `pure`; build it if needed."""
    folder = out / kind
    stamp = folder / "sources.sha256"
    digest = _digest()
    if not stamp.exists() or stamp.read_text() != digest:
        out.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=out) as scratch:
            _install(_wheel(kind, Path(scratch)), folder)
        _verify(kind, folder)
        stamp.write_text(digest)
    return folder


def environment(*folders: Path) -> dict[str, str]:
    """Return the environment in which `PYTHON` finds the product of that folder."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def compiled_count(folder: Path) -> int:
    """Return how many modules of the installed product are compiled."""
    return sum(1 for _ in (folder / "sidecar").rglob("*.so"))


def _digest() -> str:
    digest = hashlib.sha256(sys.version.encode())
    for name in INPUTS:
        path = ROOT / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".so":
                digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _wheel(kind: str, scratch: Path) -> Path:
    # A copy, because setuptools would put left-overs of an earlier build into the wheel.
    source = scratch / "source"
    without = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    for name in INPUTS:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=without)
        else:
            shutil.copy(ROOT / name, target)
    _pip(
        "wheel",
        str(source),
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(scratch),
        **{SWITCH[kind]: "1"},
    )
    return next(scratch.glob("sidecar-*.whl"))


def _install(wheel: Path, folder: Path) -> None:
    _pip("install", "--no-deps", "--target", str(folder), str(wheel))


def _verify(kind: str, folder: Path) -> None:
    question = "import sidecar.telemetry.build as b; print(b.build_kind(), b.__file__)"
    command = [*PYTHON, "-c", question]
    answer = subprocess.run(
        command, env=environment(folder), capture_output=True, text=True, check=True
    )
    found, path = answer.stdout.split(maxsplit=1)
    if found != kind or not path.startswith(str(folder)):
        raise WheelError(f"{folder} holds a {found} build and runs {path.strip()}")


def _pip(*words: str, **variables: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    subprocess.run(command, env={**os.environ, **variables}, check=True)
