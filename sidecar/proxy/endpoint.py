"""A provider address: its connections, the calls that wait for one, and whether it may be chosen.

States, as the balancer sees them through the shared ``unavailable`` map:

  usable       not in the map; the first call opens a connection and is parked until it stands
  DRAINING     the provider asked for no new calls; calls in flight finish, others go elsewhere;
               ended by its word or by a new connection
  BACKING_OFF  the last attempt to connect failed; tried again on a timer, so that no call pays

All services of an address share its connections and its state. How calls travel on a connection is
for the protocols to say: each has its own kind of endpoint.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from sidecar.balance.pool import BACKING_OFF, DRAINING
from sidecar.discovery.registration import read_int
from sidecar.model.instance import Instance
from sidecar.proxy.call import Call
from sidecar.proxy.link import FlushQueue, Link
from sidecar.proxy.settlement import Settlement
from sidecar.resilience.backoff import backoff
from sidecar.settings.schema import Limits
from sidecar.settings.schema import Upstream as UpstreamSettings

log = logging.getLogger(__name__)

# Calls that wait for the first connection of an address; their bytes are capped by
# ``limits.upstream_buffer``, as they are once the connection stands.
MAX_PARKED: Final = 4096
MIN_HEARTBEAT: Final = 2.0  # seconds; no provider gets us to ask more often


class ProviderLink(Link):
    """What all provider connections have; ``last_call`` is in seconds of the monotonic clock."""

    def __init__(self, queue: FlushQueue, now: float) -> None:
        super().__init__(queue)
        self.last_call = now
        self.closed_because = "peer"  # word of the counter

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is in flight in either direction."""
        raise NotImplementedError

    async def greeted(self) -> str:
        """Wait until the provider can be given calls; return why it cannot, "" when it can."""
        return "closed at once" if self.is_closed else ""

    def check(self, now: float) -> None:
        """Ask a silent provider for a sign of life, or give it up; called now and then."""
        raise NotImplementedError


C = TypeVar("C", bound=Call)
L = TypeVar("L", bound=ProviderLink)


