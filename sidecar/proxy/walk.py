"""The walk of a call, whatever its protocol: request in, instance chosen, request out.

    receive -> call -> route -> pick -> forward

One synchronous function. A call whose service is not watched yet waits for the registry; one that a
connection gave back takes the walk again, with the addresses it was at left out. Every other way
ends in the settlement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from sidecar.balance.pool import DRAINING
from sidecar.dispatch.directory import Directory, Service
from sidecar.dispatch.dispatcher import Decision
from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.proxy.call import Call
from sidecar.proxy.policy import CallPolicies
from sidecar.proxy.pool import Pool
from sidecar.proxy.settlement import Settlement
from sidecar.proxy.timer import DeadlineTimer
from sidecar.proxy.waiting import WaitingCalls
from sidecar.settings.schema import Settings
from sidecar.telemetry import names
from sidecar.telemetry.counters import OTHER_METHOD_LABEL

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


class Surroundings:
    """What a walk needs besides the connections.

    ``wall_offset_ms`` turns the clock into epoch milliseconds. It only ever grows: warm-up must not
    begin anew when the time of day is set back.
    """

    def __init__(
        self,
        settings: Settings,
        directory: Directory,
        resolver: Resolver,
        timer: DeadlineTimer,
        random: Callable[[], float],
        wall_offset: float,
    ) -> None:
        self.directory: Final = directory
        self.resolver: Final = resolver
        self.timer: Final = timer
        self.random: Final = random
        self.wall_offset_ms = int(wall_offset * 1000)
        self.policies: Final = CallPolicies(settings)
        self.max_waiting: Final = settings.services.max_waiting
        self.default_tag: Final = settings.consumer.tag
        self.on_demand: Final = settings.services.on_demand
        self.wait_ms: Final = int(settings.services.wait * 1000)
        self.is_closing = False

    def set_wall_offset(self, wall_offset: float) -> None:
        """Follow a time of day that was set forward: it was wrong, and providers' is right."""
        self.wall_offset_ms = max(self.wall_offset_ms, int(wall_offset * 1000))


C = TypeVar("C", bound=Call)


