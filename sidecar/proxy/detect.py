"""Consumers whose protocol is not known yet: TLS first, then the first bytes.

What a connection sent until then is given to the protocol object that takes it over, as if it had
come at that moment. Those that wait here are counted as consumers, and do not wait for ever.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, Generic, TypeVar, cast, final

from sidecar.protocol.detect import DUBBO, MORE, detect
from sidecar.proxy.tls import ssl_text
from sidecar.settings.schema import Listener
from sidecar.telemetry import names
from sidecar.telemetry.counters import Counters

log = logging.getLogger(__name__)

# How long (s) a connection may say nothing at all where Dubbo is spoken: consumers connect when
# they start, and their heartbeat comes after 60 s; three of them is what Dubbo waits for one.
SILENCE: Final = 180.0

SLOW: Final = "slow_handshake"
UNKNOWN: Final = "unknown_protocol"
TLS: Final = "tls"

T = TypeVar("T")
Make = Callable[[Listener], asyncio.BaseProtocol]


@final
class Entrance:
    """How consumers of one listener come in.

    ``makers`` makes the protocol object for each word of ``protocol.detect`` that is spoken here.
    A single one is not asked for its first bytes. ``context`` is None without TLS.
    """

    def __init__(
        self, listener: Listener, makers: dict[str, Make], context: ssl.SSLContext | None
    ) -> None:
        self.listener: Final = listener
        self.context: Final = context
        self._makers: Final = makers
        self.only: Final = next(iter(makers)) if len(makers) == 1 else ""
        self.may_be_silent: Final = DUBBO in makers

    def accept(self, lobby: Lobby) -> asyncio.BaseProtocol:
        """Return the protocol object of a consumer that has just connected."""
        if self.only and self.context is None:
            return self._makers[self.only](self.listener)
        return Newcomer(lobby, self)

    def admit(self, word: str) -> asyncio.BaseProtocol | None:
        """Return the protocol object for a word, None when this is not spoken here."""
        make = self._makers.get(word)
        return None if make is None else make(self.listener)


@final
class Lobby:
    """Where connections wait; ``slow`` is how long a handshake may take, in seconds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        counters: Counters,
        slow: float,
    ) -> None:
        self.loop: Final = loop
        self.clock: Final = clock
        self.slow: Final = slow
        self._counters: Final = counters
        self._newcomers: Final[set[Newcomer]] = set()
        self._handshakes: Final[set[asyncio.Task[None]]] = set()

    def __len__(self) -> int:
        return len(self._newcomers)

    def enter(self, newcomer: Newcomer) -> None:
        """Let a connection wait."""
        self._newcomers.add(newcomer)

    def leave(self, newcomer: Newcomer) -> None:
        """Forget a connection that has its protocol object, or is gone."""
        self._newcomers.discard(newcomer)

    def run(self, handshake: Coroutine[Any, Any, None]) -> None:
        """Run the TLS handshake of a connection."""
        task = self.loop.create_task(handshake)
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    def count(self, word: str) -> None:
        """Count a connection that is ended, by the reason."""
        self._counters.count(names.CONSUMERS_CLOSED.name, word)

    def check(self, now: float) -> None:
        """End connections that have waited too long; called now and then."""
        for newcomer in list(self._newcomers):
            newcomer.check(now)

    def close(self) -> None:
        """End every connection that waits: none of them has asked for anything yet."""
        for newcomer in list(self._newcomers):
            newcomer.end()

    async def stop(self) -> None:
        """Wait until no handshake is under way, after ``close``."""
        tasks = list(self._handshakes)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@final
class _Begun(Generic[T]):
    """A coroutine that has run to its first await already, to be awaited for the rest."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine: Final = coroutine
        self._awaited: Final = coroutine.send(None)

    def __await__(self) -> Generator[Any, Any, T]:
        try:
            yield self._awaited
        except BaseException as error:
            self._coroutine.throw(error)
            raise
        return (yield from self._coroutine.__await__())


@final
class Newcomer(asyncio.Protocol):
    """The protocol object of a connection until its protocol is known."""

    def __init__(self, lobby: Lobby, entrance: Entrance) -> None:
        self._lobby: Final = lobby
        self._entrance: Final = entrance
        self._transport: asyncio.Transport | None = None
        self._held = b""
        self._is_securing = entrance.context is not None
        self._due = 0.0
        lobby.enter(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with a connected transport."""
        self._transport = cast("asyncio.Transport", transport)
        now = self._lobby.clock()
        context = self._entrance.context
        if context is None:
            self._expect(now)
            return
        self._due = now + self._lobby.slow
        handshake = self._lobby.loop.start_tls(
            self._transport, self, context, server_side=True, ssl_handshake_timeout=self._lobby.slow
        )
        # As a task it would begin too late: the first bytes may come before.
        self._lobby.run(self._secure(_Begun(handshake)))

    def _expect(self, now: float) -> None:
        wait = SILENCE if self._entrance.may_be_silent else self._lobby.slow
        self._due = now + wait

    async def _secure(self, handshake: _Begun[asyncio.Transport | None]) -> None:
        try:
            transport = await handshake
        except ssl.SSLError as error:
            self._refuse(TLS, ssl_text(error))
        except ConnectionAbortedError:
            self._refuse(SLOW, "the TLS handshake takes too long")
        except Exception:  # noqa: BLE001 - the consumer went away, or we are stopping
            self.end()
        else:
            self._secured(transport)

    def _secured(self, transport: asyncio.Transport | None) -> None:
        if transport is None or transport.is_closing() or self._transport is None:
            self.end()
            return
        self._transport = transport
        self._is_securing = False
        self._expect(self._lobby.clock())
        if self._entrance.only:
            self._hand_over(self._entrance.only)
        elif self._held:
            self._decide()

    def data_received(self, data: bytes) -> None:
        """Take the bytes of one read."""
        self._held += data
        if not self._is_securing:
            self._decide()

    def _decide(self) -> None:
        word = detect(self._held)
        if word != MORE:
            self._hand_over(word)
        elif self._entrance.may_be_silent:
            self._due = min(self._due, self._lobby.clock() + self._lobby.slow)

    def _hand_over(self, word: str) -> None:
        transport = self._transport
        if transport is None:
            return
        protocol = self._entrance.admit(word)
        if protocol is None:
            self._refuse(UNKNOWN, f"it begins with {self._held[:8].hex(' ')}")
            return
        self._transport = None
        self._lobby.leave(self)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._held:
            cast("asyncio.Protocol", protocol).data_received(self._held)
            self._held = b""

    def check(self, now: float) -> None:
        """End a connection that has waited too long."""
        if now >= self._due and self._transport is not None:
            self._refuse(SLOW, "its protocol is not known yet")

    def _refuse(self, word: str, why: str) -> None:
        if self._transport is not None:
            address = self._entrance.listener.address
            log.warning("a consumer's connection to %s was ended: %s (%s)", address, word, why)
            self._lobby.count(word)
            self.end()

    def end(self) -> None:
        """End the connection."""
        self._lobby.leave(self)
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget a consumer that went away; during a handshake, its end says more."""
        if not self._is_securing:
            self._lobby.leave(self)
            self._transport = None
