"""The one place where a Triple call ends: answered, refused, or given up with its consumer.

gRPC calls get a grpc-status in trailers, calls over JSON an HTTP status. An answer of a provider is
passed on as it is, unless it is none: a gRPC client must not take a stream that just ends for good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from sidecar.model import outcome, reason
from sidecar.protocol.http2 import codes
from sidecar.protocol.http2.session import Headers
from sidecar.protocol.triple import ending, reply
from sidecar.proxy.settlement import Settlement
from sidecar.proxy.timer import DeadlineTimer
from sidecar.proxy.triple.exchange import TripleCall
from sidecar.proxy.words import no_provider_text, reply_text
from sidecar.telemetry import names
from sidecar.telemetry.counters import Counters

PROTOCOL: Final = "triple"  # the protocol label of the request metrics

# How long before a deadline (ms) a provider may take it for passed: it was told in whole units.
# Those in Go reset the stream then, and the timer here is no finer.
EARLY_MS: Final = 16

_OK: Final = b"200"


def _has_status(headers: Headers) -> bool:
    """Tell an answer of a gRPC server: Dubbo 3.3 sends its errors with HTTP statuses, too."""
    return ending.grpc_status(headers) != ending.NO_STATUS


@final
class TripleSettlement(Settlement[TripleCall]):
    """Passes answers on and ends calls."""

    def __init__(
        self, timer: DeadlineTimer, counters: Counters, clock: Callable[[], float]
    ) -> None:
        super().__init__(PROTOCOL, counters)
        self._clock: Final = clock
        self._timer: Final = timer

    # Answers of providers.

    def begin(self, call: TripleCall, headers: Headers, is_end: bool, now: float) -> None:
        """Pass on the head of a response; with ``is_end`` it is all there is."""
        call.forget()
        if not headers or headers[0][1] != _OK:
            call.http_status = ending.http_status(headers)
        if not call.is_grpc:
            self._begin_http(call, headers, is_end, now)
            return
        if call.http_status != 200 and not (is_end and _has_status(headers)):
            status = reply.grpc_status_of_http(call.http_status)
            why = f"the provider answered with HTTP status {call.http_status}"
            self._fail(call, status, reason.BAD_RESPONSE, why, outcome.PROVIDER_ERROR, now)
            return
        call.exception_code = ending.exception_code(headers)
        if not is_end:
            call.has_begun = True
            call.consumer.begin(call, headers, False)
            return
        status = ending.grpc_status(headers)
        if status == ending.NO_STATUS:
            self._lacks_status(call, now)
            return
        call.has_begun = True
        call.consumer.begin(call, headers, True)
        self._answered(call, ending.outcome_of(status, call.exception_code), now)

    def _begin_http(self, call: TripleCall, headers: Headers, is_end: bool, now: float) -> None:
        call.has_begun = True
        if call.head.http_method == "HEAD" and not is_end:
            is_end = True  # has no body by definition, but Dubbo 3.3 sends one
            self._want_no_more(call)
        call.consumer.begin(call, headers, is_end)
        if is_end:
            self._answered(call, ending.outcome_of_http(call.http_status), now)

    def body(self, call: TripleCall, data: bytes, is_end: bool, now: float) -> None:
        """Pass on a piece of a response."""
        if not is_end:
            call.consumer.body(call, data, False)
        elif call.is_grpc:
            call.consumer.body(call, data, False)
            self._lacks_status(call, now)
        else:
            call.consumer.body(call, data, True)
            self._answered(call, ending.outcome_of_http(call.http_status), now)

    def finish(self, call: TripleCall, trailers: Headers, now: float) -> None:
        """Pass on the trailers of a response."""
        if not call.is_grpc:
            call.consumer.finish(call, trailers)
            self._answered(call, ending.outcome_of_http(call.http_status), now)
            return
        status = ending.grpc_status(trailers)
        if status == ending.NO_STATUS:
            self._lacks_status(call, now)
            return
        call.consumer.finish(call, trailers)
        self._answered(call, ending.outcome_of(status, call.exception_code), now)

    def _answered(self, call: TripleCall, result: int, now: float) -> None:
        provider = call.provider
        if provider is not None and not call.is_taken:
            provider.cut(call, codes.NO_ERROR)
        self._end(call, result, now)

    def _lacks_status(self, call: TripleCall, now: float) -> None:
        why = "the provider's answer ended without a status"
        self._fail(call, reply.INTERNAL, reason.BAD_RESPONSE, why, outcome.PROVIDER_ERROR, now)

    def reset_by_provider(self, call: TripleCall, code: int, now: float) -> None:
        """Answer that the provider gave the call up, or that it did so because its time is over."""
        if code == codes.CANCEL and 0 < call.due_ms <= int(now * 1000) + EARLY_MS:
            self.time_out(call, now)
            return
        status = reply.grpc_status_of_reset(code)
        why = f"the provider reset the stream with code {code}"
        self._fail(call, status, reason.STREAM_RESET, why, outcome.PROVIDER_ERROR, now)

    # Answers made here.

    def refuse(
        self, call: TripleCall, status: int, token: str, why: str, result: int, now: float
    ) -> None:
        """Answer with a grpc-status, or the HTTP status that says the same."""
        self._fail(call, status, token, why, result, now)

    def answer_here(self, call: TripleCall, result: int) -> None:
        """End a call that the sidecar has answered itself."""
        self._end(call, result, self._clock())

    def refuse_here(self, call: TripleCall, status: int, token: str, why: str) -> None:
        """Refuse a call that the sidecar would have answered itself."""
        self._fail(call, status, token, why, outcome.REJECTED, self._clock())

    def refuse_headers(self, call: TripleCall, now: float) -> None:
        """Answer that the header list is larger than is allowed."""
        self.count(names.OVERSIZE, "headers")
        text = reply_text(reason.HEADERS_TOO_LARGE, "", f"{call.head.size} bytes of headers")
        self._answer(call, reply.RESOURCE_EXHAUSTED, 431, text)
        self._end(call, outcome.REJECTED, now)

    def refuse_unroutable(self, call: TripleCall, token: str, now: float) -> None:
        """Answer that no instance is eligible, and why."""
        self.count_unroutable(call, token)
        text = no_provider_text(token, call.service_name)
        self._answer(call, reply.UNAVAILABLE, 503, text)
        self._end(call, outcome.NO_PROVIDER, now)

    def refuse_overload(self, call: TripleCall, why: str, now: float) -> None:
        """Answer that a cap is reached."""
        self._fail(
            call, reply.RESOURCE_EXHAUSTED, reason.OVERLOADED, why, outcome.REJECTED, now
        )  # fmt: skip

    def refuse_unreachable(self, call: TripleCall, whom: str, now: float) -> None:
        """Answer that there is no connection to any instance that was tried."""
        why = f"no connection to {whom}"
        self._fail(
            call, reply.UNAVAILABLE, reason.CONNECT_FAILED, why, outcome.CONNECT_ERROR, now
        )  # fmt: skip

    def refuse_late(self, call: TripleCall, now: float) -> None:
        """Answer that the sidecar is about to end."""
        why = "the sidecar is stopping"
        self._fail(call, reply.UNAVAILABLE, reason.SHUTTING_DOWN, why, outcome.REJECTED, now)

    def lose(self, call: TripleCall, address: str, now: float) -> None:
        """Answer that the connection broke on which the call had been sent."""
        why = f"{address} closed the connection"
        self._fail(
            call, reply.UNAVAILABLE, reason.CONNECTION_LOST, why, outcome.CONNECTION_LOST, now
        )  # fmt: skip

    def time_out(self, call: TripleCall, now: float) -> None:
        """Answer that the deadline has passed; what the consumer has not read yet is dropped."""
        waited = int((now - call.started) * 1000)
        if call.has_begun and call.consumer.queued(call):
            self._want_no_more(call)
            call.consumer.cut(call, codes.CANCEL)
            self._end(call, outcome.TIMEOUT, now)
            return
        why = f"no answer in {waited} ms"
        self._fail(call, reply.DEADLINE_EXCEEDED, reason.TIMEOUT, why, outcome.TIMEOUT, now)

    def cancel(self, call: TripleCall, now: float) -> None:
        """Give up a call whose consumer does not want an answer any more."""
        if not call.is_done:
            self._want_no_more(call)
            self._end(call, outcome.CANCELLED, now)

    def upstream_closed(self, why: str) -> None:
        """Count the end of a provider's connection."""
        self.count(names.UPSTREAM_CLOSED, why)

    def _fail(
        self, call: TripleCall, status: int, token: str, why: str, result: int, now: float
    ) -> None:
        self._want_no_more(call)
        text = reply_text(token, call.service_name, why)
        self._answer(call, status, reply.http_status_of_grpc(status), text)
        self._end(call, result, now)

    def _want_no_more(self, call: TripleCall) -> None:
        if call.provider is not None:
            call.provider.cut(call, codes.CANCEL)

    def _answer(self, call: TripleCall, status: int, http_status: int, text: str) -> None:
        consumer = call.consumer
        if call.has_begun:
            if call.is_grpc:
                consumer.finish(call, reply.trailers(status, text))
            else:
                consumer.cut(call, codes.INTERNAL_ERROR)
            return
        call.has_begun = True
        call.provider = None  # no window of it is returned for bytes that are not its own
        if call.is_grpc:
            consumer.begin(call, reply.trailers_only(call.head, status, text), True)
            return
        headers, body = reply.http_reply(http_status, text)
        if call.head.http_method == "HEAD":
            consumer.begin(call, headers, True)
            return
        consumer.begin(call, headers, False)
        consumer.body(call, body, True)

    def _end(self, call: TripleCall, result: int, now: float) -> None:
        call.is_done = True
        call.forget()
        self._timer.remove(call)
        call.release_request()
        stats = call.stats
        if stats is None:
            stats = self.unknown
        stats.settle(result, now - call.started)
