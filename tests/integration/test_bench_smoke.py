"""The benchmark still builds and runs: load generators straight to the providers, a fraction of a
second. No figure is judged here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")


def _has_nghttp2() -> bool:
    if shutil.which("gcc") is None or shutil.which("h2load") is None:
        return False
    command = ["gcc", "-E", "-include", "nghttp2/nghttp2.h", "-x", "c", os.devnull]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _measured(out: Path, *parts: str) -> list[Any]:
    command = [sys.executable, "-m", "harness", "--quick", "--no-plot", "--only", "direct"]
    done = subprocess.run(
        [*command, "--out", str(out), *parts],
        env={**os.environ, "PYTHONPATH": str(BENCH)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads((out / f"{part}.json").read_text()) for part in parts]


def _assert_sound(throughput: Any, latency: Any, cases: set[str]) -> None:
    (found,) = throughput["fleets"].values()
    assert set(found) == cases
    for case in found.values():
        assert case["median"]["direct"]["calls_per_second"] > 1000
    direct = latency["median"]["direct"]
    assert 0 < direct["p50"] <= direct["p90"] <= direct["p99"] <= direct["p99.9"]
    assert throughput["machine"]["cores"] >= 1


@needs_gcc
def test_load_reaches_the_provider_and_counts_every_reply(tmp_path: Path) -> None:
    throughput, latency = _measured(tmp_path, "throughput", "latency")
    _assert_sound(throughput, latency, {"8x1", "64x1", "8x16"})


@pytest.mark.skipif(not _has_nghttp2(), reason="no h2load or no libnghttp2-dev")
def test_grpc_calls_and_streams_reach_the_provider(tmp_path: Path) -> None:
    parts = ("triple-throughput", "triple-latency", "triple-streaming")
    throughput, latency, streaming = _measured(tmp_path, *parts)
    _assert_sound(throughput, latency, {"8x1", "8x10", "64x1"})
    for case in streaming["cases"].values():
        assert case["median"]["direct"]["mb_per_second"] > 10
