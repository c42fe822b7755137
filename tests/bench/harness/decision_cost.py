"""What routing a call and picking its instance costs, by number of instances.

Measured on the kinds of calls that there are: without a tag (then the data centre decides), with a
tag that instances have, and with one that none has. Processor time is measured and the best of many
batches counts, because the rest is what other processes did to the caches. Worker of
`harness.micro`.
"""

from __future__ import annotations

import random
import time
from typing import Any

from harness.native import METHOD
from harness.walk import Walk, names
from sidecar.dispatch.dispatcher import decide

SIZES = (10, 1_000, 10_000, 100_000)
QUICK_SIZES = (10, 1_000)
TAGS = {"untagged": "", "tag": "gray", "unknown tag": "nobody"}
BATCHES = 15
CALLS = 10_000


def measure(is_quick: bool) -> dict[str, Any]:
    """Return microseconds per call by size and kind, and how they grow."""
    sizes = QUICK_SIZES if is_quick else SIZES
    walks = {size: _filled(size) for size in sizes}
    samples: dict[str, dict[int, list[float]]] = {
        kind: {size: [] for size in sizes} for kind in TAGS
    }
    # Sizes alternate, so that a busy moment of the machine does not count as growth.
    for _ in range(3 if is_quick else BATCHES):
        for kind, tag in TAGS.items():
            for size, walk in walks.items():
                samples[kind][size].append(_batch(walk, tag))
    kinds = {
        kind: {str(size): min(values) for size, values in of_kind.items()}
        for kind, of_kind in samples.items()
    }
    mean = {str(size): sum(kinds[kind][str(size)] for kind in kinds) / len(kinds) for size in sizes}
    return {
        "us": mean,
        "ratio": mean[str(sizes[-1])] / mean[str(sizes[0])],
        "worst_ratio": max(of[str(sizes[-1])] / of[str(sizes[0])] for of in kinds.values()),
        "kinds": kinds,
    }


def _filled(size: int) -> Walk:
    walk = Walk()
    walk.list(names(size))
    assert walk.published == 1
    return walk


def _batch(walk: Walk, tag: str) -> float:
    service, rng, now_ms = walk.service, random.random, int(time.time() * 1000)
    unavailable: dict[str, int] = {}
    decision = decide(service, tag, False, "", METHOD, now_ms, rng, unavailable)
    assert decision.instance is not None, decision.reason
    begin = time.thread_time()
    for _ in range(CALLS):
        decide(service, tag, False, "", METHOD, now_ms, rng, unavailable)
    return (time.thread_time() - begin) / CALLS * 1e6
