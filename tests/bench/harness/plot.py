"""One picture of everything that was measured so far."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from harness import machine
from harness.competitors import COMPILED, DIRECT, ENVOY, PURE, RELAY

COLOURS = {
    DIRECT: "#bdc1c6", RELAY: "#80868b", ENVOY: "#d9822b", COMPILED: "#1a73e8", PURE: "#8ab4f8",
}  # fmt: skip
COLUMNS = 3

Panel = Callable[[Any], None]


def draw(out: Path) -> Path:
    """Draw every part that has a JSON file into `bench.png`; needs matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    parts = {
        name: json.loads((out / f"{name}.json").read_text())
        for name in PANELS
        if (out / f"{name}.json").exists()
    }
    panels = [panel for name, result in parts.items() for panel in PANELS[name](result)]
    rows = -(-len(panels) // COLUMNS)
    figure, axes = pyplot.subplots(rows, COLUMNS, figsize=(15, 4.2 * rows), squeeze=False)
    for index, axis in enumerate(axes.flat):
        axis.spines[["top", "right"]].set_visible(False)
        if index < len(panels):
            panels[index](axis)
        else:
            axis.set_axis_off()
    newest = next(iter(parts.values()))["machine"]
    figure.text(0.5, 0.01, machine.sentence(newest), ha="center", fontsize=8)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    path = out / "bench.png"
    figure.savefig(path, dpi=110)
    return path


def _throughput(result: dict[str, Any]) -> list[Panel]:
    fleet, cases = list(result["fleets"].items())[-1]
    return [
        partial(
            _bars,
            found=case["median"],
            field="calls_per_second",
            unit=1000,
            title=f"Thousand calls/s on one core, {result['protocol']}: {label}\n"
            f"{fleet} provider addresses",
        )
        for label, case in cases.items()
    ]


def _bars(axis: Any, *, found: dict[str, Any], field: str, unit: float, title: str) -> None:
    names = list(found)[::-1]
    values = [found[name][field] / unit for name in names]
    bars = axis.barh(names, values, color=[COLOURS[name] for name in names])
    axis.bar_label(bars, [f" {value:,.0f}" for value in values], fontsize=8)
    axis.set_title(title, fontsize=10)


def _latency(result: dict[str, Any]) -> list[Panel]:
    def panel(axis: Any) -> None:
        for name, found in result["median"].items():
            axis.plot(found.keys(), found.values(), marker="o", label=name, color=COLOURS[name])
        axis.set_yscale("log")
        axis.set_title(
            f"Latency, {result['protocol']}, {result['rate']:,} calls/s over"
            f" {result['connections']} connections",
            fontsize=10,
        )
        axis.set_ylabel("microseconds from the intended start")
        axis.legend(fontsize=8, frameon=False)

    return [panel]


def _decision(result: dict[str, Any]) -> list[Panel]:
    def panel(axis: Any) -> None:
        colours = {"compiled": COLOURS[COMPILED], "pure": COLOURS[PURE]}
        for build, found in result["builds"].items():
            sizes = [int(size) for size in found["us"]]
            axis.plot(sizes, found["us"].values(), marker="o", label=build, color=colours[build])
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_title("Route and pick", fontsize=10)
        axis.set_xlabel("instances of the service")
        axis.set_ylabel("microseconds per call")
        axis.legend(fontsize=8, frameon=False)

    return [panel]


def _memory(result: dict[str, Any]) -> list[Panel]:
    def panel(axis: Any) -> None:
        names = ("file", "zookeeper")
        for offset, field, label, colour in (
            (-0.2, "idle_bytes", "1 instance", COLOURS[PURE]),
            (0.2, "full_bytes", f"{result['instances']:,} instances", COLOURS[COMPILED]),
        ):
            values = [result[name][field] / 2**20 for name in names]
            bars = axis.bar(
                [place + offset for place in (0, 1)], values, 0.38, label=label, color=colour
            )
            axis.bar_label(bars, [f"{value:.1f}" for value in values], fontsize=8)
        axis.set_xticks([0, 1], names)
        axis.set_title("Resident memory, MiB", fontsize=10)
        axis.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.06))

    return [panel]


def _streaming(result: dict[str, Any]) -> list[Panel]:
    return [
        partial(
            _bars,
            found=case["median"],
            field="mb_per_second",
            unit=1,
            title=f"MB/s of 1 MiB messages: {label}",
        )
        for label, case in result["cases"].items()
    ]


def _idle(result: dict[str, Any]) -> list[Panel]:
    title = f"KiB per idle connection, {result['connections']:,} connections"
    return [
        partial(_bars, found=result["found"], field="bytes_per_connection", unit=1024, title=title)
    ]


def _slow(result: dict[str, Any]) -> list[Panel]:
    def panel(axis: Any, *, reading: str) -> None:
        for name, found in result["found"][reading].items():
            memory = found["resident_mib"]
            times = [index * result["sample_seconds"] for index in range(len(memory))]
            axis.plot(times, memory, label=name, color=COLOURS[name])
        axis.set_yscale("log")
        axis.set_title(f"Resident MiB, {result['streams']:,} streams, read: {reading}", fontsize=10)
        axis.set_xlabel("seconds")
        axis.legend(fontsize=8, frameon=False)

    return [partial(panel, reading=reading) for reading in result["found"]]


PANELS: dict[str, Callable[[dict[str, Any]], list[Panel]]] = {
    "throughput": _throughput,
    "latency": _latency,
    "decision": _decision,
    "memory": _memory,
    "triple-throughput": _throughput,
    "triple-latency": _latency,
    "triple-streaming": _streaming,
    "triple-idle": _idle,
    "triple-slow": _slow,
}
