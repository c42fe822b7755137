"""One service that is watched: from its interface's table and the rules to what is published."""

from __future__ import annotations

from typing import Final, final

from sidecar.discovery.rule_book import service_rule_names
from sidecar.discovery.sink import Sink
from sidecar.model.service import ServiceKey
from sidecar.routing.build import ChainOptions, Rules, build_snapshot
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.routing.table import Change, InstanceTable
from sidecar.telemetry.counters import Counters

# States of the answer that the sink got last.
PENDING: Final = 0  # none yet
FAILED: Final = 1  # there is no list, and why
PUBLISHED: Final = 2

SNAPSHOT_FAILED: Final = "snapshot_failed"


@final
class Subscription:
    """A service, the snapshot built last and the one published last.

    ``deadline`` is when waiting callers are told that nothing came. ``failed_builds`` counts
    snapshots that could not be built; the one before stays published.
    """

    def __init__(
        self, key: ServiceKey, options: ChainOptions, deadline: float, counters: Counters
    ) -> None:
        self.key: Final = key
        self.rule_names: Final = service_rule_names(key)
        self.deadline: Final = deadline
        self.state = PENDING
        self.failed_builds = 0
        self._options: Final = options
        self._counters: Final = counters
        self._rules = Rules({}, None)
        self._built: ServiceSnapshot | None = None
        self._published: ServiceSnapshot | None = None

    @property
    def is_empty(self) -> bool:
        """True when nothing was built, or a snapshot without a single member."""
        return self._built is None or not self._built.members

    @property
    def is_vacant(self) -> bool:
        """Whether the sink was told a reason instead of a list, or a list with nobody in it."""
        return self.state != PENDING and (self._published is None or not self._published.members)

    @property
    def is_behind(self) -> bool:
        """Whether the sink has an older list than the one that was built."""
        built = self._built
        return self.state == PUBLISHED and built is not None and built is not self._published

    def build(self, table: InstanceTable, change: Change | None, rules: Rules) -> None:
        """Follow one change of the table, or with ``change`` None a change of the rules.

        Every change of the table has to come by here, or the next one is built from the start.
        """
        built = self._built
        if built is not None and change is None and self._is_same(rules):
            return
        try:
            self._built = build_snapshot(
                self.key, table, change, rules, self._options, built or self._published
            )
            self._rules = rules
        except Exception:  # noqa: BLE001 - a defect in a router must not take the list away
            self._built = None
            self.failed_builds += 1
            self._counters.count(SNAPSHOT_FAILED)

    def publish(self, sink: Sink) -> bool:
        """Give the sink what was built, unless it has that; True when it was given."""
        built = self._built
        if built is None or built is self._published:
            return False
        self._published = built
        self.state = PUBLISHED
        sink.publish(self.key, built)
        return True

    def fail(self, sink: Sink, reason: str) -> None:
        """Tell the sink why there is no list; only before the first was published."""
        self.state = FAILED
        sink.fail(self.key, reason)

    def _is_same(self, rules: Rules) -> bool:
        ours = self._rules.by_application
        theirs = rules.by_application
        return self._rules.service is rules.service and all(
            ours.get(name) is theirs.get(name) for name in {*ours, *theirs}
        )
