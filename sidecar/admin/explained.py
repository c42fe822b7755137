"""An explanation, as /explain answers it, to a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

MAX_ADDRESSES: Final = 8  # of the eligible ones; a terminal line holds about that many


def explanation_table(explanation: dict[str, Any], max_excluded: int = 0) -> str:
    """Return one line per step, then who may be picked, by what, and why nobody, if so.

    Below a step stand up to ``max_excluded`` of the instances it left out, with the reason.
    """
    title = "{service} ({protocol}), snapshot {epoch}"
    lines = [title.format_map(explanation)]
    rows = [("router", "in", "out", "reason")]
    rows += [
        (step["router"], str(step["in"]), str(step["out"]), step["reason"])
        for step in explanation["steps"]
    ]
    head, *body = _aligned(rows)
    lines.append(head)
    for line, step in zip(body, explanation["steps"], strict=True):
        lines.append(line)
        lines += [
            f"    not {each['instance']}: {each['reason']}"
            for each in step["excluded"][:max_excluded]
        ]
    eligible = explanation["eligible"]
    shown = ", ".join(eligible[:MAX_ADDRESSES])
    more = f" and {len(eligible) - MAX_ADDRESSES} more" if len(eligible) > MAX_ADDRESSES else ""
    lines.append(f"eligible {len(eligible)}: {shown}{more}" if eligible else "eligible 0")
    if explanation["reason"]:
        lines.append(f"reason   {explanation['reason']}")
    elif explanation["picked_by"]:
        lines.append(f"picked by {explanation['picked_by']}")
    return "\n".join(lines)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:], strict=True)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines
