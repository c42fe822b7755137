"""A local address on which consumers call: TCP or a Unix socket.

Dubbo for Java does not call ``127.0.0.1`` when a URL says so: it puts the machine's own network
address in its place (NetUtils.filterLocalHost). A loopback listener therefore listens on all
addresses, unless that is switched off, and ends at once what does not come from this machine: a
connection from the address it was made to can have been made here only. On a Unix socket, who may
connect is for the rights of its file to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, cast

from sidecar.model.errors import SidecarError
from sidecar.proxy.unix_socket import UnixSocket
from sidecar.settings.forms import parse_listen_address
from sidecar.settings.schema import Listener as ListenerSettings

# A burst of consumers that all reconnect; above it the kernel makes them try again a second later.
BACKLOG: Final = 1024
LOOPBACK: Final = ("127.0.0.1", "localhost")  # what Java replaces
EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the doorman turns other machines away


class _Refusal(asyncio.Protocol):
    """Ends a connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()


def is_of_this_machine(peer: str, own: str) -> bool:
    """Tell from the two addresses of a connection whether it was made on this machine."""
    return peer == own or ip_address(peer).is_loopback


class _Doorman(asyncio.Protocol):
    """Lets connections of this machine in, and no others."""

    def __init__(
        self, accept: Callable[[], asyncio.BaseProtocol], refused: Callable[[], None]
    ) -> None:
        self._accept: Final = accept
        self._refused: Final = refused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        link = cast("asyncio.Transport", transport)
        peer, own = link.get_extra_info("peername"), link.get_extra_info("sockname")
        if peer is None or own is None:
            link.abort()  # it was reset before it was accepted, and has no address any more
            return
        if not is_of_this_machine(peer[0], own[0]):
            self._refused()
            link.abort()
            return
        protocol = self._accept()
        link.set_protocol(protocol)
        protocol.connection_made(link)


class Listener:
    """Accepts consumers. ``admit`` makes the connection object, or None when there are too many.

    ``refused`` is told of each connection that came from another machine.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: ListenerSettings,
        admit: Callable[[], asyncio.BaseProtocol | None],
        refused: Callable[[], None],
    ) -> None:
        self._loop: Final = loop
        self._address: Final = settings.address
        self._same_machine: Final = settings.same_machine
        self._admit: Final = admit
        self._refused: Final = refused
        self._server: asyncio.Server | None = None
        self._file: UnixSocket | None = None

    def _accept(self) -> asyncio.BaseProtocol:
        return self._admit() or _Refusal()

    def _doorman(self) -> asyncio.BaseProtocol:
        return _Doorman(self._accept, self._refused)

    async def start(self) -> None:
        """Bind and listen; raises SidecarError with a plain sentence when that fails."""
        try:
            place, port = parse_listen_address(self._address)
            if port < 0:
                await self._listen_in_file(place)
            else:
                await self._listen(place, port)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise SidecarError(f"cannot listen on {self._address}: {reason}") from error

    async def _listen(self, host: str, port: int) -> None:
        accept: Callable[[], asyncio.BaseProtocol] = self._accept
        if self._same_machine and host in LOOPBACK:
            host, accept = EVERY_ADDRESS, self._doorman
        self._server = await self._loop.create_server(accept, host, port, backlog=BACKLOG)

    async def _listen_in_file(self, path: str) -> None:
        file = UnixSocket(path)
        bound = file.bind()
        try:
            self._server = await self._loop.create_unix_server(
                self._accept, sock=bound, backlog=BACKLOG
            )
        except BaseException:
            file.remove()
            bound.close()
            raise
        self._file = file

    @property
    def address(self) -> str:
        """Where consumers call: as it is configured, with the port that was bound."""
        if self.port == 0:
            return self._address
        return f"{self._address.rpartition(':')[0]}:{self.port}"

    @property
    def port(self) -> int:
        """The port that was bound; 0 before and after, and for a Unix socket."""
        sockets = self._server.sockets if self._server is not None and self._file is None else ()
        return int(sockets[0].getsockname()[1]) if sockets else 0

    def stop(self) -> None:
        """Accept no further consumer; those connected stay."""
        if self._file is not None:
            self._file.remove()
            self._file = None
        if self._server is not None:
            self._server.close()
            self._server = None
