"""One protocol of the data plane: its consumers, its calls and its provider connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sidecar.dispatch.directory import Directory
from sidecar.model.instance import Instance
from sidecar.proxy.call import Call
from sidecar.proxy.connector import Connector
from sidecar.proxy.consumer import ConsumerLink
from sidecar.proxy.link import FlushQueue
from sidecar.proxy.pool import Pool
from sidecar.proxy.timer import DeadlineTimer
from sidecar.proxy.walk import Resolver, Surroundings, Walk
from sidecar.settings.schema import Listener, Settings
from sidecar.telemetry.counters import Counters


class Tools(NamedTuple):
    """What every engine is made with.

    ``clock`` is monotonic, ``wall`` is the time of day, both in seconds; ``draw`` returns random
    floats in [0, 1).
    """

    settings: Settings
    directory: Directory
    resolver: Resolver
    counters: Counters
    loop: asyncio.AbstractEventLoop
    queue: FlushQueue
    clock: Callable[[], float]
    wall: Callable[[], float]
    draw: Callable[[], float]

    def surroundings(self) -> Surroundings:
        """Return what a walk needs, with a timer of its own."""
        return Surroundings(
            self.settings, self.directory, self.resolver,
            DeadlineTimer(self.loop.call_later, self.clock), self.draw,
            self.wall() - self.clock(),
        )  # fmt: skip


C = TypeVar("C", bound=Call)


class Engine(Generic[C]):
    """The parts of one protocol, of which ``bit`` is the constant of ``model.protocol``.

    What differs is made by the subclass: the walk with its pool, the connector, and consumer
    connections on ``admit``.
    """

    def __init__(
        self,
        tools: Tools,
        protocol: str,
        bit: int,
        walk: Walk[C],
        connector: Connector,
        consumers: set[Any],
    ) -> None:
        self.protocol: Final = protocol
        self.consumers: Final[set[ConsumerLink]] = consumers
        self.walk: Final = walk
        self.bit: Final = bit
        self._tools: Final = tools
        self._connector: Final = connector
        self._pool: Final[Pool[C]] = walk.pool

    def admit(self, listener: Listener) -> asyncio.BaseProtocol:
        """Return the protocol object of a consumer that has just connected."""
        raise NotImplementedError

    @property
    def last_request(self) -> float:
        """When the last request of any consumer came, connected or not; 0 before the first."""
        raise NotImplementedError

    @property
    def inflight(self) -> int:
        """Calls that were accepted and not answered yet."""
        return sum(each.inflight for each in self.consumers)

    @property
    def unfinished(self) -> int:
        """What a process that ends waits for: calls, and consumers that are being told."""
        return self.inflight + sum(each.is_unfinished for each in self.consumers)

    @property
    def waiting(self) -> int:
        """Calls that wait for the first list of their service."""
        return len(self.walk.waiting)

    @property
    def held_bytes(self) -> int:
        """The bytes of bodies that consumers or providers have not taken."""
        return sum(each.held_bytes for each in self.consumers) + self._pool.held_bytes

    @property
    def unavailable(self) -> dict[str, int]:
        """Addresses that get no new calls: DRAINING or BACKING_OFF of ``balance.pool``."""
        return self._pool.unavailable

    def connect_error(self, address: str) -> str:
        """Return why the last attempt to connect to an address failed, empty if it did not."""
        endpoint = self._pool.endpoints.get(address)
        return "" if endpoint is None else endpoint.connect_error

    def connections(self) -> dict[str, int]:
        """Return the number of provider connections by state."""
        return self._pool.connections()

    def wake(self, service: str, now: float) -> None:
        """Go on with the calls that wait for a service."""
        self.walk.wake(service, now)

    def addresses_changed(self, gone: Iterable[str], added: Iterable[Instance], now: float) -> None:
        """Note addresses that no service has any more, and instances that were registered."""
        self._pool.retire(gone, now)
        self._pool.add((each for each in added if each.protocols & self.bit), now)

    def check(self, now: float) -> None:
        """Do what time asks for; called about once a second."""
        self.walk.surroundings.set_wall_offset(self._tools.wall() - now)
        self._pool.check(now)
        stall = float(self._tools.settings.limits.consumer_stall)
        for consumer in list(self.consumers):
            consumer.check(now, stall)

    def refuse_new(self) -> None:
        """Take no new calls; those in flight finish."""
        self.walk.surroundings.is_closing = True
        for consumer in list(self.consumers):
            consumer.leave()

    async def stop(self) -> None:
        """End everything now; calls still open end with their consumer's connection."""
        for consumer in list(self.consumers):
            self.give_up(consumer)
            consumer.abort()
        self._pool.close()
        await self._connector.stop()
        self.walk.surroundings.timer.stop()

    def give_up(self, consumer: Any) -> None:
        """End the calls of a consumer that is gone."""
        raise NotImplementedError
