"""The one place where a Dubbo call ends: answered, refused, or given up with its consumer.

Whatever the way, the call leaves every table it is in (deadlines, the provider connection's and
the consumer connection's), is counted once, and a two-way call gets exactly one reply.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.model import outcome, reason
from sidecar.protocol.dubbo.frame import (
    STATUS_BAD_REQUEST,
    STATUS_BAD_RESPONSE,
    STATUS_CHANNEL_INACTIVE,
    STATUS_POOL_EXHAUSTED,
    STATUS_SERVER_ERROR,
    STATUS_SERVER_TIMEOUT,
    Frame,
    restamp,
)
from sidecar.protocol.dubbo.message import reply_outcome
from sidecar.proxy.dubbo import local_reply
from sidecar.proxy.dubbo.downstream import Downstream, DubboCall
from sidecar.proxy.settlement import Settlement
from sidecar.proxy.timer import DeadlineTimer
from sidecar.telemetry import names
from sidecar.telemetry.counters import Counters

PROTOCOL: Final = "dubbo"  # the protocol label of the request metrics


@final
class DubboSettlement(Settlement[DubboCall]):
    """Ends calls. ``no_provider_exception`` chooses the form of replies without provider."""

    def __init__(
        self, timer: DeadlineTimer, counters: Counters, no_provider_exception: bool
    ) -> None:
        super().__init__(PROTOCOL, counters)
        self._timer: Final = timer
        self._no_provider_exception: Final = no_provider_exception

    def answer(self, call: DubboCall, frame: Frame, now: float) -> None:
        """Pass a provider's reply on; the provider's session has forgotten the call already."""
        if call.due_ms > 0 and now * 1000 >= call.due_ms:
            # The consumer has given up: dubbo-go drops a connection for a late good answer.
            self.count(names.LATE_REPLIES, "past_deadline")
            self.time_out(call, now)
        elif frame.oversize:
            self.count(names.OVERSIZE, "response")
            self.refuse(
                call, STATUS_BAD_RESPONSE, reason.PAYLOAD_TOO_LARGE,
                f"the reply has {frame.size} bytes", outcome.PROVIDER_ERROR, now,
            )  # fmt: skip
        else:
            self._end(call, reply_outcome(frame), now)
            call.downstream.reply(call, restamp(frame.raw, call.id8))

    def refuse(
        self, call: DubboCall, status: int, token: str, why: str, result: int, now: float
    ) -> None:
        """Reply with an error status; a one-way call is dropped and counted."""
        if not call.is_two_way:
            self._drop(call, token)
            return
        self._end(call, result, now)
        data = local_reply.status_reply(call.id8, status, token, call.service_name, why)
        call.downstream.reply(call, data)

    def refuse_overload(self, call: DubboCall, why: str, now: float) -> None:
        """Reply that a cap is reached."""
        if not call.is_two_way:
            self._drop(call, reason.OVERLOADED)
            return
        self._end(call, outcome.REJECTED, now)
        data = local_reply.overload_reply(call.id8, call.serialization, call.service_name, why)
        call.downstream.reply(call, data)

    def refuse_unreachable(self, call: DubboCall, whom: str, now: float) -> None:
        """Reply that there is no connection to any instance that was tried."""
        self.refuse(
            call, STATUS_SERVER_ERROR, reason.CONNECT_FAILED, f"no connection to {whom}",
            outcome.CONNECT_ERROR, now,
        )  # fmt: skip

    def refuse_late(self, call: DubboCall, now: float) -> None:
        """Reply that the sidecar is about to end."""
        self.refuse(
            call, STATUS_POOL_EXHAUSTED, reason.SHUTTING_DOWN, "the sidecar is stopping",
            outcome.REJECTED, now,
        )  # fmt: skip

    def lose(self, call: DubboCall, address: str, now: float) -> None:
        """Reply that the connection broke on which the call had been sent."""
        self.refuse(
            call, STATUS_CHANNEL_INACTIVE, reason.CONNECTION_LOST,
            f"{address} closed the connection", outcome.CONNECTION_LOST, now,
        )  # fmt: skip

    def refuse_too_large(self, call: DubboCall, limit: int, now: float) -> None:
        """Refuse a request that its provider would not read."""
        self.count(names.OVERSIZE, "request")
        self.refuse(
            call, STATUS_BAD_REQUEST, reason.PAYLOAD_TOO_LARGE,
            f"the request has {call.size} bytes, the provider reads {limit}",
            outcome.REJECTED, now,
        )  # fmt: skip

    def refuse_oversize(self, downstream: Downstream, frame: Frame) -> None:
        """Refuse a request by its header; the reader throws its body away as it comes."""
        self.count(names.OVERSIZE, "request")
        self._refuse_frame(
            downstream, frame, reason.PAYLOAD_TOO_LARGE, f"the request has {frame.size} bytes",
            outcome.REJECTED,
        )  # fmt: skip

    def refuse_undecodable(self, downstream: Downstream, frame: Frame, why: str) -> None:
        """Refuse a request whose service cannot be read."""
        self._refuse_frame(downstream, frame, reason.BAD_REQUEST, why, outcome.CODEC_ERROR)

    def _refuse_frame(
        self, downstream: Downstream, frame: Frame, token: str, why: str, result: int
    ) -> None:
        if not frame.is_two_way:
            self.count(names.ONEWAY_DROPPED, token)
            return
        self.unknown.settle(result, 0.0)
        downstream.send(local_reply.status_reply(frame.id8, STATUS_BAD_REQUEST, token, "", why))

    def refuse_unroutable(self, call: DubboCall, token: str, now: float) -> None:
        """Reply that no instance is eligible, and why."""
        self.count_unroutable(call, token)
        if not call.is_two_way:
            self._drop(call, token)
            return
        self._end(call, outcome.NO_PROVIDER, now)
        data = local_reply.no_provider_reply(
            call.id8, call.serialization, token, call.service_name, self._no_provider_exception
        )
        call.downstream.reply(call, data)

    def time_out(self, call: DubboCall, now: float) -> None:
        """Reply that the deadline has passed."""
        waited = int((now - call.started) * 1000)
        self.refuse(
            call, STATUS_SERVER_TIMEOUT, reason.TIMEOUT, f"no answer in {waited} ms",
            outcome.TIMEOUT, now,
        )  # fmt: skip

    def cancel(self, call: DubboCall, now: float) -> None:
        """Give up a call whose consumer went away."""
        if not call.is_done:
            self._end(call, outcome.CANCELLED, now)

    def sent_one_way(self, call: DubboCall) -> None:
        """Note that a one-way call was written to a provider, which is all that happens to it."""
        call.is_done = True
        self._timer.remove(call)
        self.count(names.ONEWAY_SENT)

    def _drop(self, call: DubboCall, token: str) -> None:
        call.is_done = True
        call.frame = None
        self._timer.remove(call)
        self.count(names.ONEWAY_DROPPED, token)

    def _end(self, call: DubboCall, result: int, now: float) -> None:
        call.is_done = True
        call.frame = None
        self._timer.remove(call)
        session = call.session
        if session is not None:
            session.take(call.upstream_id)
            call.session = None
        stats = call.stats
        if stats is None:
            stats = self.unknown
        stats.settle(result, now - call.started)
