"""Opening connections to providers, off the path of the calls.

Host names are resolved by the loop's resolver, which works in threads: a slow name server delays
the calls that wait for this address, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from sidecar.proxy.endpoint import Endpoint
from sidecar.proxy.tls import ProviderTls, ssl_text
from sidecar.telemetry import names
from sidecar.telemetry.counters import Counters

log = logging.getLogger(__name__)


class Connector:
    """Opens one connection at a time for each endpoint that asks; ``timeout`` is in seconds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make_link: Callable[[Any], Any],
        timeout: float,
        clock: Callable[[], float],
        counters: Counters,
        tls: ProviderTls,
    ) -> None:
        self._loop: Final = loop
        self._make_link: Final = make_link
        self._timeout: Final = timeout
        self._clock: Final = clock
        self._counters: Final = counters
        self._tls: Final = tls
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def start(self, endpoint: Endpoint[Any, Any]) -> None:
        """Begin to connect; the endpoint is told how it went."""
        task = self._loop.create_task(self._connect(endpoint))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, endpoint: Endpoint[Any, Any]) -> None:
        link = self._make_link(endpoint)

        def factory() -> asyncio.BaseProtocol:
            # Compiled classes cannot inherit from asyncio's; loops call the methods by name.
            return cast("asyncio.BaseProtocol", link)

        try:
            options = await self._tls_options(endpoint)
            async with asyncio.timeout(self._timeout):
                transport, _ = await self._loop.create_connection(
                    factory, endpoint.host, endpoint.port, **options
                )
                why = "nobody listens" if _is_own_end(transport) else ""
                if options:
                    why = why or self._tls.complaint(transport)
                why = why or await link.greeted()
        except Exception as error:  # noqa: BLE001 - else the address would be connecting for ever
            link.abort()
            self._failed(endpoint, _reason(error))
            return
        if why:
            link.abort()
            self._failed(endpoint, why)
        else:
            endpoint.connected(link, self._clock())

    async def _tls_options(self, endpoint: Endpoint[Any, Any]) -> dict[str, Any]:
        """Return what makes a connection a TLS one; nothing for a plain one."""
        if not self._tls.is_for(endpoint.is_tls):
            return {}
        return {
            "ssl": await self._tls.context(self._loop),
            "server_hostname": self._tls.server_name or endpoint.host,
            "ssl_handshake_timeout": self._timeout,
        }

    def _failed(self, endpoint: Endpoint[Any, Any], why: str) -> None:
        self._counters.count(names.CONNECT_FAILURES.name)
        log.warning("no connection to %s: %s", endpoint.address, why)
        endpoint.connect_failed(why, self._clock())

    async def stop(self) -> None:
        """Abandon the attempts under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError) and error.errno is None:
        return "timed out"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {ssl_text(error)}"
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return text or type(error).__name__


def _is_own_end(transport: asyncio.Transport) -> bool:
    """Whether both ends are one socket.

    Linux allows it when a local port of the ephemeral range is dialled that nobody listens on.
    """
    return bool(
        transport.get_extra_info("sockname") == transport.get_extra_info("peername") is not None
    )
