"""A local address on which consumers call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from sidecar.model.errors import SidecarError
from sidecar.proxy.downstream import Downstream

# A burst of consumers that all reconnect; above it the kernel makes them try again a second later.
BACKLOG: Final = 1024
MAX_PORT: Final = 65535


class _Refusal(asyncio.Protocol):
    """Ends a connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()


class Listener:
    """Accepts consumers. ``admit`` makes the connection object, or None when there are too many."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: str,
        default_service: str,
        admit: Callable[[str], Downstream | None],
    ) -> None:
        self._loop: Final = loop
        self._address: Final = address
        self._default_service: Final = default_service
        self._admit: Final = admit
        self._server: asyncio.Server | None = None

    def _accept(self) -> asyncio.BaseProtocol:
        downstream = self._admit(self._default_service)
        # Compiled classes cannot inherit from asyncio's; loops call the methods by name.
        return _Refusal() if downstream is None else downstream  # type: ignore[return-value]

    async def start(self) -> None:
        """Bind and listen; raises SidecarError with a plain sentence when that fails."""
        host, _, port = self._address.rpartition(":")
        try:
            self._server = await self._loop.create_server(
                self._accept, host.strip("[]"), _port(port), backlog=BACKLOG
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise SidecarError(f"cannot listen on {self._address}: {reason}") from error

    @property
    def port(self) -> int:
        """The port that was bound, 0 before and after."""
        sockets = self._server.sockets if self._server is not None else ()
        return int(sockets[0].getsockname()[1]) if sockets else 0

    def stop(self) -> None:
        """Accept no further consumer; those connected stay."""
        if self._server is not None:
            self._server.close()
            self._server = None


def _port(text: str) -> int:
    """Read a port; uvloop would listen on the remainder of a number that is too large."""
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise ValueError(f"{text!r} is no port")
    return int(text)
