"""Which copy of the package the tests run against, and that it is the one that was meant."""

import os
import tomllib
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import sidecar
from sidecar.telemetry.build import build_kind

ROOT = Path(__file__).parents[2]
INSTALLED = os.environ.get("SIDECAR_INSTALLED") == "1"
COMPILED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["sidecar"]["compiled"]


def test_the_intended_copy_is_loaded():
    is_source = Path(sidecar.__file__).is_relative_to(ROOT)
    assert is_source != INSTALLED


@pytest.mark.skipif(not INSTALLED, reason="the source is tested")
@pytest.mark.parametrize("path", COMPILED)
def test_the_hot_path_is_compiled(path):
    module = import_module(path.removesuffix(".py").replace("/", "."))
    if build_kind() == "pure" and "SIDECAR_COMPILED" not in os.environ:
        pytest.skip("built without a C compiler")
    assert module.__file__.endswith(".so")


@pytest.mark.skipif(INSTALLED, reason="the installed package is tested")
def test_the_source_is_pure():
    assert build_kind() == "pure"


@pytest.mark.skipif(not INSTALLED, reason="the source is tested")
def test_the_installed_version():
    assert version("sidecar") == sidecar.VERSION
