"""The processes of the demo: where they are, how they start, and that none outlives it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, final
from urllib.parse import urlencode

import sidecar
from sidecar.admin.client import ask
from sidecar.demo.consumer import DubboConsumer, TripleConsumer
from sidecar.demo.registries import DemoRegistry
from sidecar.demo.wire import INTERFACE, METHOD
from sidecar.demo.zookeeper import free_port
from sidecar.model.errors import SidecarError

READY_LIMIT: Final = 15.0  # seconds for a process to come up or a change to arrive
STOP_LIMIT: Final = 10.0
POLL: Final = 0.1


class Plan(NamedTuple):
    """What one provider is to be."""

    name: str
    zone: str
    tag: str = ""


PLANS: Final = (
    Plan("a1", "bj-a"), Plan("a2", "bj-a"), Plan("a-gray", "bj-a", "gray"),
    Plan("b1", "bj-b"), Plan("b2", "bj-b"), Plan("b-gray", "bj-b", "gray"),
)  # fmt: skip

_LOG: Final = "sidecar.log"
_CONFIG: Final = """\
consumer:
  application: demo-web
  parameters: {{zone: bj-a}}
listeners:
  - {{protocol: dubbo, address: "127.0.0.1:{port}"}}
  - {{protocol: triple, address: "127.0.0.1:{triple_port}"}}
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


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules."""
    return (sys.executable, "-P", "-m", module, *arguments)


def same_package() -> dict[str, str]:
    """Return an environment in which a new process imports the package that this one runs."""
    return os.environ | {"PYTHONPATH": str(Path(sidecar.__file__).parents[1])}


@final
class ProviderProcess:
    """One instance of the sample service."""

    def __init__(self, plan: Plan, process: asyncio.subprocess.Process) -> None:
        self.plan = plan
        self.url = ""
        self._process = process

    @classmethod
    async def start(cls, plan: Plan, registry_url: str) -> ProviderProcess:
        """Start the process; `await_url` returns once it is registered."""
        process = await asyncio.create_subprocess_exec(
            *python("sidecar.demo.provider", plan.name, plan.zone, plan.tag, registry_url),
            env=same_package(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return cls(plan, process)

    async def await_url(self) -> None:
        """Read what the process registered as."""
        output = cast("asyncio.StreamReader", self._process.stdout)
        async with asyncio.timeout(READY_LIMIT):
            self.url = (await output.readline()).decode().strip()
        if not self.url:
            raise SidecarError(f"the provider {self.plan.name} did not start")

    async def set_weight(self, weight: int) -> None:
        """Let it register a new weight."""
        cast("asyncio.StreamWriter", self._process.stdin).write(f"{weight}\n".encode())
        await self.await_url()

    @property
    def address(self) -> str:
        """Its ``host:port``."""
        return self.url.partition("://")[2].partition("/")[0]

    async def kill(self) -> None:
        """End the process without any farewell, as a power cut would."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@final
class SidecarProcess:
    """The sidecar, run as users run it, from a configuration file in the demo's directory."""

    def __init__(self, directory: Path, process: asyncio.subprocess.Process, admin: str) -> None:
        self.admin = admin
        self._directory = directory
        self._process = process

    @classmethod
    async def start(
        cls, directory: Path, registry_url: str, port: int, triple_port: int
    ) -> SidecarProcess:
        """Start the process; `await_ready` returns once it can take calls."""
        config = directory / "sidecar.yaml"
        admin_port = free_port()
        values = {
            "port": port,
            "triple_port": triple_port,
            "admin_port": admin_port,
            "url": registry_url,
            "interface": INTERFACE,
        }
        config.write_text(_CONFIG.format(**values))
        with (directory / _LOG).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *python("sidecar", "run", "--config", str(config)),
                env=same_package(),
                stdout=log,
                stderr=log,
            )
        return cls(directory, process, f"http://127.0.0.1:{admin_port}")

    async def await_ready(self) -> None:
        """Wait until the sidecar says that it is ready."""

        async def is_ready() -> bool:
            if self._process.returncode is not None:
                raise SidecarError(f"the sidecar ended at once:\n{self.log_tail()}")
            try:
                return bool((await asyncio.to_thread(ask, f"{self.admin}/readyz"))["ready"])
            except SidecarError:
                return False

        await wait_for(is_ready, "the sidecar to be ready", self.log_tail)

    async def explain(self, tag: str = "", protocol: str = "dubbo") -> dict[str, Any]:
        """Ask where a call would go."""
        query = [("service", INTERFACE), ("method", METHOD), ("protocol", protocol)]
        if tag:
            query.append(("attachment", f"dubbo.tag={tag}"))
        return await asyncio.to_thread(ask, f"{self.admin}/explain?{urlencode(query)}")

    async def stop(self) -> int | None:
        """Ask the sidecar to end, as Kubernetes does, and return its exit code."""
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
        return (self._directory / _LOG).read_text(errors="replace")[-2000:]


@final
class Stage:
    """All processes of one demo."""

    def __init__(self, registry: DemoRegistry, port: int, triple_port: int) -> None:
        self.registry = registry
        self.port = port
        self.triple_port = triple_port
        self.consumer = DubboConsumer("127.0.0.1", port)
        self.triple_consumer = TripleConsumer("127.0.0.1", triple_port)
        self.providers: dict[str, ProviderProcess] = {}
        self._sidecar: SidecarProcess | None = None

    @property
    def sidecar(self) -> SidecarProcess:
        """The sidecar; there is one once `start` has returned."""
        return cast("SidecarProcess", self._sidecar)

    async def start(self, directory: Path) -> None:
        """Start providers, then the sidecar, and wait until calls can be made."""
        for plan in PLANS:
            started = await ProviderProcess.start(plan, self.registry.provider_url)
            self.providers[plan.name] = started
        for provider in self.providers.values():
            await provider.await_url()
        await self.register(*self.providers)
        self._sidecar = await SidecarProcess.start(
            directory, self.registry.url, self.port, self.triple_port
        )
        await self.sidecar.await_ready()

    async def register(self, *names: str) -> None:
        """Make the registry list these providers and no others, if that is for us to do."""
        await self.registry.put_providers([self.providers[name].url for name in names])

    async def close(self) -> None:
        """End what is still running."""
        await self.consumer.close()
        await self.triple_consumer.close()
        if self._sidecar is not None:
            await self._sidecar.stop()
        for provider in self.providers.values():
            await provider.kill()
        await self.registry.close()


async def wait_for(
    is_so: Callable[[], Awaitable[bool]], what: str, detail: Callable[[], str] = str
) -> None:
    """Look again and again until it is so; raises SidecarError when it takes too long."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(READY_LIMIT):
            while not await is_so():
                _show_waiting(f"   waiting for {what} ... {time.monotonic() - started:.0f} s")
                await asyncio.sleep(POLL)
    except TimeoutError:
        raise SidecarError(f"waited {READY_LIMIT:g} s for {what}\n{detail()}") from None
    finally:
        _show_waiting("")


def _show_waiting(text: str) -> None:
    """Replace the last line of a terminal; nothing is shown anywhere else."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\033[K{text}")
        sys.stdout.flush()
