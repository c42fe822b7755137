"""The Triple side, put together."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sidecar.model import protocol
from sidecar.model.instance import Instance
from sidecar.protocol.http1.session import ServerSession
from sidecar.protocol.http2.limits import SessionLimits
from sidecar.protocol.http2.session import Session
from sidecar.proxy.connector import Connector
from sidecar.proxy.endpoint import EndpointContext
from sidecar.proxy.engine import Engine, Tools
from sidecar.proxy.pool import Pool
from sidecar.proxy.tls import HTTP2, ProviderTls
from sidecar.proxy.triple.downstream import Downstream, Patience
from sidecar.proxy.triple.endpoint import TripleEndpoint
from sidecar.proxy.triple.exchange import TripleCall
from sidecar.proxy.triple.forwarder import Forwarder
from sidecar.proxy.triple.http1 import Http1Downstream
from sidecar.proxy.triple.paths import Paths
from sidecar.proxy.triple.settlement import PROTOCOL, TripleSettlement
from sidecar.proxy.triple.upstream import Manner, Upstream
from sidecar.resilience.liveness import Liveness
from sidecar.settings.schema import Listener, Settings

NEVER: Final = float("inf")
# Connections that were opened together, after a restart of a provider, are not replaced together.
AGE_SPREAD: Final = 0.1


def session_limits(settings: Settings) -> SessionLimits:
    """Return what one HTTP/2 connection may cost."""
    http2 = settings.http2
    return SessionLimits(
        header_size=int(http2.header_size),
        header_count=http2.header_count,
        continuations=http2.continuations,
        resets=http2.resets,
        control_frames=http2.control_frames,
        stream_window=int(http2.stream_window),
        connection_window=int(http2.connection_window),
        max_streams=settings.limits.max_inflight_per_consumer,
    )


class TripleEngine(Engine[TripleCall]):
    """Consumers and providers that speak HTTP/2."""

    def __init__(self, tools: Tools) -> None:
        settings = tools.settings
        surroundings = tools.surroundings()
        self._limits: Final = session_limits(settings)
        http2 = settings.http2
        self._patience: Final = Patience(
            float(http2.slow_header), float(http2.idle), int(http2.replay)
        )
        self._manner: Final = Manner(
            settings.consumer.tag,
            settings.upstream.authority == "instance",
            int(http2.connection_window) // 4,
            int(http2.replay),
        )
        self._settlement: Final = TripleSettlement(surroundings.timer, tools.counters, tools.clock)
        context: EndpointContext[TripleCall] = EndpointContext(
            self._settlement, settings.upstream, settings.limits, tools.loop.call_later,
            tools.clock, tools.draw,
        )  # fmt: skip
        self._context: Final = context
        pool: Pool[TripleCall] = Pool(context, self._make_endpoint)
        self._forwarder: Final = Forwarder(
            surroundings, pool, self._settlement, self._limits,
            int(settings.timeouts.longest * 1000),
        )  # fmt: skip
        surroundings.timer.on_expired = self._forwarder.expired
        context.reroute = self._forwarder.walk.reroute
        connector = Connector(
            tools.loop, self._make_link, float(settings.timeouts.connect), tools.clock,
            tools.counters, ProviderTls(settings.upstream.tls, HTTP2),
        )  # fmt: skip
        context.connect = connector.start
        super().__init__(
            tools, PROTOCOL, protocol.TRIPLE, self._forwarder.walk, connector,
            self._forwarder.consumers,
        )  # fmt: skip

    @property
    def last_request(self) -> float:
        """When the last request of any consumer came, connected or not; 0 before the first."""
        requests = [each.last_request for each in self.consumers]
        return max([*requests, self._forwarder.last_of_gone])

    def admit(self, listener: Listener) -> asyncio.BaseProtocol:
        """Return the protocol object of a consumer that has just connected."""
        tools = self._tools
        downstream = Downstream(
            self._forwarder, tools.queue, tools.clock, Session(True, self._limits),
            self._patience, Paths(listener.paths, listener.default_service),
        )  # fmt: skip
        self.consumers.add(downstream)
        # Compiled classes cannot inherit from asyncio's; loops call the methods by name.
        return downstream  # type: ignore[return-value]

    def admit_http1(self, listener: Listener) -> asyncio.BaseProtocol:
        """Return the protocol object of a consumer that speaks HTTP/1.1."""
        tools = self._tools
        scheme = b"http" if listener.tls is None else b"https"
        downstream = Http1Downstream(
            self._forwarder, tools.queue, tools.clock, ServerSession(self._limits, scheme),
            self._patience, Paths(listener.paths, listener.default_service),
            int(tools.settings.http2.stream_window),
        )  # fmt: skip
        self.consumers.add(downstream)
        return downstream  # type: ignore[return-value]

    def wake(self, service: str, now: float) -> None:
        """Go on with the calls that wait for a service, and tell who watches its health."""
        super().wake(service, now)
        self._forwarder.desk.wake(service)

    @property
    def unfinished(self) -> int:
        """What a process that ends waits for; who watches the health of services only listens."""
        return super().unfinished - len(self._forwarder.desk)

    def check(self, now: float) -> None:
        """Do what time asks for; called about once a second."""
        super().check(now)
        self._forwarder.desk.keep_watched(now)

    def refuse_new(self) -> None:
        """Take no new calls; those in flight finish."""
        self._forwarder.desk.close(self._tools.clock())
        super().refuse_new()

    def give_up(self, consumer: Any) -> None:
        """End the calls of a consumer that is gone."""
        consumer.drop_calls()

    def _make_endpoint(self, instance: Instance) -> TripleEndpoint:
        most = self._tools.settings.upstream.max_connections
        return TripleEndpoint(instance, self._context, self._settlement, most)

    def _make_link(self, endpoint: Any) -> Upstream:
        tools = self._tools
        upstream = tools.settings.upstream
        now = tools.clock()
        # The time to answer a ping is the same for all; how long silence lasts before it is not.
        patience = float(upstream.reconnect_after) - float(upstream.heartbeat)
        liveness = Liveness(endpoint.heartbeat, endpoint.heartbeat + patience, now)
        return Upstream(
            endpoint, endpoint.address, tools.queue, tools.clock, self._settlement,
            Session(False, self._limits), liveness, not endpoint.is_grpc, self._manner,
            self._expiry(now),
        )  # fmt: skip

    def _expiry(self, now: float) -> float:
        age = float(self._tools.settings.upstream.max_age)
        if age <= 0:
            return NEVER
        return now + age * (1 + AGE_SPREAD * (2 * self._tools.draw() - 1))
