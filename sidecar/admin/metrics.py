"""Counters and facts to the Prometheus text format, at scrape time.

The families of this program are written by hand: a full table of methods is tens of thousands of
lines, for which the client library needs most of a second without a break. Here label texts are
made once per block, and the loop gets its turn after every slice. The library still gives the
`process_*` family and, in the tests, the parser that judges this output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final, TypeAlias, final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from sidecar.model import outcome
from sidecar.telemetry import names
from sidecar.telemetry.counters import DURATION_BOUNDS, Counters, Histogram, MethodStats
from sidecar.telemetry.names import Metric

Sample: TypeAlias = tuple[tuple[str, ...], float]
Family: TypeAlias = tuple[Metric, Iterable[Sample]]
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
SLICE: Final = 100  # blocks or samples written before the loop gets its turn: about a millisecond

_DURATION_LABELS: Final = (*(f"{bound:g}" for bound in DURATION_BOUNDS), "+Inf")


@final
class _Page:
    """The page so far: finished slices as bytes, the current one as lines."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.lines: list[str] = []

    async def breathe(self) -> None:
        """Finish a slice and give the loop its turn."""
        self.lines.append("")
        self.chunks.append("\n".join(self.lines).encode())
        self.lines.clear()
        await asyncio.sleep(0)


@final
class Exposition:
    """Renders one page of metrics.

    ``facts`` gives the families whose values are not counted but looked up: connections, instances,
    registries. It is called once per scrape and must be quick; its samples may be made lazily.
    """

    def __init__(self, counters: Counters, facts: Callable[[], Iterable[Family]]) -> None:
        self._counters = counters
        self._facts = facts
        self._labels: dict[tuple[str, str, str], str] = {}  # bounded by the number of blocks
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)

    async def render(self) -> bytes:
        """Return the page; gives the loop its turn between slices."""
        page = _Page()
        await self._write_requests(page)
        await self._write_durations(page)
        for family in (*self._counted(), *self._facts()):
            await _write_family(page, family)
        _write_histogram(page, names.LOOP_LAG, self._counters.loop_lag)
        await page.breathe()
        page.chunks.append(generate_latest(self._process))
        return b"".join(page.chunks)

    async def _write_requests(self, page: _Page) -> None:
        _write_head(page, names.REQUESTS)
        for index, stats in enumerate(list(self._counters.methods.values())):
            labels = self._labels_of(stats)
            for number, count in enumerate(stats.outcomes):
                if count:
                    end = outcome.NAMES[number]
                    page.lines.append(f'sidecar_requests_total{{{labels},outcome="{end}"}} {count}')
            if index % SLICE == SLICE - 1:
                await page.breathe()

    async def _write_durations(self, page: _Page) -> None:
        _write_head(page, names.REQUEST_DURATION)
        name = names.REQUEST_DURATION.name
        for index, stats in enumerate(list(self._counters.methods.values())):
            labels = self._labels_of(stats)
            _write_buckets(page, name, labels, _DURATION_LABELS, stats.buckets, stats.duration_sum)
            if index % SLICE == SLICE - 1:
                await page.breathe()

    def _labels_of(self, stats: MethodStats) -> str:
        key = (stats.protocol, stats.service, stats.method)
        labels = self._labels.get(key)
        if labels is None:
            labels = self._labels[key] = label_text(names.REQUEST_DURATION.labels, key)
        return labels

    def _counted(self) -> Iterable[Family]:
        counters = self._counters
        yield names.NO_ELIGIBLE, list(counters.no_eligible.items())
        yield names.DEGRADED, list(counters.degraded.items())
        yield names.SERIES_DROPPED, [((), counters.series_dropped)]
        by_metric: dict[Metric, list[Sample]] = {}
        for (name, label), count in counters.named.items():
            by_metric.setdefault(names.counted(name), []).append(((label,) if label else (), count))
        for metric in names.COUNTED:
            # A counter that appears with its first event has no increase that an alert could see.
            zero: list[Sample] = [] if metric.labels else [((), 0)]
            yield metric, by_metric.get(metric, zero)


def label_text(labels: Sequence[str], values: Sequence[str]) -> str:
    """Return ``a="x",b="y"`` with the values escaped."""
    return ",".join(
        f'{label}="{_escape(value)}"' for label, value in zip(labels, values, strict=True)
    )


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _write_head(page: _Page, metric: Metric) -> None:
    page.lines.append(f"# HELP {metric.name} {metric.help}")
    page.lines.append(f"# TYPE {metric.name} {metric.kind}")


async def _write_family(page: _Page, family: Family) -> None:
    metric, samples = family
    _write_head(page, metric)
    for index, (values, number) in enumerate(samples):
        labels = label_text(metric.labels, values)
        page.lines.append(
            f"{metric.name}{{{labels}}} {number}" if labels else f"{metric.name} {number}"
        )
        if index % SLICE == SLICE - 1:
            await page.breathe()


def _write_histogram(page: _Page, metric: Metric, histogram: Histogram) -> None:
    _write_head(page, metric)
    bounds = (*(f"{bound:g}" for bound in histogram.bounds), "+Inf")
    _write_buckets(page, metric.name, "", bounds, histogram.buckets, histogram.sum)


def _write_buckets(
    page: _Page,
    name: str,
    labels: str,
    bounds: Sequence[str],
    buckets: Sequence[int],
    total: float,
) -> None:
    comma = "," if labels else ""
    count = 0
    for bound, count in zip(bounds, accumulate(buckets), strict=True):
        page.lines.append(f'{name}_bucket{{{labels}{comma}le="{bound}"}} {count}')
    braces = f"{{{labels}}}" if labels else ""
    page.lines.append(f"{name}_sum{braces} {total!r}")
    page.lines.append(f"{name}_count{braces} {count}")
