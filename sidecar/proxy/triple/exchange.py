"""A call over HTTP/2 and the two connections it joins.

Window is returned to one side when the other side's transport has taken the bytes, so a slow reader
at either end stops the writer at the other, and what is kept here never exceeds the windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import trait

from sidecar.protocol.http2.limits import FIRST_WINDOW
from sidecar.protocol.http2.session import Headers
from sidecar.protocol.triple.head import GRPC, TripleHead
from sidecar.protocol.triple.message import FirstMessage
from sidecar.proxy.call import Call
from sidecar.proxy.consumer import ConsumerLink
from sidecar.proxy.link import FlushQueue
from sidecar.proxy.triple.paths import Paths

# What the calls of one connection keep of requests that were sent; those that come one after the
# other and then wait keep some times this. gRPC keeps as much for a channel.
MAX_KEPT: Final = 16 * 1024 * 1024
# Heads of status 1xx that are passed on of one answer: no window holds them back, and a consumer
# that does not read would have all of them kept. There are seldom more than one.
MAX_INFORMED: Final = 8
# Pieces are put together up to this size (bytes): a body in tiny ones would take many times its
# size, and there would be no end of them.
JOINED: Final = 1024


def keepable(most: int, calls: int) -> int:
    """Return what may be kept of one request that was sent: the more calls there are, the less."""
    return min(most, MAX_KEPT // max(calls, 1))


class ConsumerSide(ConsumerLink):
    """What a call asks of its consumer's connection, whose streams are its calls.

    Bodies are queued; ``ProviderSide.took`` is called as the transport takes them. ``paths`` are
    those of its listener.
    """

    def __init__(self, queue: FlushQueue, clock: Callable[[], float], paths: Paths) -> None:
        super().__init__(queue, clock)
        self.paths: Final = paths

    def admit(self, call: TripleCall) -> None:
        """Remember a call until its stream is over."""
        raise NotImplementedError

    def drop_calls(self) -> None:
        """Give up all calls: this connection is about to be ended."""
        raise NotImplementedError

    def inform(self, call: TripleCall, headers: Headers) -> None:
        """Pass on an informational head."""
        raise NotImplementedError

    def begin(self, call: TripleCall, headers: Headers, is_end: bool) -> None:
        """Pass on the head of the response."""
        raise NotImplementedError

    def body(self, call: TripleCall, data: bytes, is_end: bool) -> None:
        """Pass on a piece of the response."""
        raise NotImplementedError

    def finish(self, call: TripleCall, trailers: Headers) -> None:
        """Pass on the trailers, which end the response."""
        raise NotImplementedError

    def cut(self, call: TripleCall, code: int) -> None:
        """End the response before its time; what is queued of it is dropped."""
        raise NotImplementedError

    def took(self, call: TripleCall, amount: int) -> None:
        """Note that the provider's side took so many bytes of the request."""
        raise NotImplementedError

    def queued(self, call: TripleCall) -> int:
        """Return the bytes of the response that the transport has not taken."""
        raise NotImplementedError


@trait
class ProviderSide:
    """What a call asks of whoever answers it."""

    def body(self, call: TripleCall, data: bytes, is_end: bool) -> None:
        """Pass on a piece of the request."""

    def finish(self, call: TripleCall, trailers: Headers) -> None:
        """Pass on trailers of the request, which end it."""

    def cut(self, call: TripleCall, code: int) -> None:
        """Want no answer any more; nothing is reported about the call from now on."""

    def took(self, call: TripleCall, amount: int) -> None:
        """Note that the consumer's side took so many bytes of the response."""


