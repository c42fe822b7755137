"""gRPC's health service, answered here for the services that the sidecar knows.

A provider that is asked would speak for itself alone; what a consumer wants to know is whether its
calls can be answered. ``Check`` is answered once, ``Watch`` now and after each change. A service
that is asked about is watched like one that is called.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.dispatch.directory import Directory, Service
from sidecar.model import outcome, protocol, reason
from sidecar.model.errors import CodecError
from sidecar.model.service import ServiceKey
from sidecar.protocol.http2.session import Headers
from sidecar.protocol.triple import health, reply
from sidecar.proxy.triple.exchange import ProviderSide, TripleCall
from sidecar.proxy.triple.settlement import TripleSettlement
from sidecar.proxy.walk import Resolver

CHECK: Final = "Check"
WATCH: Final = "Watch"

_EVERYTHING: Final = ""  # what a client asks that wants to know about the server itself
_HEAD: Final = ((b":status", b"200"), (b"content-type", b"application/grpc"))


@final
class HealthDesk(ProviderSide):
    """Answers health calls as a provider would.

    Calls wait here for their message, then, if nothing is known of the service yet, for a list of
    it (``Check``, until its deadline), or for changes (``Watch``, until the consumer leaves).
    """

    def __init__(
        self, directory: Directory, resolver: Resolver, settlement: TripleSettlement
    ) -> None:
        self._directory: Final = directory
        self._resolver: Final = resolver
        self._settlement: Final = settlement
        self._readers: Final[dict[TripleCall, health.MessageReader]] = {}
        self._waiting: Final[dict[str, dict[TripleCall, int]]] = {}  # with the state said last
        self._services: Final[dict[TripleCall, str]] = {}  # where a call waits

    def __len__(self) -> int:
        return len(self._readers) + len(self._services)

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
        service = self._services.pop(call, None)
        if service is not None:
            calls = self._waiting[service]
            del calls[call]
            if not calls:
                del self._waiting[service]

    def took(self, call: TripleCall, amount: int) -> None:
        """Answers are a few bytes; there is nobody to hold back."""

    # Answers.

    def wake(self, service: str) -> None:
        """Tell those who wait for a service how it is now."""
        for call in list(self._waiting.get(service, ())):
            self._tell(call, service)

    def _ask(self, call: TripleCall, text: str) -> None:
        del self._readers[call]
        if text == _EVERYTHING:
            service = text
        else:
            try:
                service = ServiceKey.parse(text).text
            except ValueError:
                self._refuse(call, reply.NOT_FOUND, reason.UNKNOWN_SERVICE, "no service name")
                return
            if self._directory.find(service) is None:
                self._resolver.resolve(service)
        self._services[call] = service
        self._waiting.setdefault(service, {})[call] = 0
        self._tell(call, service)

    def _tell(self, call: TripleCall, service: str) -> None:
        state = self._state(service)
        is_watch = call.method == WATCH
        if state == health.SERVICE_UNKNOWN:
            known = self._directory.find(service)
            if known is not None and not known.failure:
                return  # it is being resolved, and whoever waits is woken then
            if not is_watch:
                self._refuse(
                    call, reply.NOT_FOUND, reason.UNKNOWN_SERVICE, "the service is not watched"
                )
                return
        if self._waiting[service][call] == state:
            return
        self._waiting[service][call] = state
        if not call.has_begun:
            call.has_begun = True
            call.consumer.begin(call, _HEAD, False)
        call.consumer.body(call, health.response(state), False)
        if not is_watch:
            self.cut(call, 0)
            call.consumer.finish(call, reply.trailers(reply.OK, ""))
            self._settlement.answer_here(call, outcome.OK)

    def _state(self, service: str) -> int:
        if service == _EVERYTHING:
            return health.SERVING
        known: Service | None = self._directory.find(service)
        if known is None or known.plan is None:
            return health.SERVICE_UNKNOWN
        members = known.plan.snapshot.view(protocol.TRIPLE).members
        return health.SERVING if members else health.NOT_SERVING

    def _refuse(self, call: TripleCall, status: int, token: str, why: str) -> None:
        self.cut(call, 0)
        self._settlement.refuse_here(call, status, token, why)
