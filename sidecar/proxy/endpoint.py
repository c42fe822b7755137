"""A provider address: its connections, the calls that wait for one, and whether it may be chosen.

States, as the balancer sees them through the shared ``unavailable`` map:

  usable       not in the map; the first call opens a connection and is parked until it stands
  DRAINING     the provider said READONLY; calls in flight finish, others go elsewhere; ended by
               WRITEABLE or a new connection
  BACKING_OFF  the last attempt to connect failed; tried again on a timer, so that no call pays

All services of an address share its connections and its state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, final

from sidecar.balance.pool import BACKING_OFF, DRAINING
from sidecar.discovery.registration import read_int
from sidecar.model import outcome, reason
from sidecar.model.instance import Instance
from sidecar.protocol.dubbo.frame import STATUS_CHANNEL_INACTIVE
from sidecar.proxy.downstream import Call
from sidecar.proxy.settlement import Settlement
from sidecar.proxy.upstream import Upstream, UpstreamOwner
from sidecar.resilience.backoff import backoff
from sidecar.settings.schema import Limits
from sidecar.settings.schema import Upstream as UpstreamSettings

log = logging.getLogger(__name__)

# Calls that wait for the first connection of an address; their bytes are capped by
# ``limits.upstream_buffer``, as they are once the connection stands.
MAX_PARKED: Final = 4096
MIN_HEARTBEAT: Final = 2.0  # seconds; no provider gets us to ask more often


@final
class EndpointContext:
    """What all endpoints share: collaborators, the map of unavailable addresses, and settings.

    ``unavailable`` maps addresses to DRAINING or BACKING_OFF. ``connect`` starts to open a
    connection; ``reroute`` finds another instance for a call and is assigned once, at the start.
    """

    def __init__(
        self,
        settlement: Settlement,
        upstream: UpstreamSettings,
        limits: Limits,
        connect: Callable[[Endpoint], None],
        call_later: Callable[[float, Callable[[], None]], asyncio.TimerHandle],
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self.settlement: Final = settlement
        self.unavailable: Final[dict[str, int]] = {}
        self.connect: Final = connect
        self.reroute: Callable[[Call, float], None] | None = None
        self.call_later: Final = call_later
        self.clock: Final = clock
        self.random: Final = random
        self.connections: Final[int] = upstream.connections
        self.warm: Final[int] = upstream.warm
        self.heartbeat: Final[float] = float(upstream.heartbeat)
        self.idle_close: Final[float] = float(upstream.idle_close)
        self.backoff_min: Final[float] = float(upstream.backoff_min)
        self.backoff_max: Final[float] = float(upstream.backoff_max)
        self.max_bytes: Final[int] = int(limits.upstream_buffer)


@final
class Endpoint(UpstreamOwner):
    """One address. ``links`` are its open connections; a retired one takes no new calls.

    ``heartbeat`` is the silence in seconds after which the provider is asked for a sign of life,
    ``max_payload`` the largest request in bytes it has registered to read, 0 for no limit.
    """

    def __init__(self, instance: Instance, context: EndpointContext) -> None:
        super().__init__(instance.address)
        self.host: Final = instance.host
        self.port: Final = instance.port
        self._context: Final = context
        self.links: list[Upstream] = []
        self.is_connecting = False
        self.is_retired = False
        self.attempted = 0.0  # when the last attempt to connect began
        self.last_call = context.clock()
        self.connect_error = ""  # of the last attempt
        self._failures = 0
        self._not_before = 0.0  # until then nobody asks for more connections
        self._retry: asyncio.TimerHandle | None = None
        self._parked: list[Call] = []
        self._parked_bytes = 0
        self.heartbeat = context.heartbeat
        self.max_payload = 0
        self.learn(instance)

    def learn(self, instance: Instance) -> None:
        """Take over what a registration says of the connections to this address."""
        registered = instance.parameters
        self.heartbeat = self._context.heartbeat
        asked = read_int(registered.get("heartbeat", ""), 0) / 1000
        if 0 < asked < self.heartbeat:
            # Dubbo providers close a connection that is silent for three of their periods.
            self.heartbeat = max(asked, MIN_HEARTBEAT)
        self.max_payload = max(0, read_int(registered.get("payload", ""), 0))

    @property
    def state(self) -> int:
        """DRAINING, BACKING_OFF, or 0 when usable; a retired address has no entry of its own."""
        return 0 if self.is_retired else self._context.unavailable.get(self.address, 0)

    @property
    def parked(self) -> int:
        """The number of calls that wait for a connection."""
        return len(self._parked)

    def offer(self, call: Call, now: float) -> bool:
        """Take a call whose instance lives here; False when it has to go elsewhere."""
        self.last_call = now
        links = self.links
        if not links:
            return self._park(call, now)
        link = links[0]
        if self._context.connections > 1:
            link = self._least_pending(now)
        if link.is_full:
            return False
        link.forward(call, now)
        return True

    def _least_pending(self, now: float) -> Upstream:
        links = self.links
        best = links[0]
        for link in links:
            if len(link.session) < len(best.session):
                best = link
        if len(best.session) > 0 and len(links) < self._context.connections:
            self._add_connection(now)
        return best

    def _park(self, call: Call, now: float) -> bool:
        frame = call.frame
        if frame is None or len(self._parked) >= MAX_PARKED:
            return False
        size = len(frame.raw)
        if self._parked_bytes + size > self._context.max_bytes:
            return False
        self._parked.append(call)
        self._parked_bytes += size
        self._connect(now)
        return True

    def _take_parked(self) -> list[Call]:
        calls = [call for call in self._parked if not call.is_done]
        self._parked = []
        self._parked_bytes = 0
        return calls

    def _add_connection(self, now: float) -> None:
        """Open one that is not urgent: a provider that takes no more of them is left alone."""
        if now >= self._not_before:
            self._connect(now)

    def _connect(self, now: float) -> None:
        if self.is_connecting:
            return
        self._cancel_retry()
        self.is_connecting = True
        self.attempted = now
        self._context.connect(self)

    def connected(self, link: Upstream, now: float) -> None:
        """Use a new connection; it clears whatever was known against the address."""
        self.is_connecting = False
        self._failures = 0
        self.connect_error = ""
        self._clear()
        self.links.append(link)
        for call in self._take_parked():
            link.forward(call, now)

    def connect_failed(self, why: str, now: float) -> None:
        """Leave the address alone for a while and send the waiting calls elsewhere."""
        self.is_connecting = False
        self.connect_error = why
        self._back_off(now)
        for call in self._take_parked():
            self._move(call, now)

    def _back_off(self, now: float) -> None:
        context = self._context
        self._failures += 1
        delay = backoff(self._failures, context.backoff_min, context.backoff_max, context.random())
        self._not_before = now + delay
        if self.is_retired or self.links:
            return
        context.unavailable[self.address] = BACKING_OFF
        self._cancel_retry()
        self._retry = context.call_later(delay, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._connect(self._context.clock())

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def may_be_tried(self, now: float) -> bool:
        """Whether an address in back-off may get a call when nothing else is left."""
        return self.is_connecting or now - self.attempted >= self._context.backoff_min

    def _clear(self) -> None:
        if not self.is_retired:
            self._context.unavailable.pop(self.address, None)

    def reappeared(self, instance: Instance, now: float) -> None:
        """Try at once: the registry says that the provider has just come back."""
        self.learn(instance)
        if self.state == BACKING_OFF:
            self._connect(now)

    def retire(self, now: float) -> None:
        """Take no new calls: the address has left the registry; what is in flight finishes."""
        self._cancel_retry()
        self._clear()
        self.is_retired = True
        self._reroute(self._take_parked(), now)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left here."""
        return not self.links and not self.is_connecting and not self._parked

    def is_unused(self, now: float) -> bool:
        """Whether nobody has wanted this address for long and nothing is left here."""
        context = self._context
        return context.warm == 0 and self.is_over and now - self.last_call >= context.idle_close

    def set_draining(self, is_draining: bool, now: float) -> None:
        """Obey READONLY and WRITEABLE; calls not written yet go elsewhere."""
        if not is_draining:
            if self.state == DRAINING:
                self._clear()
            return
        if self.state != DRAINING and not self.is_retired:
            log.info("%s asked for no new calls", self.address)
            self._context.unavailable[self.address] = DRAINING
        for link in self.links:
            self._reroute(link.take_unsent(), now)

    def lost(self, link: Upstream, now: float) -> None:
        """Never use a connection again: unwritten calls go elsewhere, written ones failed."""
        if link not in self.links:
            return
        self.links.remove(link)
        if self.state == DRAINING and not self.links:
            self._back_off(now)  # it said that it would go
        for call in link.take_unsent():
            self._move(call, now)
        for call in link.session.take_all():
            call.session = None
            self._lose(call, now)

    def _lose(self, call: Call, now: float) -> None:
        if call.is_idempotent and not call.is_resent and call.frame is not None:
            call.is_resent = True
            self._move(call, now)
            return
        self._context.settlement.refuse(
            call, STATUS_CHANNEL_INACTIVE, reason.CONNECTION_LOST,
            f"{self.address} closed the connection", outcome.CONNECTION_LOST, now,
        )  # fmt: skip

    def _move(self, call: Call, now: float) -> None:
        call.leave(self.address)
        self._reroute([call], now)

    def _reroute(self, calls: list[Call], now: float) -> None:
        reroute = self._context.reroute
        if reroute is not None:
            for call in calls:
                reroute(call, now)

    def check(self, now: float) -> None:
        """Do what time asks for: heartbeats, idle closing."""
        context = self._context
        for link in list(self.links):
            idle = now - link.last_call >= context.idle_close and len(self.links) > context.warm
            if (idle or self.is_retired) and link.is_quiet:
                self._close(link)
            else:
                link.check(now)

    def warm_up(self, now: float) -> bool:
        """Begin to open a warm connection that is missing; True when one was begun."""
        if self.is_connecting or self.state != 0 or len(self.links) >= self._context.warm:
            return False
        self._add_connection(now)
        return self.is_connecting

    def _close(self, link: Upstream) -> None:
        self.links.remove(link)
        if self.state == DRAINING and not self.links:
            self._clear()
        link.closed_because = "idle"
        link.close()

    def close(self) -> None:
        """End every connection and timer."""
        self.is_retired = True
        self._cancel_retry()
        for link in list(self.links):
            link.abort()