@final
class TripleCall(Call):
    """One request of a consumer: a stream there and, once it is sent, one at a provider.

    ``headers`` and ``kept`` are what is known of the request while it may still be sent (again).
    ``unread`` counts its bytes that were received and that no provider's transport has taken;
    ``repeated`` those that a provider gets again, which are not returned to the window twice.

    ``asked_window`` is the window of the request, ``told_window`` that of the response; each grows
    when as much as it has room for was taken, and nothing is left.
    """

    def __init__(
        self,
        consumer: ConsumerSide,
        stream_id: int,
        head: TripleHead,
        headers: Headers,
        service_name: str,
        asked_ms: int,
        is_ended: bool,
        now: float,
    ) -> None:
        super().__init__(service_name, head.method, asked_ms, now)
        self.consumer: Final = consumer
        self.stream_id: Final = stream_id
        self.head: Final = head
        self.headers = headers  # as long as they may be sent
        self.is_grpc: Final = head.kind == GRPC
        self.is_named_by_path = False  # the provider is called by the path it has registered
        self.provider: ProviderSide | None = None
        self.upstream_id = 0
        self.kept: list[bytes] = []
        self.kept_bytes = 0
        self.may_replay = True  # all of the request is in ``kept``
        self.request_trailers: Headers | None = None
        self.is_request_ended = is_ended
        self.is_sent = False  # bytes of it may have left
        self.first: FirstMessage | None = None
        self.is_apart = False  # the first message left in frames of its own, as far as it must
        self.is_idempotent = False
        self.is_resent = False
        self.informed = 0  # heads of status 1xx that were passed on
        self.has_begun = False  # the head of the response is on its way to the consumer
        self.http_status = 200
        self.exception_code = 0
        self.unread = 0
        self.repeated = 0
        self.asked_window = FIRST_WINDOW
        self.asked_bytes = 0  # taken since the window was looked at
        self.told_window = FIRST_WINDOW
        self.told_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The bytes that are kept while the call cannot leave."""
        return self.head.size + self.kept_bytes

    @property
    def is_taken(self) -> bool:
        """Whether the provider's transport took all of the request."""
        return self.is_request_ended and self.unread == 0 and self.repeated == 0

    def keep(self, data: bytes) -> None:
        """Remember a piece of the request."""
        kept = self.kept
        if kept and len(kept[-1]) + len(data) <= JOINED:
            kept[-1] += data
        else:
            kept.append(data)
        self.kept_bytes += len(data)

    def forget(self) -> None:
        """Give up what is kept of the request: it is not sent again."""
        if self.may_replay:
            self.may_replay = False
            self.headers = ()
            self.kept = []
            self.kept_bytes = 0

    def depart(self, most: int) -> None:
        """Note that bytes of the call may leave now; ``most`` is what may be kept of it."""
        self.is_sent = True
        if self.kept_bytes > most:
            self.forget()

    def come_back(self) -> None:
        """Note that the provider will not answer, and that another one may be asked."""
        self.provider = None
        self.is_sent = False

    def receive(self, data: bytes, is_end: bool, most: int) -> None:
        """Take a piece of the request from the consumer; ``most`` is what may be kept of it."""
        size = len(data)
        if is_end:
            self.is_request_ended = True
        if self.is_done:
            self.consumer.took(self, size)
            return
        self.unread += size
        if self.may_replay:
            # Before the call is sent the window is the limit: it is returned only afterwards.
            if self.is_sent and self.kept_bytes + size > most:
                self.forget()
            elif size:
                self.keep(data)
        if self.provider is not None:
            self.provider.body(self, data, is_end)

    def receive_trailers(self, trailers: Headers) -> None:
        """Take the trailers of the request, which end it."""
        self.is_request_ended = True
        self.request_trailers = trailers
        if self.provider is not None and not self.is_done:
            self.provider.finish(self, trailers)

    def inform(self, headers: Headers) -> None:
        """Pass on an informational head of the response, unless there are too many."""
        if self.informed < MAX_INFORMED:
            self.informed += 1
            self.consumer.inform(self, headers)

    def taken(self, amount: int) -> None:
        """Note that the provider's transport took so many bytes of the request."""
        if self.is_done:
            return  # all windows were returned when it ended
        again = min(self.repeated, amount)
        self.repeated -= again
        amount -= again
        if amount:
            self.unread -= amount
            self.consumer.took(self, amount)

    def release_request(self) -> None:
        """Return the window of a request that nobody takes any more."""
        if self.unread:
            amount = self.unread
            self.unread = 0
            self.consumer.took(self, amount)
