"""How many registry rows a wave of registrations costs.

Providers register one after the other over a few seconds. Without a delay every event reads the
whole list again: 1 + 2 + ... + n rows. The delay turns this into a few reads; the list must be
exact all the same when the wave is over.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from harness import fleet
from harness.native import Programs
from harness.progress import Progress
from harness.traffic import Plan

PROVIDERS = 100
WAVE_SECONDS = 5.0
DELAY = "1s"
NAIVE_ROWS = PROVIDERS * (PROVIDERS + 1) // 2


def measure(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return rows, reads and parsed names of one wave against a real ZooKeeper."""
    wave = WAVE_SECONDS if plan.rounds > 1 else WAVE_SECONDS / 5
    with fleet.zookeeper(out) as server:
        client = server.client()
        try:
            client.ensure_path(fleet.PROVIDERS_PATH)
            return _wave(client, server.url, wave, out)
        finally:
            server.discard(client)


def _wave(client: Any, url: str, wave: float, out: Path) -> dict[str, Any]:
    registry = {
        "name": "main", "url": url, "coalesce": DELAY, "allow_networks": ["127.0.0.0/8"],
    }  # fmt: skip
    with fleet.sidecar(
        url, out, name="coalescing",
        changes={"registries": [registry], "routing": {"nearby": {"enabled": False}}},
    ) as proxy:  # fmt: skip
        names = {
            "rows": "sidecar_registry_rows_total",
            "reads": "sidecar_registry_reads_total",
            "parsed": "sidecar_registry_parsed_total",
        }
        time.sleep(2)  # the first, empty listing must be over
        before = {field: proxy.metric(name) for field, name in names.items()}
        _register(client, wave)
        untagged = {fleet.address(index) for index in range(PROVIDERS) if fleet.is_untagged(index)}
        late = proxy.wait_for(PROVIDERS, seconds=15)
        counted = {field: proxy.metric(name) - before[field] for field, name in names.items()}
        is_exact = set(proxy.eligible()) == untagged
    return {
        "providers": PROVIDERS,
        "wave_seconds": wave,
        "delay": DELAY,
        **counted,
        "naive_rows": NAIVE_ROWS,
        "share": counted["rows"] / NAIVE_ROWS,
        "final_set_exact": is_exact,
        "seconds_behind": late,
    }


def _register(client: Any, wave: float) -> None:
    progress = Progress("coalescing", PROVIDERS)
    begin = time.monotonic()
    for index in range(PROVIDERS):
        time.sleep(max(0.0, begin + index * wave / PROVIDERS - time.monotonic()))
        client.create(fleet.node(index), ephemeral=True)
        progress.step("registered")
    progress.done()
