"""Tables on standard output and one JSON file per part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.competitors import DIRECT
from harness.traffic import PERCENTILES


def save(part: str, machine: dict[str, Any], result: dict[str, Any], out: Path) -> None:
    """Write one part with the machine it was taken on."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine, **result}, indent=1)
    (out / f"{part}.json").write_text(text + "\n")


def show(part: str, result: dict[str, Any]) -> None:
    """Print one part."""
    SHOWN[part](result)


def _throughput(result: dict[str, Any]) -> None:
    for fleet, cases in result["fleets"].items():
        names = list(next(iter(cases.values()))["median"])
        print(
            f"\nCalls per second over {result['protocol']}, {fleet} provider address(es),"
            f" connections x outstanding calls"
        )
        rows = [[name, *(_rate(case, name) for case in cases.values())] for name in names]
        _table(["", *cases], rows)
        print("\nProcessor time per call in the proxy, and the share of its core that it got")
        proxies = [name for name in names if name != DIRECT]
        rows = [[name, *(_cost(case, name) for case in cases.values())] for name in proxies]
        _table(["", *cases], rows)


def _rate(case: dict[str, Any], name: str) -> str:
    rate = case["median"][name]["calls_per_second"]
    ratio = case.get("ratio_to_envoy", {}).get(name)
    return f"{rate / 1000:,.1f}k" + (f" ({ratio:.2f} x Envoy)" if ratio else "")


def _cost(case: dict[str, Any], name: str) -> str:
    found = case["median"][name]
    return f"{found['cpu_us_per_call']:.1f} us, {found['core_share']:.0%}"


def _latency(result: dict[str, Any]) -> None:
    print(
        f"\nLatency over {result['protocol']} at {result['rate']:,} calls/s on"
        f" {result['connections']} connections, from the intended start, in microseconds"
    )
    rows = []
    for name, found in result["median"].items():
        added = result["added"].get(name)
        rows.append(
            [
                name,
                *(f"{found[field]:,.0f}" for field in PERCENTILES),
                *(f"{added[field]:+,.0f}" if added else "" for field in PERCENTILES[:3]),
            ]
        )
    added_head = [f"added {field}" for field in PERCENTILES[:3]]
    _table(["", *PERCENTILES, *added_head], rows)


def _decision(result: dict[str, Any]) -> None:
    print("\nRoute and pick, microseconds per call by number of instances")
    builds = result["builds"]
    sizes = list(next(iter(builds.values()))["us"])
    rows = [
        [build, *(f"{found['us'][size]:.2f}" for size in sizes), f"{found['ratio']:.2f}"]
        for build, found in builds.items()
    ]
    _table(["", *(f"{int(size):,}" for size in sizes), "largest/smallest"], rows)


def _change(result: dict[str, Any]) -> None:
    builds = result["builds"]
    instances = next(iter(builds.values()))["instances"]
    print(f"\nOne instance of {instances:,} replaced, median of many changes")
    rows = [
        [
            build,
            f"{found['listing_ms']:.2f} ms",
            f"{found['snapshot_ms']:.2f} ms",
            f"{found['first_call_ms']:.2f} ms",
            f"{found['parsed_per_change']:g}",
            f"{found['first_listing_ms']:.0f} ms",
        ]
        for build, found in builds.items()
    ]
    _table(["", "whole change", "snapshot", "next call", "names parsed", "first list"], rows)


def _coalescing(result: dict[str, Any]) -> None:
    print(
        f"\n{result['providers']} providers register over {result['wave_seconds']:g} s, delay"
        f" {result['delay']}: {result['rows']:.0f} rows in {result['reads']:.0f} reads, that is"
        f" {result['share']:.1%} of {result['naive_rows']:,}; {result['parsed']:.0f} names parsed,"
        f" final set {'exact' if result['final_set_exact'] else 'WRONG'},"
        f" complete {result['seconds_behind']:.1f} s after the last registration"
    )


def _memory(result: dict[str, Any]) -> None:
    print(f"\nResident memory with one and with {result['instances']:,} instances")
    rows = [
        [
            registry,
            f"{result[registry]['idle_bytes'] / 2**20:.1f} MiB",
            f"{result[registry]['full_bytes'] / 2**20:.1f} MiB",
            f"{result[registry]['bytes_per_instance']:,.0f}",
        ]
        for registry in ("file", "zookeeper")
    ]
    _table(["registry", "one", "all", "bytes per instance"], rows)


def _streaming(result: dict[str, Any]) -> None:
    cases = result["cases"]
    names = list(next(iter(cases.values()))["median"])
    print("\nMB/s of 1 MiB messages from provider to consumer, connections x streams")
    rows = [[name, *(_speed(case, name) for case in cases.values())] for name in names]
    _table(["", *cases], rows)
    print("\nProcessor time per MB, share of the core, and resident memory from first to last")
    proxies = [name for name in names if name != DIRECT]
    rows = [[name, *(_speed_cost(case, name) for case in cases.values())] for name in proxies]
    _table(["", *cases], rows)


def _speed(case: dict[str, Any], name: str) -> str:
    speed = case["median"][name]["mb_per_second"]
    ratio = case.get("ratio_to_envoy", {}).get(name)
    return f"{speed:,.0f}" + (f" ({ratio:.2f} x Envoy)" if ratio else "")


def _speed_cost(case: dict[str, Any], name: str) -> str:
    found, memory = case["median"][name], case["resident_mib"][name]
    return (
        f"{found['cpu_us_per_mb']:.0f} us, {found['core_share']:.0%},"
        f" {memory[0]:.0f}-{max(memory):.0f} MiB"
    )


def _idle(result: dict[str, Any]) -> None:
    print(f"\nResident memory with {result['connections']:,} idle connections of consumers")
    rows = [
        [
            name,
            f"{found['before_bytes'] / 2**20:.1f} MiB",
            f"{found['during_bytes'] / 2**20:.1f} MiB",
            f"{found['after_bytes'] / 2**20:.1f} MiB",
            f"{found['bytes_per_connection']:,.0f}",
        ]
        for name, found in result["found"].items()
    ]
    _table(["", "before", "with them", "after", "bytes per connection"], rows)


def _slow(result: dict[str, Any]) -> None:
    print(
        f"\nResident memory under {result['streams']:,} endless streams on"
        f" {result['connections']} connections, by what their consumers read of each"
    )
    rows = []
    for reading, names in result["found"].items():
        for name, found in names.items():
            beside = found["beside"]
            answered = f"{beside['answered']}/{beside['answered'] + beside['failed']}"
            rows.append(
                [
                    f"{name}, {reading}",
                    f"{found['before_mib']:.0f} MiB",
                    f"{found['peak_mib']:.0f} MiB",
                    f"{found['plateau_mib']:.0f} MiB",
                    f"{found['growth_mib']:+.1f} MiB",
                    answered + (f", {beside['median_ms']:.1f} ms" if beside["median_ms"] else ""),
                ]
            )
    head = ["", "before", "peak", "plateau", "growth at the end", "calls beside them answered"]
    _table(head, rows)


def _table(head: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join(cells).rstrip())


SHOWN = {
    "throughput": _throughput,
    "latency": _latency,
    "decision": _decision,
    "change": _change,
    "coalescing": _coalescing,
    "memory": _memory,
    "triple-throughput": _throughput,
    "triple-latency": _latency,
    "triple-streaming": _streaming,
    "triple-idle": _idle,
    "triple-slow": _slow,
}
