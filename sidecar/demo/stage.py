"""The processes of the demo: where they are, how they start, and that none outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import urlencode

from sidecar.admin.client import ask
from sidecar.demo.consumer import Consumer
from sidecar.demo.registries import DemoRegistry
from sidecar.demo.wire import INTERFACE, METHOD
from sidecar.demo.zookeeper import free_port
from sidecar.model.errors import SidecarError

ZONES: Final = {"bj-a": "a1,a2,a-gray=gray", "bj-b": "b1,b2,b-gray=gray"}
READY_LIMIT: Final = 15.0  # seconds for a process to come up or a change to arrive
STOP_LIMIT: Final = 10.0
POLL: Final = 0.1

_CONFIG: Final = """\
consumer:
  application: demo-web
  parameters: {{zone: bj-a}}
listeners:
  - address: "127.0.0.1:{port}"
registries:
  - name: demo
    url: "{url}"
    coalesce: 200ms                    # short, so that the demo shows changes soon
    session_timeout: 5s
    allow_networks: ["127.0.0.0/8"]    # loopback providers are refused by default
services:
  preload: ["{interface}"]
drain: {{grace: 5s, idle: 500ms}}
admin:
  address: "127.0.0.1:{admin_port}"
"""


@final
class ZoneProcess:
    """The providers of one zone."""

    def __init__(self, zone: str, registry: DemoRegistry) -> None:
        self._zone = zone
        self._registry = registry
        self._process: asyncio.subprocess.Process | None = None
        self.urls: dict[str, str] = {}

    async def start(self) -> None:
        """Start the process and wait until its instances are registered."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sidecar.demo.provider"),
            *(self._zone, ZONES[self._zone], self._registry.provider_url),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        await self._read_urls()

    async def set_weight(self, name: str, weight: int) -> None:
        """Let an instance register a new weight."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"weight {name} {weight}\n".encode())
        await self._read_urls()

    def address(self, name: str) -> str:
        """Return ``host:port`` of an instance."""
        return self.urls[name].partition("://")[2].partition("/")[0]

    async def kill(self) -> None:
        """End the process without any farewell, as a power cut would."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _read_urls(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(READY_LIMIT):
            line = await self._process.stdout.readline()
        if not line:
            raise SidecarError(f"the providers of zone {self._zone} did not start")
        self.urls = json.loads(line)
        await self._registry.registered(self._zone, self.urls.values())


@final
class SidecarProcess:
    """The sidecar, run as users run it."""

    def __init__(self, directory: Path, registry_url: str) -> None:
        self.port = free_port()
        self.admin = f"http://127.0.0.1:{free_port()}"
        self.config = directory / "sidecar.yaml"
        self._log = directory / "sidecar.log"
        self._process: asyncio.subprocess.Process | None = None
        self.config.write_text(
            _CONFIG.format(
                port=self.port,
                admin_port=self.admin.rpartition(":")[2],
                url=registry_url,
                interface=INTERFACE,
            )
        )

    async def start(self) -> None:
        """Start the sidecar and wait until it is ready."""
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "sidecar", "run", "--config", str(self.config)),
                stdout=log,
                stderr=log,
            )
        await wait_for(self._is_ready, "the sidecar to be ready", self.log_tail)

    async def explain(self, tag: str = "") -> dict[str, Any]:
        """Ask where a call would go."""
        query = [("service", INTERFACE), ("method", METHOD)]
        if tag:
            query.append(("attachment", f"dubbo.tag={tag}"))
        return await asyncio.to_thread(ask, f"{self.admin}/explain?{urlencode(query)}")

    async def stop(self) -> int | None:
        """Ask the sidecar to end, as Kubernetes does, and return its exit code."""
        if self._process is None:
            return None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_LIMIT):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        return self._process.returncode

    def log_tail(self) -> str:
        """Return the end of the sidecar's log."""
        return self._log.read_text(errors="replace")[-2000:]

    async def _is_ready(self) -> bool:
        if self._process is not None and self._process.returncode is not None:
            raise SidecarError(f"the sidecar ended at once:\n{self.log_tail()}")
        try:
            return bool((await asyncio.to_thread(ask, f"{self.admin}/readyz"))["ready"])
        except SidecarError:
            return False


@final
class Stage:
    """All processes of one demo."""

    def __init__(self, directory: Path, registry: DemoRegistry) -> None:
        self.registry = registry
        self.zones = {zone: ZoneProcess(zone, registry) for zone in ZONES}
        self.sidecar = SidecarProcess(directory, registry.url)
        self.consumer = Consumer("127.0.0.1", self.sidecar.port)

    async def start(self) -> None:
        """Start providers, then the sidecar."""
        await asyncio.gather(*(zone.start() for zone in self.zones.values()))
        await self.sidecar.start()

    async def close(self) -> None:
        """End what is still running."""
        self.consumer.close()
        await self.sidecar.stop()
        for zone in self.zones.values():
            await zone.kill()
        with contextlib.suppress(SidecarError):
            await self.registry.close()


async def wait_for(
    is_so: Callable[[], Awaitable[bool]], what: str, detail: Callable[[], str] = str
) -> None:
    """Look again and again until it is so; raises SidecarError when it takes too long."""
    try:
        async with asyncio.timeout(READY_LIMIT):
            while not await is_so():
                await asyncio.sleep(POLL)
    except TimeoutError:
        raise SidecarError(f"waited {READY_LIMIT:g} s for {what}\n{detail()}") from None
