"""The benchmark still builds and runs: load generator straight to the provider, a fraction of a
second. No figure is judged here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_load_reaches_the_provider_and_counts_every_reply(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "--quick", "--no-plot", "--only", "direct"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path), "throughput", "latency"],
        env={**os.environ, "PYTHONPATH": str(BENCH)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    throughput = json.loads((tmp_path / "throughput.json").read_text())
    (cases,) = throughput["fleets"].values()
    assert set(cases) == {"8x1", "64x1", "8x16"}
    for case in cases.values():
        assert case["median"]["direct"]["calls_per_second"] > 1000
    latency = json.loads((tmp_path / "latency.json").read_text())
    direct = latency["median"]["direct"]
    assert 0 < direct["p50"] <= direct["p90"] <= direct["p99"] <= direct["p99.9"]
    assert throughput["machine"]["cores"] >= 1
