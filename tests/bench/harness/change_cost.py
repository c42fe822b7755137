"""What it costs when one instance of a large service is replaced. Worker of `harness.micro`.

Three figures: the whole walk of the change, from the list of all child names to the publishing;
the snapshot alone; and the first call afterwards, which runs the router chain once. All are
processor time.
"""

from __future__ import annotations

import random
import time
from statistics import median
from typing import Any

from harness.native import METHOD
from harness.walk import KEY, Walk, names
from sidecar.dispatch.dispatcher import decide
from sidecar.routing.build import build_snapshot, chain_options
from sidecar.routing.router import Rules
from sidecar.routing.table import InstanceTable
from sidecar.settings.schema import Consumer, Settings

INSTANCES = 10_000
CHANGES = 60


def measure(is_quick: bool) -> dict[str, Any]:
    """Return milliseconds and parsed names per one-instance change."""
    instances = INSTANCES // 10 if is_quick else INSTANCES
    changes = 5 if is_quick else CHANGES
    walk = Walk()
    listed = names(instances)
    begin = time.thread_time()
    walk.list(listed)
    first_listing = time.thread_time() - begin
    parsed = walk.parsed
    arriving = names(changes, first=instances)
    whole: list[float] = []
    calls: list[float] = []
    for index, name in enumerate(arriving):
        listed[random.randrange(len(listed))] = name
        listed = [each.encode().decode() for each in listed]  # an answer has new strings
        whole.append(_timed(walk.list, listed))
        calls.append(_timed(_call, walk))
        assert walk.published == index + 2
    return {
        "instances": instances,
        "first_listing_ms": first_listing * 1e3,
        "listing_ms": median(whole),
        "snapshot_ms": _snapshot_ms(walk, changes),
        "first_call_ms": median(calls),
        "parsed_per_change": (walk.parsed - parsed) / changes,
    }


def _timed(function: Any, argument: Any) -> float:
    begin = time.thread_time()
    function(argument)
    return (time.thread_time() - begin) * 1e3


def _call(walk: Walk) -> None:
    decide(walk.service, "", False, "", METHOD, int(time.time() * 1000), random.random, {})


def _snapshot_ms(walk: Walk, changes: int) -> float:
    """Replace one instance at a time in a table of its own; time the table and the snapshot."""
    plan = walk.service.plan
    assert plan is not None
    present = [instance for instance in plan.snapshot.instances if instance is not None]
    table = InstanceTable()
    settings = Settings(consumer=Consumer(parameters={"zone": "bj-a"}))
    options, rules = chain_options(settings, KEY), Rules({}, None)
    # The last ones arrive one by one, each in the place of another one.
    arriving, present = present[:changes], present[changes:]
    change = table.apply(present)
    snapshot = build_snapshot(KEY, table, change, rules, options)
    taken: list[float] = []
    for newcomer, leaver in zip(arriving, present, strict=False):
        begin = time.thread_time()
        change = table.apply([newcomer], [leaver])
        snapshot = build_snapshot(KEY, table, change, rules, options, snapshot)
        taken.append((time.thread_time() - begin) * 1e3)
    assert len(snapshot.members) == len(present)
    return median(taken)