class EndpointContext(Generic[C]):
    """What all endpoints of a protocol share: collaborators, unavailable addresses, settings.

    ``unavailable`` maps addresses to DRAINING or BACKING_OFF. ``connect`` starts to open a
    connection of an endpoint; it and ``reroute``, which finds another instance for a call, are
    assigned once, at the start.
    """

    def __init__(
        self,
        settlement: Settlement[C],
        upstream: UpstreamSettings,
        limits: Limits,
        call_later: Callable[[float, Callable[[], None]], asyncio.TimerHandle],
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self.settlement: Final = settlement
        self.unavailable: Final[dict[str, int]] = {}
        self.connect: Callable[[Endpoint[C, ProviderLink]], None] | None = None
        self.reroute: Callable[[C, float], None] | None = None
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


class Endpoint(Generic[C, L]):
    """One address. ``links`` are its open connections; a retired one takes no new calls.

    ``heartbeat`` is the silence in seconds after which the provider is asked for a sign of life.
    """

    def __init__(self, instance: Instance, context: EndpointContext[C]) -> None:
        self.address: Final = instance.address
        self.host: Final = instance.host
        self.port: Final = instance.port
        self.context: Final = context
        self.links: list[L] = []
        self.is_connecting = False
        self.is_retired = False
        self.attempted = 0.0  # when the last attempt to connect began
        self.last_call = context.clock()
        self.connect_error = ""  # of the last attempt
        self.heartbeat = context.heartbeat
        self.is_tls = False  # the registration says that this port speaks TLS
        self._failures = 0
        self._not_before = 0.0  # until then nobody asks for more connections
        self._retry: asyncio.TimerHandle | None = None
        self._parked: Final[OrderedDict[C, int]] = OrderedDict()  # with the size of each
        self._parked_bytes = 0
        self.learn(instance)

    def learn(self, instance: Instance) -> None:
        """Take over what a registration says of the connections to this address."""
        self.is_tls = instance.parameters.get("ssl-enabled", "").lower() == "true"
        self.heartbeat = self.context.heartbeat
        asked = read_int(instance.parameters.get("heartbeat", ""), 0) / 1000
        if 0 < asked < self.heartbeat:
            # Dubbo providers close a connection that is silent for three of their periods.
            self.heartbeat = max(asked, MIN_HEARTBEAT)

    def offer(self, call: C, now: float) -> bool:
        """Take a call whose instance lives here; False when it has to go elsewhere."""
        raise NotImplementedError

    def wait(self, call: C) -> bool:
        """Have a call wait that was offered before, since no other instance takes it either."""
        return False

    def forward(self, link: L, call: C, now: float) -> None:
        """Send a call on a connection."""
        raise NotImplementedError

    def take_unsent(self, link: L) -> list[C]:
        """Hand out the calls that have not left by a connection, and forget them there."""
        raise NotImplementedError

    def take_sent(self, link: L) -> list[C]:
        """Hand out the calls that have left by a connection, and forget them there."""
        raise NotImplementedError

    def may_resend(self, call: C) -> bool:
        """Whether a call may go to another instance although it has left."""
        raise NotImplementedError

    @property
    def state(self) -> int:
        """DRAINING, BACKING_OFF, or 0 when usable; a retired address has no entry of its own."""
        return 0 if self.is_retired else self.context.unavailable.get(self.address, 0)

    @property
    def parked(self) -> int:
        """The number of calls that wait for a connection."""
        return len(self._parked)

    @property
    def open_links(self) -> int:
        """The number of connections, also of those that take no new calls."""
        return len(self.links)

    @property
    def held_bytes(self) -> int:
        """The bytes that wait for a connection, or for the provider to read them."""
        return self._parked_bytes + sum([link.held_bytes for link in self.links])

    def park(self, call: C) -> bool:
        """Have a call wait for a connection; False when too many wait."""
        size = call.held_bytes
        if len(self._parked) >= MAX_PARKED or self._parked_bytes + size > self.context.max_bytes:
            return False
        self._parked[call] = size
        self._parked_bytes += size
        return True

    def withdraw(self, call: C) -> None:
        """Forget a call that waits for a connection and is given up: others need its place."""
        size = self._parked.pop(call, 0)
        self._parked_bytes -= size

    def next_parked(self) -> C | None:
        """Hand out the call that has waited longest, None when no call waits."""
        while self._parked:
            call, size = self._parked.popitem(last=False)
            self._parked_bytes -= size
            if not call.is_done:
                return call
        return None

    def _take_parked(self) -> list[C]:
        calls = [call for call in self._parked if not call.is_done]
        self._parked.clear()
        self._parked_bytes = 0
        return calls

    def add_connection(self, now: float) -> None:
        """Open one that is not urgent: a provider that takes no more of them is left alone."""
        if now >= self._not_before:
            self.connect(now)

    def connect(self, now: float) -> None:
        """Begin to open a connection, unless that is under way."""
        connect = self.context.connect
        if self.is_connecting or connect is None:
            return
        self._cancel_retry()
        self.is_connecting = True
        self.attempted = now
        connect(self)  # type: ignore[arg-type]  # the connector asks for nothing that differs

    def connected(self, link: L, now: float) -> None:
        """Use a new connection; it clears whatever was known against the address."""
        self.is_connecting = False
        self._failures = 0
        self.connect_error = ""
        self.clear()
        self.links.append(link)
        self.unpark(link, now)

    def unpark(self, link: L, now: float) -> None:
        """Send the calls that wait on a connection."""
        for call in self._take_parked():
            self.forward(link, call, now)

    def connect_failed(self, why: str, now: float) -> None:
        """Leave the address alone for a while; calls that cannot wait here go elsewhere."""
        self.is_connecting = False
        self.connect_error = why
        self.back_off(now)
        if not self.may_wait:
            for call in self._take_parked():
                self.move(call, now)

    @property
    def may_wait(self) -> bool:
        """Whether calls may wait here although no further connection can be had."""
        return False

    def back_off(self, now: float) -> None:
        """Choose this address for no call, and try again after a while."""
        context = self.context
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
        self.connect(self.context.clock())

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def may_be_tried(self, now: float) -> bool:
        """Whether an address in back-off may get a call when nothing else is left."""
        return self.is_connecting or now - self.attempted >= self.context.backoff_min

    def clear(self) -> None:
        """Let the address be chosen again."""
        if not self.is_retired:
            self.context.unavailable.pop(self.address, None)

    def reappeared(self, instance: Instance, now: float) -> None:
        """Try at once: the registry says that the provider has just come back."""
        self.learn(instance)
        if self.state == BACKING_OFF:
            self.connect(now)

    def retire(self, now: float) -> None:
        """Take no new calls: the address has left the registry; what is in flight finishes."""
        self._cancel_retry()
        self.clear()
        self.is_retired = True
        self.reroute(self._take_parked(), now)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left here."""
        return self.open_links == 0 and not self.is_connecting and not self._parked

    def is_unused(self, now: float) -> bool:
        """Whether nobody has wanted this address for long and nothing is left here."""
        context = self.context
        return context.warm == 0 and self.is_over and now - self.last_call >= context.idle_close

    def lost(self, link: L, now: float) -> None:
        """Never use a connection again: unwritten calls go elsewhere, written ones failed."""
        if link not in self.links:
            return
        self.links.remove(link)
        if self.state == DRAINING and not self.links:
            self.back_off(now)  # it said that it would go
        self.give_back(link, now)

    def give_back(self, link: L, now: float) -> None:
        """Find another place for the calls of a connection that is gone, or end them."""
        for call in self.take_unsent(link):
            self.move(call, now)
        for call in self.take_sent(link):
            if self.may_resend(call):
                self.move(call, now)
            else:
                self.context.settlement.lose(call, self.address, now)

    def move(self, call: C, now: float) -> None:
        """Send a call to another instance, and never here again."""
        call.leave(self.address)
        self.reroute([call], now)

    def reroute(self, calls: list[C], now: float) -> None:
        """Let calls be routed again; this address may be chosen again."""
        reroute = self.context.reroute
        if reroute is not None:
            for call in calls:
                reroute(call, now)

    def check(self, now: float) -> None:
        """Do what time asks for: heartbeats, idle closing."""
        context = self.context
        for link in list(self.links):
            idle = now - link.last_call >= context.idle_close and len(self.links) > context.warm
            if (idle or self.is_retired) and link.is_quiet:
                self._close(link)
            else:
                link.check(now)

    def warm_up(self, now: float) -> bool:
        """Begin to open a warm connection that is missing; True when one was begun."""
        if self.is_connecting or self.state != 0 or len(self.links) >= self.context.warm:
            return False
        self.add_connection(now)
        return self.is_connecting

    def _close(self, link: L) -> None:
        self.links.remove(link)
        if self.state == DRAINING and not self.links:
            self.clear()
        link.closed_because = "idle"
        link.close()

    def close(self) -> None:
        """End every connection and timer."""
        self.is_retired = True
        self._cancel_retry()
        for link in list(self.links):
            link.abort()
