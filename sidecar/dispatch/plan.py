"""One snapshot of a service with the pools that calls have needed so far.

The router chain runs once per kind of call: its result is kept as a pool under the chain's memo
key, which the rules bound. A second, small memo maps what a call carries to its pool, so that an
ordinary call costs one look-up. Calls that carry no tag have a place of their own. Memo keys have
the protocol in them, and pools of equal results are shared across protocols.

The memos are capped: consumers choose the tags they send. When the pools reach their cap, all are
forgotten, which is counted; those in use are made again by the next calls.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.balance.pool import Pool
from sidecar.model.instance_set import InstanceSet
from sidecar.model.protocol import DUBBO, TRIPLE
from sidecar.routing.router import Call, resolve
from sidecar.routing.snapshot import ServiceSnapshot, View
from sidecar.telemetry.counters import Counters

CLEARED_COUNTER: Final = "plan_memo_cleared"
MAX_POOLS: Final = 1024  # kinds of calls of one service, each a known tag or a mix of two
# All pools of a plan together list at most this many references per member (8 bytes each). A pool
# that is picked from has as many again in its weight table.
MAX_REFERENCES_PER_MEMBER: Final = 16
MIN_REFERENCES: Final = 10_000  # small services are bounded by MAX_POOLS alone
MAX_RECENT: Final = 1024  # different tags seen between two changes, unknown ones too
MAX_RECENT_LENGTH: Final = 256  # characters; a longer tag is not remembered

Result = tuple[InstanceSet, str, tuple[tuple[str, str], ...]]


@final
class Plan:
    """See the module; replaced as a whole when a new snapshot is published."""

    def __init__(
        self,
        snapshot: ServiceSnapshot,
        counters: Counters,
        max_pools: int = MAX_POOLS,
        min_references: int = MIN_REFERENCES,
    ) -> None:
        self.snapshot = snapshot
        self._counters: Final = counters
        self._max_pools: Final = max_pools
        self._min_references: Final = min_references
        self._untagged: list[Pool | None] = _no_pools()
        self._recent: Final[dict[tuple[str, bool, str, int], Pool]] = {}
        self._pools: Final[dict[tuple[int, str], Pool]] = {}
        # Equal results share a pool, for example those of all tags that have no live instance.
        self._by_result: Final[dict[Result, Pool]] = {}
        self._references = 0

    def adopt(self, snapshot: ServiceSnapshot) -> bool:
        """Take over a snapshot that routes as the present one does; False when it does not."""
        if not snapshot.routes_as(self.snapshot):
            return False
        self.snapshot = snapshot
        return True

    def pool(self, tag: str, force_tag: bool, service_tag: str, protocol: int = DUBBO) -> Pool:
        """Return the pool of a call; it is empty, with its reason, when nothing is eligible."""
        if not tag and not service_tag:  # without a tag there is nothing to force
            untagged = self._untagged[protocol]
            if untagged is None:
                untagged = self._route(Call(), protocol)
                self._untagged[protocol] = untagged
            return untagged
        seen = (tag, force_tag, service_tag, protocol)
        pool = self._recent.get(seen)
        if pool is None:
            pool = self._route(Call(tag, force_tag, service_tag), protocol)
            if len(tag) + len(service_tag) <= MAX_RECENT_LENGTH:
                if len(self._recent) >= MAX_RECENT:
                    self._recent.clear()
                self._recent[seen] = pool
        return pool

    def _route(self, call: Call, protocol: int) -> Pool:
        view = self.snapshot.view(protocol)
        inputs: str | None = view.chain.inputs(call)
        if inputs is None:
            return self._run(call, view)
        key = (protocol, inputs)
        pool = self._pools.get(key)
        if pool is None:
            if len(self._pools) >= self._max_pools:
                self._clear()
            pool = self._run(call, view)
            self._pools[key] = pool
        return pool

    def _run(self, call: Call, view: View) -> Pool:
        if not view.members:
            return Pool([], view.empty_reason, self._counters)
        snapshot = self.snapshot
        routed = view.chain.route(call, view.members, self._counters)
        result = (routed.out, routed.reason, routed.degraded)
        pool = self._by_result.get(result)
        if pool is None:
            instances = resolve(snapshot.instances, routed.out)
            pool = Pool(instances, routed.reason, self._counters, routed.degraded)
            self._references += len(instances)
            most = max(self._min_references, MAX_REFERENCES_PER_MEMBER * len(snapshot.members))
            if self._references > most:
                self._clear()
                self._references = len(instances)
            self._by_result[result] = pool
        return pool

    def _clear(self) -> None:
        self._counters.count(CLEARED_COUNTER)
        self._untagged = _no_pools()
        self._recent.clear()
        self._pools.clear()
        self._by_result.clear()
        self._references = 0


def _no_pools() -> list[Pool | None]:
    """Return a place for a pool of each protocol, which is the index; there is none at 0."""
    return [None] * (TRIPLE + 1)
