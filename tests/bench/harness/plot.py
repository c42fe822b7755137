"""One picture of everything that was measured so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness import machine

COLOURS = ("#9aa0a6", "#5f6368", "#d9822b", "#1a73e8", "#8ab4f8")


def draw(out: Path) -> Path:
    """Draw every part that has a JSON file into `bench.png`; needs matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    parts = {
        name: json.loads((out / f"{name}.json").read_text())
        for name in DRAWN
        if (out / f"{name}.json").exists()
    }
    figure, axes = pyplot.subplots(1, len(parts), figsize=(6.5 * len(parts), 4.5), squeeze=False)
    for axis, (name, result) in zip(axes[0], parts.items(), strict=True):
        DRAWN[name](axis, result)
        axis.spines[["top", "right"]].set_visible(False)
    newest = next(iter(parts.values()))["machine"]
    figure.text(0.5, 0.005, machine.sentence(newest), ha="center", fontsize=7)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    path = out / "bench.png"
    figure.savefig(path, dpi=120)
    return path


def _throughput(axis: Any, result: dict[str, Any]) -> None:
    fleet, cases = list(result["fleets"].items())[-1]
    names = list(next(iter(cases.values()))["median"])
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        rates = [case["median"][name]["calls_per_second"] for case in cases.values()]
        places = [place + index * width for place in range(len(cases))]
        bars = axis.bar(places, rates, width, label=name, color=COLOURS[index % len(COLOURS)])
        axis.bar_label(bars, [f"{rate / 1000:.0f}k" for rate in rates], fontsize=7)
    axis.set_xticks([place + 0.4 - width / 2 for place in range(len(cases))], list(cases))
    axis.set_yscale("log")
    axis.set_title(f"Throughput, one core, {fleet} provider addresses")
    axis.set_xlabel("consumer connections x outstanding calls")
    axis.set_ylabel("calls per second")
    axis.legend(fontsize=8, frameon=False)


def _latency(axis: Any, result: dict[str, Any]) -> None:
    fields = list(next(iter(result["median"].values())))
    for index, (name, found) in enumerate(result["median"].items()):
        values = [found[field] for field in fields]
        axis.plot(fields, values, marker="o", label=name, color=COLOURS[index % len(COLOURS)])
    axis.set_yscale("log")
    axis.set_title(f"Latency at {result['rate']:,} calls/s, {result['connections']} connections")
    axis.set_ylabel("microseconds from the intended start")
    axis.legend(fontsize=8, frameon=False)


DRAWN = {"throughput": _throughput, "latency": _latency}
