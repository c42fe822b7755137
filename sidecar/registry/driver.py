"""Discovery at work: the catalog, its registries, and the event loop between them.

Answers go in as they come; new names are parsed in steps with a turn of the loop between them, so
calls never wait for a long list. Commands for the registries are carried out after each step.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, final

from sidecar.discovery.catalog import Catalog
from sidecar.discovery.sink import Sink
from sidecar.discovery.slot import Slot
from sidecar.discovery.stats import RegistryStats
from sidecar.model.service import ServiceKey
from sidecar.registry.file import FileRegistry
from sidecar.registry.heap import release_heap
from sidecar.registry.source import Source
from sidecar.registry.zookeeper import ZooKeeperRegistry
from sidecar.settings.forms import parse_service
from sidecar.settings.schema import Registry, Settings
from sidecar.telemetry.counters import Counters

IDLE_CHECKS: Final = 4  # looks for unused services within one idle time
MIN_IDLE_PERIOD: Final = 0.05
MAX_IDLE_PERIOD: Final = 60.0
MAX_SERVICE: Final = 512  # characters; Java class names of half that length are unheard of
BAD_SERVICE: Final = "bad_service"
# Services with nobody in them are forgotten after this long (s) without a call: a consumer may ask
# for any number of invented names, and they must not take the places of real ones for long.
EMPTY_RELEASE: Final = 60.0
# Lists from this size on leave a heap behind that is worth giving back, and when: at most once in
# the delay (s), when the list has long been taken in.
LARGE_LIST: Final = 1000
RELEASE_DELAY: Final = 5.0

_logger = logging.getLogger(__name__)


def is_watchable(key: ServiceKey) -> bool:
    """Tell whether a service's names can be names of nodes."""
    return (
        key.text.isprintable() and len(key.text) <= MAX_SERVICE and bool(key.interface.strip("."))
    )


class Services(Sink, Protocol):
    """The sink, and what else the driver has to know about services."""

    def admit(self, key: ServiceKey, named: bool) -> bool:
        """Make room for a service; False when there are too many. ``named``: by configuration."""

    def remove(self, key: ServiceKey) -> None:
        """The service is watched no longer."""

    def last_used_ms(self, key: ServiceKey) -> int:
        """Return when the service was called last, in ms since the epoch; 0 is never."""


