"""From a Dubbo request to the walk of its call, and the parts of the walk that are Dubbo's own."""

from __future__ import annotations

from typing import Final, final

from sidecar.dispatch.directory import Service
from sidecar.dispatch.dispatcher import Decision, decide
from sidecar.model import outcome, reason
from sidecar.model.errors import CodecError
from sidecar.model.instance import Instance
from sidecar.protocol.dubbo.frame import STATUS_BAD_REQUEST, Frame
from sidecar.protocol.dubbo.message import RequestReader
from sidecar.proxy.dubbo.downstream import Downstream, DubboCall, RequestHandler
from sidecar.proxy.dubbo.settlement import DubboSettlement
from sidecar.proxy.pool import Pool
from sidecar.proxy.walk import Surroundings, Walk
from sidecar.resilience.deadlines import Timed
from sidecar.telemetry import names

# The end of a call that nobody limits. Consumers of Dubbo 2.7 send no limit, stop waiting after one
# of their own and do not say so: the calls to a provider that hangs would count against what their
# consumer may have in flight until it restarts.
LONGEST_MS: Final = 10 * 60 * 1000


@final
class DubboWalk(Walk[DubboCall]):
    """The walk of Dubbo calls."""

    def decide(
        self, call: DubboCall, service: Service, now_ms: int, unavailable: dict[str, int]
    ) -> Decision:
        """Route a call and pick an instance."""
        head = call.head
        surroundings = self.surroundings
        return decide(
            service, head.tag or surroundings.default_tag, head.force_tag, head.service_tag,
            head.method, now_ms, surroundings.random, unavailable,
        )  # fmt: skip

    def limit_ms(self, call: DubboCall, service: str, instance: Instance) -> int:
        """Return the time limit of a call in ms, and mark it if it may be sent twice.

        The consumer's own limit counts first, since it stops waiting then.
        """
        policies = self.surroundings.policies
        call.is_idempotent = policies.is_idempotent(service, call.method)
        if call.asked_ms > 0:
            return call.asked_ms
        return policies.limit_ms(service, call.method, instance) or LONGEST_MS


@final
class Forwarder(RequestHandler):
    """Takes the requests of all consumers."""

    def __init__(
        self, surroundings: Surroundings, pool: Pool[DubboCall], settlement: DubboSettlement
    ) -> None:
        self.walk: Final = DubboWalk(surroundings, pool, settlement)
        self._surroundings: Final = surroundings
        self._settlement: Final = settlement
        self._reader: Final = RequestReader()
        self.consumers: Final[set[Downstream]] = set()
        self.last_of_gone = 0.0  # when a consumer that has left asked last

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
        call = DubboCall(downstream, frame, head, now)
        if self._may_enter(call, now):
            self.walk.route(call, now)

    def _may_enter(self, call: DubboCall, now: float) -> bool:
        """Refuse what is not forwarded whatever its service."""
        head = call.head
        if call.is_two_way and not call.downstream.session.admit(call):
            self._settlement.refuse_overload(call, "too many calls of this consumer in flight", now)
        elif self._surroundings.is_closing:
            self._settlement.refuse_late(call, now)
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

    def expired(self, item: Timed, now: float) -> None:
        """End a call whose time is over."""
        assert isinstance(item, DubboCall)  # noqa: S101 - only calls are filed
        self.walk.expire(item, now)

    def consumer_lost(self, downstream: Downstream, now: float) -> None:
        """Give up the calls of a consumer that went away."""
        self.consumers.discard(downstream)
        self.last_of_gone = max(self.last_of_gone, downstream.last_request)
        self._settlement.consumer_ended(downstream)
        for call in downstream.session.take_all():
            self.walk.withdraw(call)
            self._settlement.cancel(call, now)
