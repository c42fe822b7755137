"""gRPC's health service, answered here for the services that the sidecar knows.

A provider that is asked would speak for itself alone; what a consumer wants to know is whether its
calls can be answered. ``Check`` is answered once, ``Watch`` now and after each change. A service
that is asked about is watched like one that is called, and found under the usual version like one.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.dispatch.directory import Service
from sidecar.model import outcome, protocol, reason
from sidecar.model.errors import CodecError
from sidecar.model.service import ServiceKey
from sidecar.protocol.http2.session import Headers
from sidecar.protocol.triple import health, reply
from sidecar.proxy.triple.exchange import ProviderSide, TripleCall
from sidecar.proxy.triple.paths import usual_name
from sidecar.proxy.triple.settlement import TripleSettlement
from sidecar.proxy.walk import Surroundings
from sidecar.proxy.words import NO_PROVIDER_TEXTS

CHECK: Final = "Check"
WATCH: Final = "Watch"

# A watcher that leaves this many bytes unread, 7 for each change, is not told of further ones.
MAX_UNREAD: Final = 700

_EVERYTHING: Final = ""  # what a client asks that wants to know about the server itself
_HEAD: Final = ((b":status", b"200"), (b"content-type", b"application/grpc"))
_NOTHING_SAID: Final = 0


@final
class Inquiry:
    """What one call asks: a service, and under which other name its calls would be sent."""

    def __init__(self, key: ServiceKey | None) -> None:
        self.names: Final[list[str]] = [_EVERYTHING if key is None else key.text]
        self.usual: Final = "" if key is None or key.version else usual_name(key)
        self.said = _NOTHING_SAID


@final
class HealthDesk(ProviderSide):
    """Answers health calls as a provider would.

    Calls wait here for their message, then, if nothing is known of the service yet, for a list of
    it (``Check``, until its deadline), or for changes (``Watch``, until the consumer leaves).
    """

    def __init__(self, surroundings: Surroundings, settlement: TripleSettlement) -> None:
        self._surroundings: Final = surroundings
        self._settlement: Final = settlement
        self._readers: Final[dict[TripleCall, health.MessageReader]] = {}
        self._inquiries: Final[dict[TripleCall, Inquiry]] = {}
        self._waiting: Final[dict[str, dict[TripleCall, None]]] = {}  # by each name of an inquiry

    def __len__(self) -> int:
        return len(self._readers) + len(self._inquiries)

    def is_asked(self, call: TripleCall) -> bool:
        """Whether a call is one for this desk."""
        return call.head.interface == health.SERVICE and call.method in (CHECK, WATCH)

    def open(self, call: TripleCall) -> None:
        """Take a call; what was received of its request follows through ``body``."""
        call.provider = self
        call.forget()
        self._readers[call] = health.MessageReader()

    # What the call asks of its provider.

    def body(self, call: TripleCall, data: bytes, is_end: bool) -> None:
        """Take a piece of the request."""
        if data:
            call.taken(len(data))
        reader = self._readers.get(call)
        if reader is None:
            return
        try:
            message = reader.feed(data)
            if message is not None:
                self._ask(call, health.read_request(message))
            elif is_end:
                raise CodecError("the request has no message")
        except CodecError as error:
            self._refuse(call, reply.INVALID_ARGUMENT, reason.BAD_REQUEST, str(error))

    def finish(self, call: TripleCall, trailers: Headers) -> None:
        """Take the end of a request."""
        self.body(call, b"", True)

    def cut(self, call: TripleCall, code: int) -> None:
        """Forget a call."""
        self._readers.pop(call, None)
        inquiry = self._inquiries.pop(call, None)
        if inquiry is None:
            return
        for name in inquiry.names:
            calls = self._waiting[name]
            del calls[call]
            if not calls:
                del self._waiting[name]

    def took(self, call: TripleCall, amount: int) -> None:
        """Answers are a few bytes; there is nobody to hold back."""

    # Answers.

    def wake(self, service: str) -> None:
        """Tell those who wait for a service how it is now."""
        for call in list(self._waiting.get(service, ())):
            self._tell(call, self._inquiries[call])

    def keep_watched(self, now: float) -> None:
        """Have the services that somebody asks about stay watched, although nobody calls them."""
        surroundings = self._surroundings
        now_ms = int(now * 1000) + surroundings.wall_offset_ms
        for name in self._waiting:
            service = surroundings.directory.find(name)
            if service is not None:
                service.last_used = now_ms

    def close(self, now: float) -> None:
        """End all calls: watchers would hold up the end of the process for nothing."""
        for call in [*self._readers, *self._inquiries]:
            self._settlement.refuse_late(call, now)

    def _ask(self, call: TripleCall, text: str) -> None:
        del self._readers[call]
        try:
            inquiry = Inquiry(ServiceKey.parse(text) if text != _EVERYTHING else None)
        except ValueError:
            self._refuse(call, reply.NOT_FOUND, reason.UNKNOWN_SERVICE, "no service name")
            return
        self._inquiries[call] = inquiry
        call.service_name = inquiry.names[0]  # whose name the reply texts say
        self._wait(call, inquiry.names[0])
        self._tell(call, inquiry)

    def _wait(self, call: TripleCall, name: str) -> None:
        surroundings = self._surroundings
        is_known = name == _EVERYTHING or surroundings.directory.find(name) is not None
        if not is_known and surroundings.on_demand:
            surroundings.resolver.resolve(name)
        self._waiting.setdefault(name, {})[call] = None

    def _tell(self, call: TripleCall, inquiry: Inquiry) -> None:
        state = self._state_of(call, inquiry)
        if state == health.SERVICE_UNKNOWN and call.method == CHECK:
            self._refuse_unknown(call, inquiry.names[-1])
        elif state != inquiry.said:
            inquiry.said = state
            self._say(call, state)

    def _say(self, call: TripleCall, state: int) -> None:
        consumer = call.consumer
        if consumer.queued(call) >= MAX_UNREAD:
            why = "the changes are not read"
            self._refuse(call, reply.RESOURCE_EXHAUSTED, reason.OVERLOADED, why)
            return
        if not call.has_begun:
            call.has_begun = True
            consumer.begin(call, _HEAD, False)
        consumer.body(call, health.response(state), False)
        if call.method == CHECK:
            self.cut(call, 0)
            consumer.finish(call, reply.trailers(reply.OK, ""))
            self._settlement.answer_here(call, outcome.OK)

    def _state_of(self, call: TripleCall, inquiry: Inquiry) -> int:
        """Return the state of what is asked about; that of the usual name when it has nobody."""
        names = inquiry.names
        state = self._state(names[0])
        if state != health.NOT_SERVING or not inquiry.usual:
            return state
        if len(names) == 1:
            names.append(inquiry.usual)
            self._wait(call, inquiry.usual)
        known = self._surroundings.directory.find(inquiry.usual)
        return state if known is None or known.failure else self._state(inquiry.usual)

    def _state(self, service: str) -> int:
        if service == _EVERYTHING:
            return health.SERVING
        known: Service | None = self._surroundings.directory.find(service)
        if known is None or known.plan is None:
            return health.SERVICE_UNKNOWN
        members = known.plan.snapshot.view(protocol.TRIPLE).members
        return health.SERVING if members else health.NOT_SERVING

    def _refuse_unknown(self, call: TripleCall, name: str) -> None:
        """Refuse a check of a service that nobody will hear of; others wait for their list."""
        known = self._surroundings.directory.find(name)
        if known is None:
            why = NO_PROVIDER_TEXTS[reason.UNKNOWN_SERVICE]
            self._refuse(call, reply.NOT_FOUND, reason.UNKNOWN_SERVICE, why)
        elif known.failure:
            why = NO_PROVIDER_TEXTS.get(known.failure, "no instance is eligible")
            self._refuse(call, reply.UNAVAILABLE, known.failure, why)

    def _refuse(self, call: TripleCall, status: int, token: str, why: str) -> None:
        self.cut(call, 0)
        self._settlement.refuse_here(call, status, token, why)