@final
class RegistryDriver:
    """Watches services in all configured registries. Made and used in one running loop."""

    def __init__(
        self,
        settings: Settings,
        services: Services,
        counters: Counters,
        loop: asyncio.AbstractEventLoop,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings: Final = settings
        self._services: Final = services
        self._counters: Final = counters
        self._loop: Final = loop
        # The time of day at the start, plus what has passed since. If a wrong clock is set right
        # later, services that are in use must not look idle for as long as it was wrong.
        self._wall_offset: Final = wall() - loop.time()
        self._catalog: Final = Catalog(settings, services, counters)
        self._sources: Final[list[Source]] = [self._source(each) for each in settings.registries]
        self._preload: Final = [parse_service(text) for text in settings.services.preload]
        self._since: Final[dict[str, int]] = {}
        self._is_scheduled = False
        self._is_stopped = False
        self._expiry: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._release: asyncio.TimerHandle | None = None

    @property
    def stats(self) -> dict[str, RegistryStats]:
        """The counters of each registry by name."""
        return self._catalog.stats

    def start(self) -> None:
        """Connect to the registries and watch the services that the configuration names."""
        for source in self._sources:
            source.start()
        for key in self._preload:
            self._subscribe(key, named=True)
        self._check_idle()

    async def stop(self) -> None:
        """Disconnect from every registry; what was published stays as it is."""
        self._is_stopped = True
        for timer in (self._expiry, self._idle, self._release):
            if timer is not None:
                timer.cancel()
        await asyncio.gather(*(source.stop() for source in self._sources))

    def resolve(self, service: str) -> None:
        """Begin to watch a service, unless it is watched already; its text is from the wire."""
        try:
            key = parse_service(service)
        except ValueError:
            key = None
        if key is None or not is_watchable(key):
            self._counters.count(BAD_SERVICE)
        elif not self._is_stopped:
            self._subscribe(key, named=False)

    def release(self, key: ServiceKey) -> None:
        """Stop to watch a service."""
        self._since.pop(key.text, None)
        self._catalog.release(key)
        self._services.remove(key)
        self._schedule()

    def unready(self) -> list[str]:
        """Return the services of the configuration that a required registry has not shown yet."""
        required = [each.name for each in self._settings.registries if each.required]
        if not required:
            return []
        return [key.text for key in self._preload if not self._catalog.is_read(key, required)]

    def unresolved(self) -> int:
        """Return how many watched services have no list yet."""
        return sum(not self._catalog.is_published(key) for key in self._catalog.services())

    def registries(self) -> list[dict[str, Any]]:
        """Return the state of each registry for people."""
        return [
            {
                "name": source.name,
                **source.view(),
                **{
                    field: getattr(self.stats[source.name], field)
                    for field in ("events", "reads", "rows", "parsed", "refused", "errors")
                },
            }
            for source in self._sources
        ]

    def service(self, key: ServiceKey) -> dict[str, Any] | None:
        """Return what discovery knows about a service, None when it is not watched."""
        return self._catalog.view(key)

    def rules(self) -> list[dict[str, Any]]:
        """Return the rules that exist, for people."""
        return self._catalog.rule_views(self._now_ms())

    def linked(self, registry: str) -> None:
        """See ``source.Receiver``, here and below."""
        self._catalog.linked(registry)
        self._schedule()

    def lost(self, registry: str) -> None:
        """See ``linked``."""
        self._catalog.lost(registry)
        self._schedule()

    def listed(self, registry: str, slot: Slot, names: Sequence[str]) -> None:
        """See ``linked``."""
        self._catalog.listed(registry, slot, names)
        self._schedule()
        if len(names) >= LARGE_LIST and self._release is None:
            self._release = self._loop.call_later(RELEASE_DELAY, self._release_heap)

    def text(self, registry: str, slot: Slot, text: str, version: int) -> None:
        """See ``linked``."""
        problem = self._catalog.rule(registry, slot.name, text, version, self._now_ms())
        if problem:
            _logger.warning(
                "registry %s: %s is no rule, the last good one stays: %s",
                registry, slot.name, problem,
            )  # fmt: skip
        self._schedule()

    def failed(self, registry: str, slot: Slot, kind: str) -> None:
        """See ``linked``."""
        self._catalog.failed(registry, slot, kind)
        self._schedule()

    def _source(self, registry: Registry) -> Source:
        stats = self._catalog.stats[registry.name]
        if registry.url.startswith("file:"):
            return FileRegistry(registry, self, stats, self._loop)
        return ZooKeeperRegistry(registry, self, stats, self._loop)

    def _subscribe(self, key: ServiceKey, named: bool) -> None:
        if key in self._catalog:
            return
        if not self._services.admit(key, named):
            _logger.warning(
                "%s is not watched: services.max_services (%d) are already",
                key.text, self._settings.services.max_services,
            )  # fmt: skip
            return
        self._since[key.text] = self._now_ms()
        self._catalog.subscribe(key, self._loop.time())
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_stopped:
            self._is_scheduled = True
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        self._is_scheduled = False
        if self._is_stopped:
            return
        try:
            has_more = self._catalog.work()
        except Exception:  # a defect must not end discovery
            self._counters.count("discovery_failed")
            _logger.exception("a list is not taken in")
            has_more = True
        for slot, is_wanted in self._catalog.take_watches():
            for source in self._sources:
                if is_wanted:
                    source.watch(slot)
                else:
                    source.unwatch(slot)
        if has_more:
            self._schedule()
        self._set_expiry()

    def _set_expiry(self) -> None:
        due = self._catalog.next_expiry()
        if self._expiry is None and due:
            self._expiry = self._loop.call_at(due, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        self._catalog.expire(self._loop.time())
        self._set_expiry()

    def _release_heap(self) -> None:
        self._release = None
        release_heap()

    def _check_idle(self) -> None:
        """Release what was not called for a long time and is not named in the configuration."""
        limit = float(self._settings.services.idle_release)
        now_ms = self._now_ms()
        named = {key.text for key in self._preload}
        for key in self._catalog.services():
            used_ms = max(self._services.last_used_ms(key), self._since[key.text])
            patience = min(limit, EMPTY_RELEASE) if self._catalog.is_vacant(key) else limit
            if key.text not in named and now_ms - used_ms >= patience * 1000:
                self.release(key)
        period = min(MAX_IDLE_PERIOD, max(MIN_IDLE_PERIOD, limit / IDLE_CHECKS))
        self._idle = self._loop.call_later(period, self._check_idle)

    def _now_ms(self) -> int:
        return int((self._loop.time() + self._wall_offset) * 1000)
