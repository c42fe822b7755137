"""Resident memory of a real process, idle and with a large service, from both registries.

The large service is called a little before the reading, so the memoised pools are counted.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness import fleet, process
from harness.native import Programs
from harness.traffic import Plan

INSTANCES = 10_000
SETTLE_SECONDS = 7.0  # longer than freed memory takes to be given back
BATCH = 500  # registrations per ZooKeeper transaction, well below the server's message limit


def measure(plan: Plan, programs: Programs, out: Path) -> dict[str, Any]:
    """Return RSS in bytes and bytes per instance, by registry."""
    instances = INSTANCES if plan.rounds > 1 else INSTANCES // 10
    result: dict[str, Any] = {"instances": instances}
    for registry, resident in (("file", _from_file), ("zookeeper", _from_zookeeper)):
        idle, full = resident(1, programs, out), resident(instances, programs, out)
        result[registry] = {
            "idle_bytes": idle,
            "full_bytes": full,
            "bytes_per_instance": (full - idle) / (instances - 1),
        }
    return result


def _from_file(instances: int, programs: Programs, out: Path) -> int:
    path = out / "run" / "memory.registry.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    with programs.provider(1, host="0.0.0.0") as ports:
        urls = [fleet.url(index, ports[0]) for index in range(instances)]
        path.write_text(json.dumps({"providers": urls}, indent=0))
        return _resident(f"file://{path}", instances, programs, out)


def _from_zookeeper(instances: int, programs: Programs, out: Path) -> int:
    with ExitStack() as stack:
        server = stack.enter_context(fleet.zookeeper(out))
        ports = stack.enter_context(programs.provider(1, host="0.0.0.0"))
        client = server.client()
        stack.callback(server.discard, client)
        client.ensure_path(fleet.PROVIDERS_PATH)
        for first in range(0, instances, BATCH):
            transaction = client.transaction()
            for index in range(first, min(first + BATCH, instances)):
                transaction.create(fleet.node(index, ports[0]))
            transaction.commit()
        return _resident(server.url, instances, programs, out)


def _resident(registry: str, instances: int, programs: Programs, out: Path) -> int:
    routing = {"routing": {"nearby": {"enabled": False}}}
    with fleet.sidecar(registry, out, name="memory", changes=routing) as proxy:
        proxy.wait_for(instances)
        programs.load([proxy.port], connections=1, rate=1, seconds=1, warm_up=0)
        time.sleep(SETTLE_SECONDS)
        return process.resident_bytes(proxy.pid)
