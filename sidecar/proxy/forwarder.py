"""The walk of a call: request in, instance chosen, request out; one synchronous function.

    receive -> call -> route -> pick -> forward

A call whose service is not watched yet waits for the registry; one that a connection gave back
takes the walk again, with the addresses it was at left out. Every other way ends in the settlement.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol, final

from sidecar.balance.pool import DRAINING
from sidecar.dispatch.directory import Directory, Service
from sidecar.dispatch.dispatcher import decide
from sidecar.model import outcome, reason
from sidecar.model.errors import CodecError
from sidecar.model.instance import Instance
from sidecar.protocol.dubbo.frame import (
    STATUS_BAD_REQUEST,
    STATUS_POOL_EXHAUSTED,
    STATUS_SERVER_ERROR,
    Frame,
)
from sidecar.protocol.dubbo.message import RequestReader
from sidecar.proxy.downstream import Call, Downstream, RequestHandler
from sidecar.proxy.policy import CallPolicies
from sidecar.proxy.pool import Pool
from sidecar.proxy.settlement import PROTOCOL, Settlement
from sidecar.proxy.timer import DeadlineTimer
from sidecar.proxy.waiting import WaitingCalls
from sidecar.resilience.deadlines import Timed
from sidecar.settings.schema import Settings
from sidecar.telemetry import names
from sidecar.telemetry.counters import OTHER_METHOD_LABEL

log = logging.getLogger(__name__)

# A call that finds one dead or full address after the other stops here, whatever the number of
# instances: when all of a large fleet is out of reach, each call would cost a walk over all of it.
# Each dead address is left alone by later calls, so only the first after an outage ever come near.
MAX_ATTEMPTS: Final = 8


class Resolver(Protocol):
    """Whoever watches registries on behalf of the calls."""

    def resolve(self, service: str) -> None:
        """Begin to watch a service, whose text is from the wire.

        The directory has the service when this returns, unless it may not be watched.
        """


@final
class Forwarder(RequestHandler):
    """Routes the calls of all consumers. ``wall_offset`` turns the clock into epoch seconds."""

    def __init__(
        self,
        settings: Settings,
        directory: Directory,
        resolver: Resolver,
        pool: Pool,
        settlement: Settlement,
        timer: DeadlineTimer,
        random: Callable[[], float],
        wall_offset: float,
    ) -> None:
        self._directory: Final = directory
        self._resolver: Final = resolver
        self._pool: Final = pool
        self._settlement: Final = settlement
        self._timer: Final = timer
        self._random: Final = random
        self._wall_offset_ms: Final = int(wall_offset * 1000)
        self._reader: Final = RequestReader()
        self._default_tag: Final = settings.consumer.tag
        self._on_demand: Final = settings.services.on_demand
        self._wait_ms: Final = int(settings.services.wait * 1000)
        self._policies: Final = CallPolicies(settings)
        self.waiting: Final = WaitingCalls(settings.services.max_waiting)
        self.consumers: Final[set[Downstream]] = set()
        self._last_of_gone = 0.0  # when a consumer that has left asked last
        self.is_closing = False

    @property
    def last_request(self) -> float:
        """When the last request of any consumer came, connected or not; 0 before the first."""
        return max([each.last_request for each in self.consumers] + [self._last_of_gone])

    def request(self, downstream: Downstream, frame: Frame, now: float) -> None:
        """Take a request from a consumer's connection."""
        if frame.oversize:
            self._settlement.refuse_oversize(downstream, frame)
            return
        try:
            head = self._reader.read(frame)
        except CodecError as error:
            self._settlement.refuse_undecodable(downstream, frame, str(error))
            return
        call = Call(downstream, frame, head, now)
        if self._may_enter(call, now):
            self._route(call, now)

    def _may_enter(self, call: Call, now: float) -> bool:
        """Refuse what is not forwarded whatever its service."""
        head = call.head
        if call.is_two_way and not call.downstream.session.admit(call):
            self._settlement.refuse_overload(call, "too many calls of this consumer in flight", now)
        elif self.is_closing:
            self._refuse_late(call, now)
        elif head.has_callback:
            self._settlement.refuse(
                call, STATUS_BAD_REQUEST, reason.UNSUPPORTED,
                "callback parameters do not work through the sidecar", outcome.REJECTED, now,
            )  # fmt: skip
        elif not head.is_readable and not call.service_name:
            self._settlement.count(names.UNPARSED, str(call.serialization))
            self._settlement.refuse(
                call, STATUS_BAD_REQUEST, reason.UNSUPPORTED,
                f"serialization {call.serialization} is not understood", outcome.CODEC_ERROR, now,
            )  # fmt: skip
        else:
            return True
        return False

    def _route(self, call: Call, now: float) -> None:
        service = self._directory.find(call.service_name)
        if service is None or service.plan is None:
            service = self._resolve(call, service, now)
            if service is None:
                return
        call.service = service
        if call.stats is None:
            call.stats = self._settlement.counters.method(
                PROTOCOL, service.stats_label, call.head.method or OTHER_METHOD_LABEL
            )
        self._choose(call, service, now)

    def _choose(self, call: Call, service: Service, now: float) -> None:
        tried = call.tried
        if tried is not None and len(tried) >= MAX_ATTEMPTS:
            self._give_up(call, f"any of {len(tried)} instances, the last {tried[-1]}", now)
            return
        head = call.head
        decision = decide(
            service,
            head.tag or self._default_tag,
            head.force_tag,
            head.service_tag,
            head.method,
            int(now * 1000) + self._wall_offset_ms,
            self._random,
            self._pool.mask(tried),
        )
        instance = decision.instance
        if instance is None:
            self._settlement.refuse_unroutable(call, decision.reason, now)
            return
        if decision.override != 0:
            if decision.override == DRAINING:
                self._settlement.count(names.READONLY_OVERRIDE)
            elif not self._is_worth_trying(call, instance, now):
                self._give_up(call, f"{instance.address} or any other instance", now)
                return
        self._forward(call, service, instance, now)

    def _forward(self, call: Call, service: Service, instance: Instance, now: float) -> None:
        call.instance = instance
        if call.due_ms == 0 and call.is_two_way:
            timeout_ms = self._policies.apply(call, service.key.text, instance)
            call.due_ms = int(call.started * 1000) + timeout_ms
            self._timer.add(call, now)
        endpoint = self._pool.endpoint(instance)
        if 0 < endpoint.max_payload < call.size:
            # A Dubbo 2.7 provider answers nothing any more on a connection that brought it too
            # much, and the connection is everybody's.
            self._settlement.refuse_too_large(call, endpoint.max_payload, now)
        elif not endpoint.offer(call, now):
            call.has_overflowed = True
            call.leave(instance.address)
            self._choose(call, service, now)

    def _is_worth_trying(self, call: Call, instance: Instance, now: float) -> bool:
        """Whether to go to an address although it should be avoided, since no other is left."""
        address = instance.address
        tried = call.tried
        if call.has_overflowed:
            return False
        if address not in self._pool.unavailable:
            return True  # it lost the call without failing: it may be dialled again
        return (tried is None or address not in tried) and self._pool.may_be_tried(address, now)

    def _give_up(self, call: Call, whom: str, now: float) -> None:
        if call.has_overflowed:
            self._settlement.refuse_overload(call, f"too many calls wait for {whom}", now)
            return
        self._settlement.refuse(
            call, STATUS_SERVER_ERROR, reason.CONNECT_FAILED, f"no connection to {whom}",
            outcome.CONNECT_ERROR, now,
        )  # fmt: skip

    def _refuse_late(self, call: Call, now: float) -> None:
        self._settlement.refuse(
            call, STATUS_POOL_EXHAUSTED, reason.SHUTTING_DOWN, "the sidecar is stopping",
            outcome.REJECTED, now,
        )  # fmt: skip

    def reroute(self, call: Call, now: float) -> None:
        """Find another instance for a call that a connection gave back unsent."""
        if not call.is_done:
            if self.is_closing:
                self._refuse_late(call, now)
            else:
                self._route(call, now)

    def _resolve(self, call: Call, service: Service | None, now: float) -> Service | None:
        """Have the service watched and the call wait, unless it is known by then."""
        name = call.service_name
        if service is None and self._on_demand:
            self._resolver.resolve(name)
            service = self._directory.find(name)
        if service is None:
            self._settlement.refuse_unroutable(call, reason.UNKNOWN_SERVICE, now)
            return None
        call.service = service
        if service.plan is not None:
            return service
        if service.failure:
            self._settlement.refuse_unroutable(call, service.failure, now)
            return None
        if not self.waiting.add(name, call):
            self._settlement.refuse_overload(call, "too many calls wait for the registry", now)
            return None
        call.due_ms = self._end_of_wait(call)
        self._timer.add(call, now)
        return None

    def _end_of_wait(self, call: Call) -> int:
        limit_ms = self._wait_ms
        if 0 < call.head.timeout_ms < limit_ms:
            limit_ms = call.head.timeout_ms
        return int(call.started * 1000) + limit_ms

    def wake(self, service: str, now: float) -> None:
        """Go on with the calls that waited for a service: its list is here, or its failure."""
        for call in self.waiting.take(service):
            self._timer.remove(call)
            call.due_ms = 0
            self._route(call, now)

    def expired(self, item: Timed, now: float) -> None:
        """End a call whose time is over."""
        assert isinstance(item, Call)  # noqa: S101 - only calls are filed
        waited_only = self.waiting.remove(item.service_name, item)
        if waited_only and not 0 < item.head.timeout_ms <= (now - item.started) * 1000:
            failure = "" if item.service is None else item.service.failure
            self._settlement.refuse_unroutable(item, failure or reason.REGISTRY_UNAVAILABLE, now)
        else:
            self._settlement.time_out(item, now)

    def consumer_lost(self, downstream: Downstream, now: float) -> None:
        """Give up the calls of a consumer that went away."""
        self.consumers.discard(downstream)
        self._last_of_gone = max(self._last_of_gone, downstream.last_request)
        if downstream.closed_because:
            log.warning("a consumer's connection was ended: %s", downstream.closed_because)
            self._settlement.count(names.CONSUMERS_CLOSED, downstream.closed_because)
            downstream.closed_because = ""
        for call in downstream.session.take_all():
            self.waiting.remove(call.service_name, call)
            self._settlement.cancel(call, now)
