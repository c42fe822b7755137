"""A provider address as Triple calls see it: calls are streams, and each connection has a number.

The first connection with a free stream takes a call. When none has one, or all are clogged with
answers that slow consumers do not read, another one is opened, up to a limit; then calls wait for a
stream to end. A connection that the provider is leaving, or that is too old, finishes its streams.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.model.instance import Instance
from sidecar.protocol.http2 import codes
from sidecar.proxy.endpoint import Endpoint, EndpointContext
from sidecar.proxy.triple.exchange import TripleCall
from sidecar.proxy.triple.settlement import TripleSettlement
from sidecar.proxy.triple.upstream import Upstream, UpstreamOwner
from sidecar.telemetry import names

# gRPC servers take pings that come more often for an attack (gRPC A8); Dubbo's do not.
GRPC_HEARTBEAT: Final = 300.0
GRPC: Final = "grpc"  # the URL scheme of providers that may know nothing of Dubbo


@final
class TripleEndpoint(Endpoint[TripleCall, Upstream], UpstreamOwner):
    """``leavers`` are connections that finish their streams and get no new ones."""

    def __init__(
        self,
        instance: Instance,
        context: EndpointContext[TripleCall],
        settlement: TripleSettlement,
        max_connections: int,
    ) -> None:
        self.leavers: Final[list[Upstream]] = []
        self.is_grpc = False
        self._settlement: Final = settlement
        self._max_connections: Final = max_connections
        super().__init__(instance, context)

    def learn(self, instance: Instance) -> None:
        """Take over what a registration says of the connections to this address."""
        super().learn(instance)
        self.is_grpc = instance.protocol == GRPC
        if self.is_grpc:
            self.heartbeat = max(self.heartbeat, GRPC_HEARTBEAT)

    @property
    def open_links(self) -> int:
        """The number of connections, also of those that take no new calls."""
        return len(self.links) + len(self.leavers)

    @property
    def held_bytes(self) -> int:
        """The bytes that wait for a connection, or for the provider to read them."""
        return super().held_bytes + sum([link.held_bytes for link in self.leavers])

    def offer(self, call: TripleCall, now: float) -> bool:
        """Take a call whose instance lives here; False when it has to go elsewhere."""
        self.last_call = now
        link = self._choose(now)
        if link is not None and not self._awaits_better(link) and link.forward(call, now):
            return True
        self._open_another(now)
        return (self.is_connecting or self.may_wait) and self.park(call)

    def wait(self, call: TripleCall) -> bool:
        """Have a call wait for peers that read nothing, since no other instance takes it either."""
        return bool(self.links) and self.park(call)

    def _awaits_better(self, link: Upstream) -> bool:
        return link.is_clogged and self.is_connecting

    def _open_another(self, now: float) -> None:
        """Open a connection for calls that wait, without haste when there are others."""
        if not self.links:
            self.connect(now)
        elif len(self.links) < self._max_connections:
            self.add_connection(now)

    @property
    def may_wait(self) -> bool:
        """Whether a connection will have a free stream: one whose peers read, at least."""
        return any(not link.is_stalled for link in self.links)

    def _choose(self, now: float) -> Upstream | None:
        best: Upstream | None = None
        for link in self.links:
            if link.has_room and (best is None or self._is_better(link, best)):
                best = link
        if best is not None and self._is_worth_another(best):
            self.add_connection(now)
        return best

    def _is_better(self, link: Upstream, best: Upstream) -> bool:
        if link.is_clogged or best.is_clogged:
            return link.unread < best.unread
        return self.context.connections > 1 and len(link.calls) < len(best.calls)

    def _is_worth_another(self, link: Upstream) -> bool:
        count = len(self.links)
        if link.is_clogged:
            return count < self._max_connections
        return count < self.context.connections and len(link.calls) > 0

    def forward(self, link: Upstream, call: TripleCall, now: float) -> None:
        """Send a call on a connection, or have it wait again."""
        if not link.forward(call, now) and not self.park(call):
            self.move(call, now)

    def unpark(self, link: Upstream, now: float) -> None:
        """Send calls that wait, as long as there are streams for them."""
        while link.has_room:
            call = self.next_parked()
            if call is None:
                return
            self.forward(link, call, now)
        if self.parked:
            self._open_another(now)

    def has_room(self, link: Upstream, now: float) -> None:
        """Send calls that wait for a stream."""
        if self.parked and link in self.links and not self._awaits_better(link):
            self.unpark(link, now)

    def connected(self, link: Upstream, now: float) -> None:
        """Use a new connection; those that are too old are replaced by it."""
        if link.is_leaving:
            # GOAWAY was the first word: to dial again at once would lead to the same.
            self.leavers.append(link)
            self.connect_failed("the provider takes no calls", now)
            return
        super().connected(link, now)
        for each in list(self.links):
            if each is not link and each.expires <= now:
                each.leave()

    def connect_failed(self, why: str, now: float) -> None:
        """Use what there is, or send the calls that wait elsewhere."""
        super().connect_failed(why, now)
        link = self._choose(now) if self.parked else None
        if link is not None:
            self.unpark(link, now)

    def leaving(self, link: Upstream, now: float) -> None:
        """Give a connection no further calls."""
        if link in self.links:
            self.links.remove(link)
            self.leavers.append(link)
            if self.parked and not self.links:
                self.connect(now)

    def lost(self, link: Upstream, now: float) -> None:
        """Never use a connection again: unwritten calls go elsewhere, written ones failed."""
        if link in self.leavers:
            self.leavers.remove(link)
            self.give_back(link, now)
        else:
            super().lost(link, now)
            if self.parked and not self.links:
                self.connect(now)

    def refused(self, call: TripleCall, now: float) -> None:
        """Find another instance for a call that the provider did not process.

        The same one is asked again if there is no other, but once: it refuses because it has enough
        to do.
        """
        if call.tried is not None and self.address in call.tried:
            self._settlement.reset_by_provider(call, codes.REFUSED_STREAM, now)
            return
        self._settlement.count(names.RETRIES, "refused")
        self.move(call, now)

    def take_unsent(self, link: Upstream) -> list[TripleCall]:
        """Hand out the calls that have not left by a connection, and forget them there."""
        return link.take_calls(False)

    def take_sent(self, link: Upstream) -> list[TripleCall]:
        """Hand out the calls that have left by a connection, and forget them there."""
        return link.take_calls(True)

    def may_resend(self, call: TripleCall) -> bool:
        """Whether a call may go to another instance although it has left: once, if idempotent."""
        if not call.is_idempotent or call.is_resent or not call.may_replay or call.has_begun:
            return False
        call.is_resent = True
        self._settlement.count(names.RETRIES, "idempotent")
        return True

    def check(self, now: float) -> None:
        """Do what time asks for: pings, idle closing, replacing old connections.

        Calls that wait for a provider which stands still meanwhile go elsewhere.
        """
        super().check(now)
        for link in list(self.leavers):
            if link.is_quiet:
                self.leavers.remove(link)
                link.closed_because = "left"
                link.close()
            else:
                link.check(now)
        if self.parked and not self.is_connecting and not self.may_wait:
            for call in self._take_parked():
                self.move(call, now)
        if not self.is_retired and any(link.expires <= now for link in self.links):
            self.add_connection(now)

    def close(self) -> None:
        """End every connection and timer."""
        super().close()
        for link in list(self.leavers):
            link.abort()
