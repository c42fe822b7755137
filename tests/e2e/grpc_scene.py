"""The scene of the gRPC tests: real servers, a file registry that names them, and the sidecar.

Each server has a group of its own name, so that a call's ``tri-service-group`` decides who answers
through the sidecar; a server that is called directly takes no notice of it. The synchronous server
is also registered without a group: plain gRPC clients, who know nothing of Dubbo, reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc

from tests.e2e.certificates import Certificates
from tests.e2e.dubbo_python import SERVICE as PYTHON_GREETER
from tests.e2e.interop import FACTS, SERVICE, UNIMPLEMENTED_SERVICE, Stub
from tests.e2e.interop_cases import OPTIONS
from tests.e2e.peers import free_port, wait_until
from tests.e2e.server_process import ServerProcess
from tests.e2e.sidecar_process import SidecarProcess

DIRECT, SIDECAR = "direct", "sidecar"
GROUP = "tri-service-group"
VERSION = "tri-service-version"
TAG = "dubbo.tag"
CALL_LIMIT = 60.0
PLAIN = "org.example.peer.Plain"
SERVICES = (SERVICE, UNIMPLEMENTED_SERVICE, PYTHON_GREETER, PLAIN)

LISTENERS = """\
  - {{protocol: triple, address: "unix://{socket}"}}
  - {{protocol: auto, address: "127.0.0.1:{auto}"}}
  - {{protocol: triple, address: "127.0.0.1:{tls}",
      tls: {{certificate: "{certificate}", key: "{key}"}}}}
"""
SECTIONS = """\
upstream: {{tls: {{ca: "{ca}"}}}}
"""

Metadata = tuple[tuple[str, str], ...]


def provider(port: int, service: str = SERVICE, query: str = "", protocol: str = "grpc") -> str:
    """The URL that registers one service of a server."""
    return f"{protocol}://127.0.0.1:{port}/{service}{'?' if query else ''}{query}"


class Scene:
    """The servers, the registry file and the sidecar; every port is a free one."""

    def __init__(self, directory: Path, certificates: Certificates) -> None:
        self.directory = directory
        self.certificates = certificates
        self.servers: dict[str, ServerProcess] = {}
        self.tls_port = free_port()
        self.auto_port = free_port()
        self.server_socket = directory / "server.sock"
        self.sidecar_socket = directory / "sidecar.sock"
        self._registry = directory / "registry.yaml"
        self._providers: dict[str, list[str]] = {}
        self._sidecar: SidecarProcess | None = None
        self._write()

    def launch(self, name: str, kind: str, *options: str) -> ServerProcess:
        """Start a Python server without waiting for it and without registering it."""
        port = free_port()
        command = [sys.executable, "-m", "tests.e2e.interop_server", kind, "--name", name]
        command += ["--listen", f"127.0.0.1:{port}", *options]
        return self.adopt(name, ServerProcess(self.directory / f"{name}.log", port, *command))

    def adopt(self, name: str, server: ServerProcess) -> ServerProcess:
        """Keep a server that ends with the scene."""
        self.servers[name] = server
        return server

    def open(self) -> None:
        """Start the servers that all tests share."""
        self.launch("sync", "sync", "--listen", f"unix://{self.server_socket}")
        self.launch("aio", "aio")
        pair = ("--certificate", str(self.certificates.chain), "--key", str(self.certificates.key))
        self.launch("tls", "sync", *pair)
        sync, aio, tls = (self.servers[name].port for name in ("sync", "aio", "tls"))
        self._providers |= {
            "": [provider(sync), provider(sync, UNIMPLEMENTED_SERVICE)],
            "sync": self.grouped("sync", sync),
            "aio": self.grouped("aio", aio),
            "tls": [provider(tls, query="group=tls&ssl-enabled=true")],
            "tagged": [
                provider(sync, query="group=tagged"),
                provider(aio, query="group=tagged&dubbo.tag=gray"),
            ],
            "versions": [
                provider(sync, query="group=versions&version=1.0.0"),
                provider(aio, query="group=versions&version=2.0.0"),
            ],
        }
        self._write()
        for server in self.servers.values():
            server.wait_ready()

    @staticmethod
    def grouped(group: str, *ports: int) -> list[str]:
        """The URLs of servers that share a group."""
        services = (SERVICE, UNIMPLEMENTED_SERVICE)
        query = f"group={group}"
        return [provider(port, service, query) for port in ports for service in services]

    def register(self, name: str, urls: list[str]) -> None:
        """Register the URLs under a name (none: take them back) until the sidecar knows them."""
        self._providers[name] = urls
        self._write()
        if self._sidecar is not None:
            wait_until(self._is_known, what="the sidecar has read the registry")

    def _is_known(self) -> bool:
        """Whether the sidecar has read as many names of each service as there are."""
        assert self._sidecar is not None
        wanted = Counter(urlsplit(url).path[1:] for url in self._lines())
        return all(self._sidecar.listed(service) == wanted[service] for service in SERVICES)

    def _lines(self) -> Iterator[str]:
        for urls in self._providers.values():
            yield from urls

    def _write(self) -> None:
        new = self._registry.with_suffix(".new")
        new.write_text(json.dumps({"providers": list(self._lines())}))
        new.replace(self._registry)

    @property
    def sidecar(self) -> SidecarProcess:
        """The sidecar, started when a test needs it first."""
        if self._sidecar is None:
            listeners = LISTENERS.format(
                socket=self.sidecar_socket,
                auto=self.auto_port,
                tls=self.tls_port,
                certificate=self.certificates.chain,
                key=self.certificates.key,
            )
            sections = SECTIONS.format(ca=self.certificates.authority)
            registry = f"file://{self._registry}"
            self._sidecar = SidecarProcess(
                self.directory,
                registry,
                preload=SERVICES,
                listeners=listeners,
                sections=sections,
            )
        return self._sidecar

    def target(self, route: str, name: str) -> str:
        """Where a client connects to reach a server by a route."""
        return self.servers[name].address if route == DIRECT else self.sidecar.triple

    @contextlib.contextmanager
    def stub(self, route: str, name: str, **options: Any) -> Iterator[Stub]:
        """A synchronous client of one server on a connection of its own."""
        with connect(self.target(route, name), **options) as channel:
            yield Stub(channel, ((GROUP, name),))

    def facts(self, name: str, mark: str) -> dict[str, Any]:
        """A server's own account of the call with this mark."""
        with connect(self.servers[name].address) as channel:
            answer: dict[str, Any] = json.loads(channel.unary_unary(FACTS)(mark.encode()))
        return answer

    def close(self) -> None:
        """End every process."""
        for server in self.servers.values():
            server.kill()
        if self._sidecar is not None:
            self._sidecar.close()


def connect(target: str, credentials: Any = None, **options: Any) -> grpc.Channel:
    """A synchronous channel that shares its connection with no other one.

    ``options`` are grpcio's, with ``_`` for the dots after ``grpc``.
    """
    words = [*OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
    words += [(f"grpc.{key}", value) for key, value in options.items()]
    if credentials is None:
        return grpc.insecure_channel(target, options=words)
    return grpc.secure_channel(target, credentials, options=words)


class Loop:
    """An event loop in a thread: grpcio's asyncio client stays with the first loop it sees."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run to the end and return the result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_LIMIT)

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_LIMIT)
        self._loop.close()
