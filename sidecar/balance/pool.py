"""A pool: the instances a call may go to, and the weighted random pick among them.

The pick is a rejection draw. Instances are kept in classes, each with an upper bound for the
weights in it; one random number chooses a class by its span (bound x size), a member of it, and
whether the member is accepted, which has the probability weight / bound. So each instance is picked
in exact proportion to its weight at the moment of the pick, without a sum over the instances:

- warm instances share a class per distinct weight (bound = weight, nothing is ever rejected), or,
  when there are many distinct weights, per power of two (at least half is accepted);
- warming instances share a class per power of two of the weight they will have at the end of a
  short horizon; when it has passed, the classes are built again. No timer, no rebuild when all are
  warm or have yet to start by their own clocks.

After ``MAX_TRIES`` rejections (most instances unavailable, or a fleet that has just started) one
pass over the pool decides, and is counted. What is usable in a large pool serves the next picks for
a moment, too: with most of a fleet gone, the calls to the rest do not pay for its size.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final, final

from sidecar.balance.weight import base_weight, is_warming, weight_at
from sidecar.model.instance import Instance
from sidecar.telemetry.counters import Counters

# States of an address that must not take new calls; the smaller one is the better last resort.
DRAINING: Final = 1  # the provider said READONLY, its connection works
BACKING_OFF: Final = 2  # connecting failed a moment ago

NAME: Final = "random"
SUMMED_COUNTER: Final = "pick_summed"
EVEN_SPLIT_COUNTER: Final = "pick_even_splits"

MAX_TRIES: Final = 32  # at two expected tries, reached once in four billion picks
# Tables of methods with weights of their own, each as large as the pool. No service has so many; at
# the cap all are built again by the calls that need them.
MAX_METHOD_TABLES: Final = 64
REST_ABOVE: Final = 256  # instances; a pass over fewer takes some 20 us
REST_MS: Final = 500  # an instance that comes back among many that are gone waits so long at most
MAX_EXACT_CLASSES: Final = 16  # the classes are searched one by one
FOREVER: Final = (1 << 62) - 1
# The horizon is 1/128 of the shortest warm-up, so weights grow by less than 1 % of the base in it,
# within limits that keep rebuilding cheap (a rebuild of 100,000 instances takes some milliseconds).
HORIZON_SHIFT: Final = 7
MIN_HORIZON_MS: Final = 50
MAX_HORIZON_MS: Final = 5000


@final
class WeightClass:
    """Instances whose weights are at most ``bound``; equal to it when ``is_exact``."""

    def __init__(self, bound: float, members: list[Instance], is_exact: bool) -> None:
        self.bound: Final = bound
        self.members: Final = members
        self.is_exact: Final = is_exact
        self.span: Final = bound * len(members)


@final
class WeightTable:
    """The classes of one pool for one method, valid up to a moment (ms).

    ``rest`` has those instances only that were usable when a pass was needed.
    """

    def __init__(self, classes: list[WeightClass], valid_until: int, is_even: bool) -> None:
        self.classes: Final = classes
        self.valid_until: Final = valid_until
        self.is_even: Final = is_even
        self.rest: WeightTable | None = None
        self.rest_until = 0
        total = 0.0
        for each in classes:
            total += each.span
        self.total: Final = total


@final
class Pool:
    """The memoised result of the router chain for one kind of call.

    ``reason`` is a token of ``model.reason`` when the pool is empty. ``degraded`` names, as
    (router, reason), each router that returned its wider set on purpose.
    """

    def __init__(
        self,
        instances: list[Instance],
        reason: str,
        counters: Counters,
        degraded: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.instances: Final = instances
        self.reason: Final = reason
        self.degraded: Final = degraded
        self._counters: Final = counters
        self._table: WeightTable | None = None
        self._methods: Final[set[str]] = set()  # those that have weights of their own
        self._of_methods: Final[dict[str, WeightTable]] = {}
        for instance in instances:
            weights = instance.method_weights
            if weights is not None:
                self._methods.update(weights)

    def pick(
        self,
        method: str,
        now_ms: int,
        rng: Callable[[], float],
        unavailable: dict[str, int],
    ) -> Instance | None:
        """Choose one instance; None only when the pool is empty.

        ``rng`` returns floats in [0, 1). Instances of weight 0 are never picked, unless all weights
        are 0: then all are equal, which is counted. Addresses in ``unavailable`` are picked only
        when there is nothing else.
        """
        if not self.instances:
            return None
        table = self._table_of(method, now_ms)
        if table.is_even:
            self._counters.count(EVEN_SPLIT_COUNTER)
        for _ in range(MAX_TRIES):
            instance = _draw(table, method, now_ms, rng)
            if instance is not None and not (unavailable and instance.address in unavailable):
                return instance
        rest = table.rest
        if rest is not None and now_ms <= table.rest_until:
            for _ in range(MAX_TRIES):
                instance = _draw(rest, method, now_ms, rng)
                if instance is not None and instance.address not in unavailable:
                    return instance
        self._counters.count(SUMMED_COUNTER)
        return self._pass(table, method, now_ms, rng, unavailable)

    def refusals(self, method: str, unavailable: dict[str, int]) -> dict[int, str]:
        """Say which instances ``pick`` would pass over now, by id, and why; for explain."""
        weighted = [each for each in self.instances if base_weight(each, method) > 0]
        candidates = weighted or self.instances
        states = {each.id: unavailable.get(each.address, 0) for each in candidates}
        best = min(states.values(), default=0)
        refused = {each.id: "weight 0" for each in self.instances if each.id not in states}
        for id, state in states.items():  # noqa: A001
            if state > best:
                refused[id] = "draining" if state == DRAINING else "backing off"
        return refused

    def _table_of(self, method: str, now_ms: int) -> WeightTable:
        has_own = bool(self._methods) and method in self._methods
        table = self._of_methods.get(method) if has_own else self._table
        if table is None or now_ms > table.valid_until:
            table = build_table(self.instances, method, now_ms)
            if not has_own:
                self._table = table
            else:
                if len(self._of_methods) >= MAX_METHOD_TABLES:
                    self._of_methods.clear()
                self._of_methods[method] = table
        return table

    def _pass(
        self,
        table: WeightTable,
        method: str,
        now_ms: int,
        rng: Callable[[], float],
        unavailable: dict[str, int],
    ) -> Instance:
        """Choose by sums over the best there is: usable, else draining, else backing off."""
        best = BACKING_OFF + 1
        found: list[Instance] = []
        sums: list[int] = []
        total = 0
        for instance in self.instances:
            weight = 1 if table.is_even else weight_at(instance, method, now_ms)
            state = min(BACKING_OFF, unavailable.get(instance.address, 0))
            if weight == 0 or state > best:
                continue
            if state < best:
                best = state
                found = []
                sums = []
                total = 0
            total += weight
            found.append(instance)
            sums.append(total)
        if best == 0 and len(self.instances) > REST_ABOVE:
            table.rest = build_table(found, method, now_ms)
            table.rest_until = min(now_ms + REST_MS, table.rest.valid_until)
        return found[min(bisect_right(sums, rng() * total), len(found) - 1)]


def _draw(
    table: WeightTable, method: str, now_ms: int, rng: Callable[[], float]
) -> Instance | None:
    """Draw once; None is a rejection."""
    point = rng() * table.total
    drawn = table.classes[0]
    for drawn in table.classes:
        if point < drawn.span:
            break
        point -= drawn.span
    index = int(point / drawn.bound)
    if index >= len(drawn.members):  # rounding at the very end of the last span
        return None
    instance = drawn.members[index]
    if drawn.is_exact or point - index * drawn.bound < weight_at(instance, method, now_ms):
        return instance
    return None


def build_table(instances: list[Instance], method: str, now_ms: int) -> WeightTable:
    """Sort the instances into classes for one method; there must be at least one instance."""
    warm: dict[int, list[Instance]] = {}
    warming: list[Instance] = []
    until = FOREVER
    for instance in instances:
        weight = base_weight(instance, method)
        if weight == 0:
            continue
        if is_warming(instance, now_ms):
            warming.append(instance)
            until = min(until, _steady_until(instance, now_ms))
        elif weight in warm:
            warm[weight].append(instance)
        else:
            warm[weight] = [instance]
    if not warm and not warming:
        return WeightTable([WeightClass(1.0, instances, True)], FOREVER, True)
    classes = [WeightClass(float(weight), members, True) for weight, members in warm.items()]
    if len(classes) > MAX_EXACT_CLASSES:
        classes = _by_power_of_two(warm)
    if warming:
        until = max(until, now_ms + MIN_HORIZON_MS)
        growing: dict[int, list[Instance]] = {}
        for instance in warming:
            growing.setdefault(weight_at(instance, method, until), []).append(instance)
        classes.extend(_by_power_of_two(growing))
    classes.sort(key=_span, reverse=True)
    return WeightTable(classes, until, False)


def _steady_until(instance: Instance, now_ms: int) -> int:
    """Return up to when a warming instance's weight hardly grows; by then the table is old."""
    if instance.started_ms > now_ms:  # by its clock, which may be years ahead; its weight is 1
        return instance.started_ms
    return now_ms + min(MAX_HORIZON_MS, instance.warmup_ms >> HORIZON_SHIFT)


def _by_power_of_two(members_of: dict[int, list[Instance]]) -> list[WeightClass]:
    """Join the members of all weights between two powers of two into one class."""
    joined: dict[int, list[Instance]] = {}
    bounds: dict[int, int] = {}
    for weight, members in members_of.items():
        power = weight.bit_length()
        joined.setdefault(power, []).extend(members)
        bounds[power] = max(weight, bounds.get(power, 0))
    return [WeightClass(float(bounds[power]), joined[power], False) for power in joined]


def _span(each: WeightClass) -> float:
    return each.span
