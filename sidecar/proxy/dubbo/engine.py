"""The Dubbo TCP side, put together."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sidecar.model import protocol
from sidecar.model.instance import Instance
from sidecar.model.service import ServiceKey
from sidecar.protocol.dubbo.frame import FrameReader
from sidecar.protocol.dubbo.session import ServerSession
from sidecar.proxy.connector import Connector
from sidecar.proxy.dubbo.downstream import Downstream, DubboCall
from sidecar.proxy.dubbo.endpoint import DubboEndpoint
from sidecar.proxy.dubbo.forwarder import Forwarder
from sidecar.proxy.dubbo.settlement import PROTOCOL, DubboSettlement
from sidecar.proxy.dubbo.upstream import Upstream
from sidecar.proxy.endpoint import EndpointContext
from sidecar.proxy.engine import Engine, Tools
from sidecar.proxy.pool import Pool
from sidecar.proxy.tls import ProviderTls
from sidecar.resilience.liveness import Liveness
from sidecar.settings.schema import Listener


class DubboEngine(Engine[DubboCall]):
    """Consumers and providers that speak Dubbo TCP."""

    def __init__(self, tools: Tools) -> None:
        settings = tools.settings
        surroundings = tools.surroundings()
        self._settlement: Final = DubboSettlement(
            surroundings.timer, tools.counters, settings.no_provider_reply == "exception"
        )
        context: EndpointContext[DubboCall] = EndpointContext(
            self._settlement, settings.upstream, settings.limits, tools.loop.call_later,
            tools.clock, tools.draw,
        )  # fmt: skip
        self._context: Final = context
        pool: Pool[DubboCall] = Pool(context, self._make_endpoint)
        self._forwarder: Final = Forwarder(surroundings, pool, self._settlement)
        surroundings.timer.on_expired = self._forwarder.expired
        context.reroute = self._forwarder.walk.reroute
        connector = Connector(
            tools.loop, self._make_link, float(settings.timeouts.connect), tools.clock,
            tools.counters, ProviderTls(settings.upstream.tls, ""),
        )  # fmt: skip
        context.connect = connector.start
        super().__init__(
            tools, PROTOCOL, protocol.DUBBO, self._forwarder.walk, connector,
            self._forwarder.consumers,
        )  # fmt: skip

    @property
    def last_request(self) -> float:
        """When the last request of any consumer came, connected or not; 0 before the first."""
        requests = [each.last_request for each in self.consumers]
        return max([*requests, self._forwarder.last_of_gone])

    def admit(self, listener: Listener) -> asyncio.BaseProtocol:
        """Return the protocol object of a consumer that has just connected."""
        limits = self._tools.settings.limits
        service = listener.default_service
        downstream = Downstream(
            self._forwarder,
            self._tools.queue,
            self._tools.clock,
            FrameReader(int(limits.max_payload)),
            ServerSession(limits.max_inflight_per_consumer),
            int(limits.consumer_buffer),
            ServiceKey.parse(service).text if service else "",
        )
        self.consumers.add(downstream)
        # Compiled classes cannot inherit from asyncio's; loops call the methods by name.
        return downstream  # type: ignore[return-value]

    def give_up(self, consumer: Any) -> None:
        """End the calls of a consumer that is gone."""
        self._forwarder.consumer_lost(consumer, self._tools.clock())

    def _make_endpoint(self, instance: Instance) -> DubboEndpoint:
        return DubboEndpoint(instance, self._context, self._settlement)

    def _make_link(self, endpoint: Any) -> Upstream:
        tools = self._tools
        settings = tools.settings
        liveness = Liveness(
            endpoint.heartbeat, float(settings.upstream.reconnect_after), tools.clock()
        )
        return Upstream(
            endpoint, endpoint.address, tools.queue, tools.clock, self._settlement,
            FrameReader(int(settings.limits.max_payload)), liveness,
            int(settings.limits.upstream_buffer), settings.consumer.tag,
        )  # fmt: skip
