"""All provider addresses in use, and which of them a call may not be given to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar, final

from sidecar.balance.pool import BACKING_OFF, DRAINING
from sidecar.model.instance import Instance
from sidecar.proxy.call import Call
from sidecar.proxy.endpoint import Endpoint, EndpointContext

# Warm connections begun in one check, so that the list of a large service, or a restart, is no
# storm: neither for this loop nor for the providers, which hear from all sidecars at such a time.
MAX_WARMED: Final = 100

C = TypeVar("C", bound=Call)


@final
class Pool(Generic[C]):
    """Endpoints of one protocol by address; ``make`` makes the endpoint of an instance.

    ``unavailable`` maps addresses to DRAINING or BACKING_OFF.
    """

    def __init__(
        self, context: EndpointContext[C], make: Callable[[Instance], Endpoint[C, Any]]
    ) -> None:
        self._context: Final = context
        self._make: Final = make
        self.unavailable: Final = context.unavailable
        self.endpoints: Final[dict[str, Endpoint[C, Any]]] = {}
        self.retired: list[Endpoint[C, Any]] = []  # left the registry with calls in flight

    def endpoint(self, instance: Instance) -> Endpoint[C, Any]:
        """Return the endpoint of an instance's address."""
        endpoint = self.endpoints.get(instance.address)
        if endpoint is None:
            endpoint = self._make(instance)
            self.endpoints[instance.address] = endpoint
        return endpoint

    def withdraw(self, call: C) -> None:
        """Forget a call that is given up where it waits for a connection."""
        instance = call.instance
        endpoint = None if instance is None else self.endpoints.get(instance.address)
        if endpoint is not None:
            endpoint.withdraw(call)

    def mask(self, tried: list[str] | None) -> dict[str, int]:
        """Return the addresses to avoid for a call: where nobody should go, and where it was."""
        if tried is None:
            return self.unavailable
        mask = dict(self.unavailable)
        for address in tried:
            mask[address] = BACKING_OFF
        return mask

    def may_be_tried(self, address: str, now: float) -> bool:
        """Whether a call may be the one that tries an address again that should be avoided."""
        endpoint = self.endpoints.get(address)
        return endpoint is None or endpoint.may_be_tried(now)

    def add(self, instances: Iterable[Instance], now: float) -> None:
        """Note instances that have just been registered: back-off ends, warm connections open."""
        for instance in instances:
            known = self.endpoints.get(instance.address)
            if known is not None:
                known.reappeared(instance, now)
            elif self._context.warm > 0:
                self.endpoint(instance)  # the next check opens its connections

    def retire(self, addresses: Iterable[str], now: float) -> None:
        """Note addresses that have left the registry."""
        for address in addresses:
            endpoint = self.endpoints.pop(address, None)
            if endpoint is not None:
                self.retired.append(endpoint)
                endpoint.retire(now)

    def check(self, now: float) -> None:
        """Do what time asks for; called about once a second for all connections together."""
        budget = MAX_WARMED
        for endpoint in list(self.endpoints.values()):
            endpoint.check(now)
            if budget > 0 and endpoint.warm_up(now):
                budget -= 1
            if endpoint.is_unused(now):
                self.endpoints.pop(endpoint.address, None)
                endpoint.retire(now)
        for endpoint in self.retired:
            endpoint.check(now)
        self.retired = [endpoint for endpoint in self.retired if not endpoint.is_over]

    @property
    def held_bytes(self) -> int:
        """The bytes that providers have not taken."""
        endpoints = [*self.endpoints.values(), *self.retired]
        return sum([endpoint.held_bytes for endpoint in endpoints])

    def connections(self) -> dict[str, int]:
        """Return the number of connections by state, for the gauge of that name."""
        states = {"connecting": 0, "ready": 0, "draining": 0, "retired": 0, "backoff": 0}
        for endpoint in self.endpoints.values():
            states["connecting"] += 1 if endpoint.is_connecting else 0
            states["backoff"] += 1 if endpoint.state == BACKING_OFF else 0
            states["draining" if endpoint.state == DRAINING else "ready"] += endpoint.open_links
        for endpoint in self.retired:
            states["retired"] += endpoint.open_links
        return states

    def close(self) -> None:
        """End every connection; calls in flight have been settled before."""
        for endpoint in [*self.endpoints.values(), *self.retired]:
            endpoint.close()
        self.endpoints.clear()
        self.retired = []
        self.unavailable.clear()
