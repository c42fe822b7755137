"""The data plane as the rest of the program sees it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Final

from sidecar.balance.pool import DRAINING
from sidecar.dispatch.directory import Directory
from sidecar.model.instance import Instance
from sidecar.protocol.dubbo.frame import FrameReader
from sidecar.protocol.dubbo.session import Liveness, ServerSession
from sidecar.proxy.connector import Connector
from sidecar.proxy.downstream import Downstream
from sidecar.proxy.drain import DONE, SERVE, Drain
from sidecar.proxy.endpoint import Endpoint, EndpointContext
from sidecar.proxy.forwarder import Forwarder, Resolver
from sidecar.proxy.link import FlushQueue
from sidecar.proxy.listener import Listener
from sidecar.proxy.pool import Pool
from sidecar.proxy.settlement import Settlement
from sidecar.proxy.timer import DeadlineTimer
from sidecar.proxy.upstream import Upstream
from sidecar.settings.schema import Settings
from sidecar.telemetry import names
from sidecar.telemetry.counters import Counters

log = logging.getLogger(__name__)

# Heartbeats, idle connections and stalled consumers are looked at this often (s), or four times in
# the shortest of the configured times when that is more often, within reason.
MAX_PERIOD: Final = 1.0
MIN_PERIOD: Final = 0.02
DRAIN_STEP: Final = 0.05


class DataPlane:
    """Listeners, consumer connections, calls and provider connections.

    Made inside the running loop. ``resolver`` is asked to watch services that are called and not
    known; the answer comes through the directory, followed by ``wake``. ``clock`` is monotonic,
    ``wall`` is the time of day, both in seconds; ``draw`` returns random floats in [0, 1).
    """

    def __init__(
        self,
        settings: Settings,
        directory: Directory,
        resolver: Resolver,
        counters: Counters,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._settings: Final = settings
        self._counters: Final = counters
        self._loop: Final = loop
        self._clock: Final = clock
        self._queue: Final = FlushQueue(loop.call_soon)
        self._timer: Final = DeadlineTimer(loop.call_later, clock)
        self._settlement: Final = Settlement(
            self._timer, counters, settings.no_provider_reply == "exception"
        )
        self._connector: Final = Connector(
            loop, self._make_link, float(settings.timeouts.connect), clock, counters
        )
        context = EndpointContext(
            self._settlement, settings.upstream, settings.limits, self._connector.start,
            loop.call_later, clock, draw,
        )  # fmt: skip
        self._pool: Final = Pool(context)
        self._forwarder: Final = Forwarder(
            settings, directory, resolver, self._pool, self._settlement, self._timer, draw,
            wall() - clock(),
        )  # fmt: skip
        self._consumers: Final = self._forwarder.consumers
        self._timer.on_expired = self._forwarder.expired
        context.reroute = self._forwarder.reroute
        self._listeners: Final = [
            Listener(loop, each, self._admit, self._turn_away) for each in settings.listeners
        ]
        self._period: Final = _housekeeping_period(settings)
        self._housekeeping: asyncio.TimerHandle | None = None
        self._drain: Drain | None = None
        self._is_hurried = False

    async def start(self) -> None:
        """Listen on all addresses; raises SidecarError when one cannot be bound."""
        self._keep_house()
        for listener in self._listeners:
            await listener.start()

    async def drain(self) -> None:
        """Serve until consumers are quiet or the grace period ends, then finish what is open."""
        limits = self._settings.drain
        drain = Drain(float(limits.grace), float(limits.idle), self._clock())
        self._drain = drain
        if self._is_hurried:
            drain.hurry(self._clock())
        while True:
            phase = self._step(drain)
            if phase != SERVE:
                self._refuse_new()
            if phase == DONE:
                return
            await asyncio.sleep(DRAIN_STEP)

    def _step(self, drain: Drain) -> int:
        return drain.step(self._clock(), self._forwarder.last_request, self.inflight)

    def hurry(self) -> None:
        """Cut the serving part of a drain short: the second request to end."""
        self._is_hurried = True
        if self._drain is not None:
            self._drain.hurry(self._clock())

    def _refuse_new(self) -> None:
        self._forwarder.is_closing = True
        for listener in self._listeners:
            listener.stop()
        for consumer in list(self._consumers):
            consumer.leave()

    async def stop(self) -> None:
        """End everything now; calls still open end with their consumer's connection."""
        self._refuse_new()
        if self._housekeeping is not None:
            self._housekeeping.cancel()
        for consumer in list(self._consumers):
            self._forwarder.consumer_lost(consumer, self._clock())
            consumer.abort()
        self._pool.close()
        await self._connector.stop()
        self._timer.stop()

    def wake(self, service: str) -> None:
        """Go on with the calls that wait for a service, after ``publish`` or ``fail``."""
        self._forwarder.wake(service, self._clock())

    def addresses_changed(self, gone: Iterable[str], added: Iterable[Instance] = ()) -> None:
        """Note addresses that no service has any more, and instances that were registered."""
        now = self._clock()
        self._pool.retire(gone, now)
        self._pool.add(added, now)

    @property
    def ports(self) -> list[int]:
        """The bound port of each listener, in the order of the settings."""
        return [listener.port for listener in self._listeners]

    @property
    def inflight(self) -> int:
        """Two-way calls that were accepted and not answered yet."""
        return sum(len(each.session) for each in self._consumers)

    @property
    def waiting(self) -> int:
        """Calls that wait for the first list of their service."""
        return len(self._forwarder.waiting)

    @property
    def consumers(self) -> int:
        """Connected consumers."""
        return len(self._consumers)

    @property
    def unavailable(self) -> dict[str, int]:
        """Addresses that get no new calls: DRAINING or BACKING_OFF of ``balance.pool``."""
        return self._pool.unavailable

    def connect_error(self, address: str) -> str:
        """Return why the last attempt to connect to an address failed, empty if it did not."""
        endpoint = self._pool.endpoints.get(address)
        return "" if endpoint is None else endpoint.connect_error

    def draining(self) -> list[str]:
        """Return the addresses whose provider asked for no new calls."""
        return [address for address, state in self.unavailable.items() if state == DRAINING]

    def connections(self) -> dict[str, int]:
        """Return the number of provider connections by state."""
        return self._pool.connections()

    def _turn_away(self) -> None:
        self._counters.count(names.CONSUMERS_CLOSED.name, "other_machine")

    def _admit(self, default_service: str) -> Downstream | None:
        limits = self._settings.limits
        if len(self._consumers) >= limits.max_consumers:
            log.warning("more than %d consumers; a new one is refused", limits.max_consumers)
            self._counters.count(names.CONSUMERS_CLOSED.name, "too_many")
            return None
        downstream = Downstream(
            self._forwarder,
            self._queue,
            self._clock,
            FrameReader(int(limits.max_payload)),
            ServerSession(limits.max_inflight_per_consumer),
            int(limits.consumer_buffer),
            default_service,
        )
        self._consumers.add(downstream)
        return downstream

    def _make_link(self, endpoint: Endpoint) -> Upstream:
        upstream = self._settings.upstream
        limits = self._settings.limits
        liveness = Liveness(endpoint.heartbeat, float(upstream.reconnect_after), self._clock())
        return Upstream(
            endpoint, self._queue, self._clock, self._settlement,
            FrameReader(int(limits.max_payload)), liveness, int(limits.upstream_buffer),
            self._settings.consumer.tag,
        )  # fmt: skip

    def _keep_house(self) -> None:
        # First of all: should a defect strike below, the next round comes all the same.
        self._housekeeping = self._loop.call_later(self._period, self._keep_house)
        now = self._clock()
        self._pool.check(now)
        stall = float(self._settings.limits.consumer_stall)
        for consumer in list(self._consumers):
            consumer.check(now, stall)


def _housekeeping_period(settings: Settings) -> float:
    upstream = settings.upstream
    times = (
        upstream.heartbeat, upstream.reconnect_after, upstream.idle_close,
        settings.limits.consumer_stall,
    )  # fmt: skip
    shortest = min([float(time) for time in times if time > 0], default=MAX_PERIOD)
    return max(MIN_PERIOD, min(MAX_PERIOD, shortest / 4))
