"""The data plane as the rest of the program sees it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from sidecar.balance.pool import DRAINING
from sidecar.dispatch.directory import Directory
from sidecar.model.errors import SidecarError
from sidecar.model.instance import Instance
from sidecar.model.protocol import EVERY
from sidecar.protocol.detect import DUBBO, HTTP1, HTTP2
from sidecar.proxy.detect import Entrance, Lobby, Make
from sidecar.proxy.drain import DONE, SERVE, Drain
from sidecar.proxy.dubbo.engine import DubboEngine
from sidecar.proxy.engine import Engine, Tools
from sidecar.proxy.link import FlushQueue
from sidecar.proxy.listener import Listener
from sidecar.proxy.tls import TlsFileError, listener_context
from sidecar.proxy.triple.engine import TripleEngine
from sidecar.proxy.walk import Resolver
from sidecar.settings.schema import Listener as ListenerSettings
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

    Made inside the running loop; raises SidecarError when a file for TLS cannot be used.
    ``resolver`` is asked to watch services that are called and not known; the answer comes through
    the directory, followed by ``wake``. ``clock`` is monotonic, ``wall`` is the time of day, both
    in seconds; ``draw`` returns random floats in [0, 1).
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
        tools = Tools(
            settings, directory, resolver, counters, loop, FlushQueue(loop.call_soon), clock, wall,
            draw,
        )  # fmt: skip
        self._dubbo: Final = DubboEngine(tools)
        self._triple: Final = TripleEngine(tools)
        self._engines: Final[tuple[Engine[Any], ...]] = (self._dubbo, self._triple)
        self._lobby: Final = Lobby(loop, clock, counters, float(settings.http2.slow_header))
        self._listeners: Final = [self._listener(each) for each in settings.listeners]
        self._period: Final = _housekeeping_period(settings)
        self._housekeeping: asyncio.TimerHandle | None = None
        self._drain: Drain | None = None
        self._is_hurried = False

    def _listener(self, settings: ListenerSettings) -> Listener:
        try:
            context = listener_context(settings)
        except TlsFileError as error:
            raise SidecarError(f"cannot listen on {settings.address}: {error}") from error
        makers: dict[str, Make] = {}
        if settings.protocol != "triple":
            makers[DUBBO] = self._dubbo.admit
        if settings.protocol != "dubbo":
            makers |= {HTTP2: self._triple.admit, HTTP1: self._triple.admit_http1}
        entrance = Entrance(settings, makers, context)
        return Listener(self._loop, settings, partial(self._admit, entrance), self._turn_away)

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
        last_request = max(each.last_request for each in self._engines)
        unfinished = sum(each.unfinished for each in self._engines)
        return drain.step(self._clock(), last_request, unfinished)

    def hurry(self) -> None:
        """Cut the serving part of a drain short: the second signal to end."""
        self._is_hurried = True
        if self._drain is not None:
            self._drain.hurry(self._clock())

    def _refuse_new(self) -> None:
        for listener in self._listeners:
            listener.stop()
        self._lobby.close()
        for engine in self._engines:
            engine.refuse_new()

    async def stop(self) -> None:
        """End everything now; calls still open end with their consumer's connection."""
        self._refuse_new()
        if self._housekeeping is not None:
            self._housekeeping.cancel()
        await self._lobby.stop()
        for engine in self._engines:
            await engine.stop()

    def wake(self, service: str) -> None:
        """Go on with the calls that wait for a service, after ``publish`` or ``fail``."""
        now = self._clock()
        for engine in self._engines:
            engine.wake(service, now)

    def addresses_changed(
        self, gone: Iterable[str], added: Iterable[Instance] = (), protocols: int = EVERY
    ) -> None:
        """Note where no service speaks the protocols any more, and instances that were registered.

        A protocol without a listener hears nothing: its calls cannot come, and connections kept
        warm for it would be for nobody.
        """
        now = self._clock()
        left, come = list(gone), list(added)
        served = {each.protocol for each in self._settings.listeners}
        for engine in self._engines:
            if engine.bit & protocols and not served.isdisjoint((engine.protocol, "auto")):
                engine.addresses_changed(left, come, now)

    @property
    def ports(self) -> list[int]:
        """The bound port of each listener, in the order of the settings; 0 for a Unix socket."""
        return [listener.port for listener in self._listeners]

    @property
    def addresses(self) -> list[str]:
        """Where consumers call: the address of each listener with its bound port."""
        return [listener.address for listener in self._listeners]

    @property
    def inflight(self) -> int:
        """Calls that were accepted and are awaited, over all protocols."""
        return sum(each.inflight for each in self._engines)

    @property
    def consumers(self) -> int:
        """Connected consumers, also those whose protocol is not known yet."""
        return len(self._lobby) + sum(len(each.consumers) for each in self._engines)

    @property
    def waiting(self) -> int:
        """Calls that wait for the first list of their service."""
        return sum(each.waiting for each in self._engines)

    def by_protocol(self, fact: Callable[[Engine[Any]], int]) -> dict[str, int]:
        """Return a number of each engine under the word of its protocol."""
        return {each.protocol: fact(each) for each in self._engines}

    def unavailable(self, protocol: int) -> dict[str, int]:
        """Addresses that get no new calls: DRAINING or BACKING_OFF of ``balance.pool``.

        ``protocol`` is a constant of ``model.protocol``.
        """
        return next((each.unavailable for each in self._engines if each.bit == protocol), {})

    def connect_error(self, address: str) -> str:
        """Return why the last attempt to connect to an address failed, empty if it did not."""
        return next(filter(None, (each.connect_error(address) for each in self._engines)), "")

    def draining(self) -> list[str]:
        """Return the addresses whose provider asked for no new calls."""
        return [
            address
            for engine in self._engines
            for address, state in engine.unavailable.items()
            if state == DRAINING
        ]

    def connections(self) -> dict[str, int]:
        """Return the number of provider connections by state."""
        states: dict[str, int] = {}
        for engine in self._engines:
            for word, count in engine.connections().items():
                states[word] = states.get(word, 0) + count
        return states

    def _turn_away(self) -> None:
        self._counters.count(names.CONSUMERS_CLOSED.name, "other_machine")

    def _admit(self, entrance: Entrance) -> asyncio.BaseProtocol | None:
        most = self._settings.limits.max_consumers
        if self.consumers >= most:
            log.warning("more than %d consumers; a new one is refused", most)
            self._counters.count(names.CONSUMERS_CLOSED.name, "too_many")
            return None
        return entrance.accept(self._lobby)

    def _keep_house(self) -> None:
        # First of all: should a defect strike below, the next round comes all the same.
        self._housekeeping = self._loop.call_later(self._period, self._keep_house)
        now = self._clock()
        self._lobby.check(now)
        for engine in self._engines:
            engine.check(now)


def _housekeeping_period(settings: Settings) -> float:
    upstream = settings.upstream
    times = (
        upstream.heartbeat, upstream.reconnect_after, upstream.idle_close,
        settings.limits.consumer_stall, settings.http2.slow_header,
    )  # fmt: skip
    shortest = min([float(time) for time in times if time > 0], default=MAX_PERIOD)
    return max(MIN_PERIOD, min(MAX_PERIOD, shortest / 4))
