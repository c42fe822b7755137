"""A provider address as Dubbo calls see it: calls share its connections by id."""

from __future__ import annotations

from typing import final

from sidecar.balance.pool import DRAINING
from sidecar.discovery.registration import read_int
from sidecar.model.instance import Instance
from sidecar.proxy.dubbo.downstream import DubboCall
from sidecar.proxy.dubbo.settlement import DubboSettlement
from sidecar.proxy.dubbo.upstream import Upstream, UpstreamOwner
from sidecar.proxy.endpoint import Endpoint, EndpointContext, log


@final
class DubboEndpoint(Endpoint[DubboCall, Upstream], UpstreamOwner):
    """``max_payload`` is the largest request in bytes the provider reads, 0 for no limit."""

    def __init__(
        self,
        instance: Instance,
        context: EndpointContext[DubboCall],
        settlement: DubboSettlement,
    ) -> None:
        self.max_payload = 0
        self._settlement = settlement
        super().__init__(instance, context)

    def learn(self, instance: Instance) -> None:
        """Take over what a registration says of the connections to this address."""
        super().learn(instance)
        self.max_payload = max(0, read_int(instance.parameters.get("payload", ""), 0))

    def offer(self, call: DubboCall, now: float) -> bool:
        """Take a call whose instance lives here; False when it has to go elsewhere."""
        self.last_call = now
        if 0 < self.max_payload < call.size:
            # A Dubbo 2.7 provider answers nothing any more on a connection that brought it too
            # much, and the connection is everybody's.
            self._settlement.refuse_too_large(call, self.max_payload, now)
            return True
        links = self.links
        if not links:
            if call.frame is None or not self.park(call):
                return False
            self.connect(now)
            return True
        link = links[0]
        if self.context.connections > 1:
            link = self._least_pending(now)
        if link.is_full:
            return False
        link.forward(call, now)
        return True

    def _least_pending(self, now: float) -> Upstream:
        """Return the connection with the fewest calls in flight, a full one only as the last."""
        links = self.links
        best = links[0]
        for link in links:
            if not link.is_full and (best.is_full or len(link.session) < len(best.session)):
                best = link
        if len(best.session) > 0 and len(links) < self.context.connections:
            self.add_connection(now)
        return best

    def forward(self, link: Upstream, call: DubboCall, now: float) -> None:
        """Send a call on a connection."""
        link.forward(call, now)

    def take_unsent(self, link: Upstream) -> list[DubboCall]:
        """Hand out the calls that have not left by a connection, and forget them there."""
        return link.take_unsent()

    def take_sent(self, link: Upstream) -> list[DubboCall]:
        """Hand out the calls that have left by a connection, and forget them there."""
        calls = link.session.take_all()
        for call in calls:
            call.session = None
        return calls

    def may_resend(self, call: DubboCall) -> bool:
        """Whether a call may go to another instance although it has left: once, if idempotent."""
        if not call.is_idempotent or call.is_resent or call.frame is None:
            return False
        call.is_resent = True
        return True

    def lost(self, link: Upstream, now: float) -> None:
        """Never use a connection again: unwritten calls go elsewhere, written ones failed."""
        super().lost(link, now)

    def set_draining(self, is_draining: bool, now: float) -> None:
        """Obey READONLY and WRITEABLE; calls not written yet go elsewhere."""
        if not is_draining:
            if self.state == DRAINING:
                self.clear()
            return
        if self.state != DRAINING and not self.is_retired:
            log.info("%s asked for no new calls", self.address)
            self.context.unavailable[self.address] = DRAINING
        for link in self.links:
            self.reroute(link.take_unsent(), now)