class Walk(Generic[C]):
    """Routes the calls of one protocol."""

    def __init__(
        self, surroundings: Surroundings, pool: Pool[C], settlement: Settlement[C]
    ) -> None:
        self.surroundings: Final = surroundings
        self.pool: Final = pool
        self.settlement: Final = settlement
        self.waiting: Final[WaitingCalls[C]] = WaitingCalls(surroundings.max_waiting)

    def decide(
        self, call: C, service: Service, now_ms: int, unavailable: dict[str, int]
    ) -> Decision:
        """Route a call and pick an instance."""
        raise NotImplementedError

    def other_name(self, call: C, token: str) -> str:
        """Return the service to try when nothing is eligible for ``token``; "" for none."""
        return ""

    def limit_ms(self, call: C, service: str, instance: Instance) -> int:
        """Return the time limit of a call in ms, 0 for none; mark it if it may be sent twice."""
        raise NotImplementedError

    def route(self, call: C, now: float) -> None:
        """Find the service of a call and send the call on its way."""
        service = self.surroundings.directory.find(call.service_name)
        if service is None or service.plan is None:
            service = self._resolve(call, service, now)
            if service is None:
                return
        call.service = service
        if call.stats is None:
            call.stats = self.settlement.counters.method(
                self.settlement.protocol, service.stats_label, call.method or OTHER_METHOD_LABEL
            )
        self.choose(call, service, now)

    def choose(self, call: C, service: Service, now: float) -> None:
        """Choose an instance of a service that has a plan, and give it the call."""
        tried = call.tried
        if tried is not None and len(tried) >= MAX_ATTEMPTS:
            self._give_up(call, f"any of {len(tried)} instances, the last {tried[-1]}", now)
            return
        now_ms = int(now * 1000) + self.surroundings.wall_offset_ms
        decision = self.decide(call, service, now_ms, self.pool.mask(tried))
        instance = decision.instance
        if instance is None:
            name = self.other_name(call, decision.reason)
            if name:
                call.service_name = name
                call.stats = None  # it is counted under the name that has instances
                self.route(call, now)
            else:
                self.settlement.refuse_unroutable(call, decision.reason, now)
            return
        if decision.override != 0:
            if decision.override == DRAINING:
                self.settlement.count(names.READONLY_OVERRIDE)
            elif not self._is_worth_trying(call, instance, now):
                if not call.has_overflowed or not self.pool.endpoint(instance).wait(call):
                    self._give_up(call, f"{instance.address} or any other instance", now)
                return
        self._forward(call, service, instance, now)

    def _forward(self, call: C, service: Service, instance: Instance, now: float) -> None:
        call.instance = instance
        if call.due_ms == 0 and call.is_awaited:
            limit_ms = self.limit_ms(call, service.key.text, instance)
            if limit_ms > 0:
                call.due_ms = int(call.started * 1000) + limit_ms
                self.surroundings.timer.add(call, now)
        if not self.pool.endpoint(instance).offer(call, now):
            call.has_overflowed = True
            call.leave(instance.address)
            self.choose(call, service, now)

    def _is_worth_trying(self, call: C, instance: Instance, now: float) -> bool:
        """Whether to go to an address although it should be avoided, since no other is left."""
        address = instance.address
        tried = call.tried
        if call.has_overflowed:
            return False
        if address not in self.pool.unavailable:
            return True  # it lost the call without failing: it may be dialled again
        return (tried is None or address not in tried) and self.pool.may_be_tried(address, now)

    def _give_up(self, call: C, whom: str, now: float) -> None:
        if call.has_overflowed:
            self.settlement.refuse_overload(call, f"too many calls wait for {whom}", now)
        else:
            self.settlement.refuse_unreachable(call, whom, now)

    def reroute(self, call: C, now: float) -> None:
        """Find another instance for a call that a connection gave back unsent."""
        if not call.is_done:
            if self.surroundings.is_closing:
                self.settlement.refuse_late(call, now)
            else:
                self.route(call, now)

    def _resolve(self, call: C, service: Service | None, now: float) -> Service | None:
        """Have the service watched and the call wait, unless it is known by then."""
        name = call.service_name
        surroundings = self.surroundings
        if service is None and surroundings.on_demand:
            surroundings.resolver.resolve(name)
            service = surroundings.directory.find(name)
        if service is None:
            self.settlement.refuse_unroutable(call, reason.UNKNOWN_SERVICE, now)
            return None
        call.service = service
        if service.plan is not None:
            return service
        if service.failure:
            self.settlement.refuse_unroutable(call, service.failure, now)
            return None
        if not self.waiting.add(name, call):
            self.settlement.refuse_overload(call, "too many calls wait for the registry", now)
            return None
        call.due_ms = self._end_of_wait(call)
        surroundings.timer.add(call, now)
        return None

    def _end_of_wait(self, call: C) -> int:
        limit_ms = self.surroundings.wait_ms
        if 0 < call.asked_ms < limit_ms:
            limit_ms = call.asked_ms
        return int(call.started * 1000) + limit_ms

    def wake(self, service: str, now: float) -> None:
        """Go on with the calls that waited for a service: its list is here, or its failure."""
        for call in self.waiting.take(service):
            self.surroundings.timer.remove(call)
            call.due_ms = 0
            self.route(call, now)

    def withdraw(self, call: C) -> bool:
        """Forget a call that is given up wherever it waits; True if it was for its first list."""
        self.pool.withdraw(call)
        return self.waiting.remove(call.service_name, call)

    def expire(self, call: C, now: float) -> None:
        """End a call whose time is over."""
        waited_only = self.withdraw(call)
        if waited_only and not 0 < call.asked_ms <= (now - call.started) * 1000:
            failure = "" if call.service is None else call.service.failure
            self.settlement.refuse_unroutable(call, failure or reason.REGISTRY_UNAVAILABLE, now)
        else:
            self.settlement.time_out(call, now)
