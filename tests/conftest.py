"""Fixtures for every test, and the Hypothesis profiles."""

from __future__ import annotations

import os

from hypothesis import settings

from tests.fixtures.gate import gate
from tests.fixtures.program import run_program
from tests.fixtures.zookeeper import zookeeper, zookeeper_server

__all__ = ["gate", "run_program", "zookeeper", "zookeeper_server"]

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
