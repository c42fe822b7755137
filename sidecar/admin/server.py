"""The admin HTTP server: probes, metrics, services, explain, drain.

It answers on the loop that carries the calls, so every request is small and capped, and a page that
may be large is made in slices. GET never changes anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, cast, final

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from sidecar.admin.guard import refusal
from sidecar.admin.metrics import CONTENT_TYPE
from sidecar.model.protocol import NAMES

MAX_CONNECTIONS: Final = 64  # a few scrapers, probes and people
MAX_LINE: Final = 8190  # bytes of the request line: a service key, a method and some attachments
MAX_HEADER: Final = 8190  # bytes of one header
MAX_BODY: Final = 1024  # no request needs one
FIRST_REQUEST: Final = 5.0  # seconds a new connection may stay silent
KEEP_ALIVE: Final = 30.0  # seconds; longer than a usual scrape interval costs a slot for nothing
SHUTDOWN: Final = 1.0  # seconds for answers under way when the server closes
MAX_SHOWN: Final = 1000  # instances of one service in one answer, unless ?limit= says otherwise

_MAX_LIMIT_DIGITS: Final = 7
_log: Final = logging.getLogger("sidecar.admin")


class AdminState(Protocol):
    """What the server shows and does; the rest of the program seen from here."""

    def readiness(self) -> dict[str, Any]:
        """Return ``ready`` and the reasons."""

    def services(self) -> list[dict[str, Any]]:
        """Return one summary per watched service."""

    def service(self, key: str, limit: int) -> dict[str, Any] | None:
        """Return a service with up to ``limit`` of its instances; None when it is not watched."""

    def registries(self) -> list[dict[str, Any]]:
        """Return the state of each registry."""

    def rules(self) -> list[dict[str, Any]]:
        """Return the rules that exist, and why one is not used."""

    def explain(
        self, key: str, method: str, attachments: dict[str, str], protocol: str
    ) -> dict[str, Any] | None:
        """Return the walk of a call that is not sent; None when the service is not watched.

        ``protocol`` is a name of ``model.protocol``, or empty for the one that the service has.
        """

    def drain(self) -> None:
        """Begin the end of the process."""

    async def metrics(self) -> bytes:
        """Return the metrics page."""


@final
class AdminServer:
    """Serves one `AdminState` on one address."""

    def __init__(self, state: AdminState) -> None:
        self._state = state
        self._server: asyncio.Server | None = None
        logging.getLogger("aiohttp.server").addFilter(_is_worth_logging)
        self._silent: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}
        self._runner = web.AppRunner(
            self._application(),
            access_log=None,
            max_line_size=MAX_LINE,
            max_field_size=MAX_HEADER,
            keepalive_timeout=KEEP_ALIVE,
            lingering_time=0.0,  # a body that nobody needs is not waited for: it would cost a slot
            shutdown_timeout=SHUTDOWN,
        )

    async def start(self, host: str, port: int) -> int:
        """Listen and return the real port; raises OSError when the address cannot be bound."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Close the listener, let answers under way finish for a moment, close the rest."""
        if self._server is not None:
            self._server.close()
        for timer in self._silent.values():
            timer.cancel()
        self._silent.clear()
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._surround], client_max_size=MAX_BODY)
        for path, handler in (
            ("/livez", self._livez),
            ("/readyz", self._readyz),
            ("/metrics", self._metrics),
            ("/services", self._services),
            ("/services/{key:.+}", self._service),
            ("/registries", self._registries),
            ("/rules", self._rules),
            ("/explain", self._explain),
        ):
            application.router.add_get(path, handler, allow_head=False)
        application.router.add_post("/drain", self._drain)
        return application

    def _connection(self) -> asyncio.BaseProtocol:
        server = cast("web.Server", self._runner.server)
        if len(server.connections) >= MAX_CONNECTIONS and not _make_room(server.connections):
            return _Refusal()
        handler = server()
        timer = asyncio.get_running_loop().call_later(FIRST_REQUEST, self._expire, handler)
        self._silent[handler] = timer
        return handler

    def _expire(self, handler: RequestHandler) -> None:
        del self._silent[handler]
        handler.force_close()

    @web.middleware
    async def _surround(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Count the connection as used; give every error a JSON body."""
        timer = self._silent.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()
        try:
            return await handler(request)
        except web.HTTPException as error:
            response = _json({"error": f"{error.status} {error.reason}"}, error.status)
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
            return response
        except Exception:  # noqa: BLE001 - a fault in one answer must not look like a dead server
            _log.exception("the answer to %s failed", request.path)
            return _json({"error": "internal error; see the log"}, 500)

    async def _livez(self, request: web.Request) -> web.Response:
        del request
        return _json({"alive": True})

    async def _readyz(self, request: web.Request) -> web.Response:
        del request
        readiness = self._state.readiness()
        return _json(readiness, 200 if readiness["ready"] else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        del request
        page = await self._state.metrics()
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE})

    async def _services(self, request: web.Request) -> web.Response:
        del request
        return _json({"services": self._state.services()})

    async def _service(self, request: web.Request) -> web.Response:
        text = request.query.get("limit", str(MAX_SHOWN))
        if not text.isascii() or not text.isdigit() or len(text) > _MAX_LIMIT_DIGITS:
            return _json({"error": f"limit {text!r} is not a number"}, 400)
        key = request.match_info["key"]
        found = self._state.service(key, int(text))
        return _unknown(key) if found is None else _json(found)

    async def _registries(self, request: web.Request) -> web.Response:
        del request
        return _json({"registries": self._state.registries()})

    async def _rules(self, request: web.Request) -> web.Response:
        del request
        return _json({"rules": self._state.rules()})

    async def _explain(self, request: web.Request) -> web.Response:
        key = request.query.get("service", "")
        if not key:
            return _json({"error": "the parameter 'service' is needed"}, 400)
        attachments: dict[str, str] = {}
        for text in request.query.getall("attachment", []):
            name, equals, value = text.partition("=")
            if not name or not equals:
                return _json({"error": f"attachment {text!r} is not of the form k=v"}, 400)
            attachments[name] = value
        protocol = request.query.get("protocol", "")
        if protocol and protocol not in NAMES.values():
            return _json({"error": f"protocol {protocol!r} is neither dubbo nor triple"}, 400)
        method = request.query.get("method", "")
        found = self._state.explain(key, method, attachments, protocol)
        return _unknown(key) if found is None else _json(found)

    async def _drain(self, request: web.Request) -> web.Response:
        reason = refusal(request.remote or "", request.headers)
        if reason:
            return _json({"error": reason}, 403)
        _log.info("drain asked for by POST /drain")
        self._state.drain()
        return _json({"draining": True}, 202)


def _make_room(connections: list[RequestHandler]) -> bool:
    """End the oldest connection, so that those who hold many never keep a probe out."""
    _log.warning("more than %d connections; the oldest is ended", MAX_CONNECTIONS)
    for oldest in connections:
        if oldest.transport is not None:
            oldest.transport.abort()
            oldest.force_close()
            return True
    return False


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Leave out requests that are not HTTP: the server answers them, and they are no fault here."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


@final
class _Refusal(asyncio.Protocol):
    """Closes a connection above the cap as soon as it is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _json(value: object, status: int = 200) -> web.Response:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    body = msgspec.json.encode(value)
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def _unknown(key: str) -> web.Response:
    text = f"{key} is not watched; call it once, or name it under services.preload"
    return _json({"error": text}, 404)
