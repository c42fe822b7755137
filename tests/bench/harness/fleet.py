"""Registrations as Java providers write them, and a sidecar in front of a registry that holds them.

The instances live in 127.0.0.0/8: any of them can be called when a provider listens on all
addresses, and none of them is ever reached outside this machine.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from harness import process, wheels
from harness.competitors import sidecar_config
from harness.native import INTERFACE, METHOD, VERSION

PORT = 20880
READY_SECONDS = 60.0
KEY = f"{INTERFACE}:{VERSION}"
PROVIDERS_PATH = f"/dubbo/{INTERFACE}/providers"


def address(index: int, port: int = PORT) -> str:
    """Return the address of the instance with this number, up to 4 million different ones."""
    return f"127.{1 + index // 62500}.{index // 250 % 250}.{1 + index % 250}:{port}"


def is_untagged(index: int) -> bool:
    """Tell whether a call without a tag may reach the instance with this number."""
    return index % 10 != 9


def url(index: int, port: int = PORT) -> str:
    """Return the provider URL of one instance, with the parameters of a Java 3.3 provider.

    Every tenth instance is gray, the zones are three, and start time and pid differ each time.
    """
    parameters = {
        "anyhost": "true", "application": "greeter", "background": "false",
        "deprecated": "false", "dubbo": "2.0.2", "dynamic": "true", "executor-management-mode":
        "isolation", "file-cache": "true", "generic": "false", "interface": INTERFACE,
        "methods": f"{METHOD},sayGoodbye,count,echo", "owner": "bench", "pid": str(1000 + index),
        "prefer.serialization": "hessian2,fastjson2", "release": "3.3.6", "revision": VERSION,
        "service-name-mapping": "true", "side": "provider", "timeout": "3000",
        "timestamp": str(1_760_000_000_000 + index * 37), "version": VERSION,
        "zone": f"bj-{'abc'[index % 3]}",
    }  # fmt: skip
    if not is_untagged(index):
        parameters["dubbo.tag"] = "gray"
    return f"dubbo://{address(index, port)}/{INTERFACE}?{urlencode(parameters, safe=',')}"


def node(index: int, port: int = PORT) -> str:
    """Return the ZooKeeper path of one registration."""
    return f"{PROVIDERS_PATH}/{quote(url(index, port), safe='')}"


class Sidecar:
    """A running product process, asked through its admin port only."""

    def __init__(self, child: subprocess.Popen[bytes], port: int, admin_port: int) -> None:
        self.pid = child.pid
        self.port = port
        self.admin_port = admin_port

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of one GET."""
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metric(self, name: str, label: str = "") -> float:
        """Return the sum of all samples of one metric, or of those with a label."""
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith((name + " ", name + "{")) and label in line:
                total += float(line.rsplit(" ", 1)[1])
        return total

    def eligible(self) -> list[str]:
        """Return the addresses a call without a tag may reach."""
        status, body = self.get(f"/explain?service={quote(KEY, safe='')}&method={METHOD}")
        if status != 200:
            return []
        addresses: list[str] = json.loads(body)["eligible"]
        return addresses

    def wait_for(self, count: int, seconds: float = READY_SECONDS) -> float:
        """Wait until the service has exactly this many instances; return the seconds it took.

        Raises StartError when the time is over.
        """
        begin = time.monotonic()
        while (found := self.metric("sidecar_instances", 'state="matching"')) != count:
            if time.monotonic() - begin > seconds:
                raise process.StartError(f"{found:.0f} instances are known instead of {count}")
            time.sleep(0.1)
        return time.monotonic() - begin


@contextmanager
def sidecar(
    registry: str, out: Path, *, name: str, changes: dict[str, Any] | None = None
) -> Iterator[Sidecar]:
    """Run the compiled product in front of one registry URL; `changes` replace whole sections."""
    port, admin_port = process.free_port(), process.free_port()
    settings = json.loads(sidecar_config(port, registry, admin_port))
    settings.update(changes or {})
    scratch = out / "run"
    scratch.mkdir(parents=True, exist_ok=True)
    config = scratch / f"{name}.yaml"
    config.write_text(json.dumps(settings, indent=1))
    command = [*wheels.PYTHON, "-m", "sidecar", "run", "--config", str(config)]
    environment = wheels.environment(wheels.installed("compiled", out))
    with process.started(
        command, port=port, log=scratch / f"{name}.log", environment=environment
    ) as child:
        yield Sidecar(child, port, admin_port)


@contextmanager
def zookeeper(out: Path) -> Iterator[Any]:
    """Run the private ZooKeeper that the tests use, on a fresh data directory."""
    import tempfile

    from tests.fixtures.zookeeper import ZooKeeperServer, find_classpath

    classpath = find_classpath()
    if not classpath:
        raise process.StartError("no ZooKeeper here: install libzookeeper-java, or ZOOKEEPER_HOME")
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(dir=out))
        server = ZooKeeperServer(Path(directory), classpath)
        stack.callback(server.close)
        server.start()
        yield server
