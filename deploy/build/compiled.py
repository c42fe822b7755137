"""PEP 517 build backend: setuptools, plus mypyc for the modules of the hot path.

The list of modules is in ``pyproject.toml`` under ``[tool.sidecar] compiled``. The compiled
modules and the pure ones are the same text: when there is no C compiler, when compiling fails,
or when ``SIDECAR_PURE=1`` is set, the wheel is built without extensions and works the same,
only slower. ``SIDECAR_COMPILED=1`` makes a failed compilation an error instead.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import setuptools
from setuptools import build_meta

ROOT = Path(__file__).resolve().parents[2]


def compiled_modules() -> list[str]:
    """Return the paths of the modules to compile, as ``pyproject.toml`` lists them."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        modules: list[str] = tomllib.load(file)["tool"]["sidecar"]["compiled"]
    return modules


def extensions() -> list[Any]:
    """Translate the hot path to C; an empty list means a pure wheel."""
    if os.environ.get("SIDECAR_PURE") == "1":
        return []
    from mypyc.build import mypycify

    # The packages begin here. Left to find out, mypy goes up as far as there is an __init__.py, and
    # a stray one in /tmp, where pip builds, would make it give up.
    paths = ["--explicit-package-bases", *compiled_modules()]
    return mypycify(paths, opt_level="3", debug_level="0")


class Backend(build_meta._BuildMetaBackend):
    """The setuptools backend with the compiled modules added, and a pure build as the fallback."""

    def run_setup(self, setup_script: str = "setup.py") -> None:
        sys.argv[0] = setup_script
        try:
            setuptools.setup(ext_modules=extensions())
        except (Exception, SystemExit) as error:
            if os.environ.get("SIDECAR_COMPILED") == "1" or os.environ.get("SIDECAR_PURE") == "1":
                raise
            print(f"sidecar: not compiled ({error}); building pure Python", file=sys.stderr)
            setuptools.setup(ext_modules=[])


_backend = Backend()
build_wheel = _backend.build_wheel
build_sdist = _backend.build_sdist
build_editable = _backend.build_editable
get_requires_for_build_wheel = _backend.get_requires_for_build_wheel
get_requires_for_build_sdist = _backend.get_requires_for_build_sdist
get_requires_for_build_editable = _backend.get_requires_for_build_editable
prepare_metadata_for_build_wheel = _backend.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = _backend.prepare_metadata_for_build_editable
