"""From a request's headers to the walk of its call, and the parts of the walk that are Triple's."""

from __future__ import annotations

from typing import Final, final

from sidecar.dispatch.directory import Service
from sidecar.dispatch.dispatcher import Decision, decide
from sidecar.model import outcome, protocol, reason
from sidecar.model.instance import Instance
from sidecar.model.service import ServiceKey
from sidecar.protocol.http2.limits import SessionLimits
from sidecar.protocol.http2.session import Headers
from sidecar.protocol.triple import reply
from sidecar.protocol.triple.head import HeadReader, TripleHead
from sidecar.proxy.pool import Pool
from sidecar.proxy.triple.downstream import RequestHandler
from sidecar.proxy.triple.exchange import ConsumerSide, TripleCall
from sidecar.proxy.triple.health import WATCH, HealthDesk
from sidecar.proxy.triple.paths import Paths, usual_name
from sidecar.proxy.triple.settlement import TripleSettlement
from sidecar.proxy.walk import Surroundings, Walk
from sidecar.resilience.deadlines import Timed
from sidecar.telemetry import names

# Every service has it and none registers it.
REFLECTION: Final = "grpc.reflection."
NOT_ASKED: Final = -1


@final
class TripleWalk(Walk[TripleCall]):
    """The walk of Triple calls."""

    def decide(
        self, call: TripleCall, service: Service, now_ms: int, unavailable: dict[str, int]
    ) -> Decision:
        """Route a call and pick an instance."""
        head = call.head
        surroundings = self.surroundings
        return decide(
            service, head.tag or surroundings.default_tag, head.force_tag, head.service_tag,
            head.method, now_ms, surroundings.random, unavailable, protocol.TRIPLE,
        )  # fmt: skip

    def other_name(self, call: TripleCall, token: str) -> str:
        """Return the service under its usual version, for calls that name no version."""
        head = call.head
        if token != reason.VERSION_MISMATCH or head.version or not call.is_named_by_path:
            return ""
        name = usual_name(ServiceKey(head.interface, "", head.group))
        return "" if name == call.service_name else name

    def limit_ms(self, call: TripleCall, service: str, instance: Instance) -> int:
        """Return the time limit of a call in ms, 0 for none, and mark it if it may be sent twice.

        The limits that providers register are for unary calls, which streams cannot be told from.
        """
        policies = self.surroundings.policies
        call.is_idempotent = policies.is_idempotent(service, call.method)
        return call.asked_ms if call.asked_ms >= 0 else policies.configured_ms(service)


@final
class Forwarder(RequestHandler):
    """Takes the requests of all consumers; ``longest_ms`` cuts their time limits, 0 for no cut."""

    def __init__(
        self,
        surroundings: Surroundings,
        pool: Pool[TripleCall],
        settlement: TripleSettlement,
        limits: SessionLimits,
        longest_ms: int,
    ) -> None:
        self.walk: Final = TripleWalk(surroundings, pool, settlement)
        self.desk: Final = HealthDesk(surroundings, settlement)
        self._surroundings: Final = surroundings
        self._settlement: Final = settlement
        self._limits: Final = limits
        self._longest_ms: Final = longest_ms
        self._reader: Final = HeadReader()
        self.consumers: Final[set[ConsumerSide]] = set()
        self.last_of_gone = 0.0  # when a consumer that has left asked last

    def request(
        self, consumer: ConsumerSide, stream_id: int, headers: Headers, is_end: bool, now: float
    ) -> None:
        """Take the head of a request."""
        head = self._reader.read(headers)
        name, is_named = self._service_of(head, consumer.paths)
        call = TripleCall(
            consumer, stream_id, head, headers, name, self._asked_ms(head), is_end, now
        )
        call.is_named_by_path = is_named
        consumer.admit(call)
        if self._may_enter(call, len(headers), now):
            self.walk.route(call, now)

    def _asked_ms(self, head: TripleHead) -> int:
        asked_us = head.timeout_us
        if asked_us < 0:
            return NOT_ASKED
        asked_ms = (asked_us + 999) // 1000
        longest_ms = self._longest_ms
        return longest_ms if 0 < longest_ms < asked_ms else asked_ms

    def _service_of(self, head: TripleHead, paths: Paths) -> tuple[str, bool]:
        """Return the service of a request, and whether its path names it."""
        configured = paths.find(head.path, head.version, head.group)
        if configured:
            return configured, False
        if head.service and not head.service_path.startswith(REFLECTION):
            return head.service, True
        if paths.default_service and head.path:  # CONNECT has none, and is for no service
            return paths.default_service, False
        return self._any_service() if head.service else "", False

    def _any_service(self) -> str:
        """Return the first service that has instances: each of them describes itself."""
        for service in self._surroundings.directory.services():
            plan = service.plan
            if plan is not None and plan.snapshot.view(protocol.TRIPLE).members:
                return service.key.text
        return ""

    def _may_enter(self, call: TripleCall, count: int, now: float) -> bool:
        """Refuse or answer what is not forwarded whatever its service."""
        head = call.head
        if head.size > self._limits.header_size or count > self._limits.header_count:
            self._settlement.refuse_headers(call, now)
        elif self._surroundings.is_closing:
            self._settlement.refuse_late(call, now)
        elif call.asked_ms == 0:
            self._settlement.time_out(call, now)
        elif self.desk.is_asked(call):
            self._settle_at_desk(call, now)
        elif not call.service_name:
            self._refuse_path(call, now)
        else:
            return True
        return False

    def _settle_at_desk(self, call: TripleCall, now: float) -> None:
        call.stats = self._settlement.counters.method(
            self._settlement.protocol, call.head.interface, call.method
        )
        limit_ms = call.asked_ms
        if limit_ms < 0 and call.method != WATCH:
            limit_ms = self._surroundings.wait_ms
        if limit_ms > 0:
            call.due_ms = int(now * 1000) + limit_ms
            self._surroundings.timer.add(call, now)
        self.desk.open(call)
        if call.is_request_ended:
            self.desk.body(call, b"", True)

    def _refuse_path(self, call: TripleCall, now: float) -> None:
        why = f"no service is known for the path {call.head.path!r}"
        self._settlement.refuse(
            call, reply.UNIMPLEMENTED, reason.UNKNOWN_PATH, why, outcome.REJECTED, now
        )

    def expired(self, item: Timed, now: float) -> None:
        """End a call whose time is over."""
        assert isinstance(item, TripleCall)  # noqa: S101 - only calls are filed
        self.walk.expire(item, now)

    def cancelled(self, call: TripleCall, now: float) -> None:
        """Give up a call whose consumer does not want it any more."""
        self.walk.withdraw(call)
        self._settlement.cancel(call, now)

    def refused(self, count: int) -> None:
        """Count streams that never became calls."""
        self._settlement.counters.count(names.STREAMS_REFUSED.name, amount=count)

    def consumer_lost(self, consumer: ConsumerSide, now: float) -> None:
        """Forget a consumer that went away; its calls were cancelled."""
        self.consumers.discard(consumer)
        self.last_of_gone = max(self.last_of_gone, consumer.last_request)
        self._settlement.consumer_ended(consumer)
