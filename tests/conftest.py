"""Fixtures for every test, and the Hypothesis profiles."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.fixtures.certificates import certificates
from tests.fixtures.gate import gate
from tests.fixtures.program import run_program
from tests.fixtures.zookeeper import zookeeper, zookeeper_server

__all__ = ["certificates", "gate", "run_program", "zookeeper", "zookeeper_server"]

# Tests run beside others on small machines: how long an example takes says nothing.
SLOW = [HealthCheck.too_slow]
settings.register_profile("default", deadline=None, suppress_health_check=SLOW)
settings.register_profile("ci", deadline=None, suppress_health_check=SLOW, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
