"""The metrics that are looked up when they are asked for, not counted."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator

from sidecar import VERSION
from sidecar.admin.metrics import Family, Sample
from sidecar.discovery.stats import RegistryStats
from sidecar.dispatch.directory import Directory
from sidecar.proxy.plane import DataPlane
from sidecar.telemetry import names
from sidecar.telemetry.build import build_kind


def facts(
    directory: Directory,
    plane: DataPlane,
    stats: dict[str, RegistryStats],
    unresolved: int,
    is_draining: bool,
) -> Iterator[Family]:
    """Yield each family with its samples; ``unresolved`` counts services without a list."""
    yield names.INFLIGHT, _by_word(plane.by_protocol(lambda engine: engine.inflight))
    yield names.WAITING, [((), plane.waiting)]
    yield names.HELD_BYTES, _by_word(plane.by_protocol(lambda engine: engine.held_bytes))
    yield names.CONSUMERS, _by_word(plane.by_protocol(lambda engine: len(engine.consumers)))
    yield names.UPSTREAM_CONNECTIONS, _by_word(plane.connections())
    yield from _registries(stats)
    yield names.SERVICES, [((), len(directory.services()))]
    yield names.UNRESOLVED, [((), unresolved)]
    yield names.INSTANCES, _instances(directory)
    yield names.SNAPSHOT_EPOCH, _epochs(directory)
    yield names.DRAINING, [((), int(is_draining))]
    yield names.BUILD_INFO, [((VERSION, platform.python_version(), build_kind()), 1)]


def _by_word(counts: dict[str, int]) -> list[Sample]:
    return [((word,), count) for word, count in counts.items()]


def _registries(stats: dict[str, RegistryStats]) -> Iterator[Family]:
    every = list(stats.items())
    yield names.REGISTRY_CONNECTED, [((name,), each.connected) for name, each in every]
    yield names.REGISTRY_EVENTS, [((name,), each.events) for name, each in every]
    yield names.REGISTRY_READS, [((name,), each.reads) for name, each in every]
    yield names.REGISTRY_ROWS, [((name,), each.rows) for name, each in every]
    yield names.REGISTRY_PARSED, [((name,), each.parsed) for name, each in every]
    yield names.REGISTRY_RESYNCS, [((name,), each.resyncs) for name, each in every]
    yield names.REGISTRY_REFUSED, _nested((name, each.refused) for name, each in every)
    yield names.REGISTRY_ERRORS, _nested((name, each.errors) for name, each in every)


def _nested(groups: Iterable[tuple[str, dict[str, int]]]) -> list[Sample]:
    return [((name, word), count) for name, counts in groups for word, count in counts.items()]


def _instances(directory: Directory) -> Iterator[Sample]:
    """Only services that had an instance have a label of their own; the rest would share one."""
    for service in directory.services():
        if service.plan is not None and service.stats_label == service.key.text:
            snapshot = service.plan.snapshot
            yield (service.stats_label, "registered"), snapshot.size
            yield (service.stats_label, "matching"), len(snapshot.members)


def _epochs(directory: Directory) -> Iterator[Sample]:
    for service in directory.services():
        if service.plan is not None and service.stats_label == service.key.text:
            yield (service.stats_label,), service.plan.snapshot.epoch
