"""The sidecar as its users run it: a process of its own with a configuration file."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tests.e2e.peers import INTERFACE, MENU, STREAMS, TEA, environment, free_port, wait_until

START_LIMIT = 20.0
END_LIMIT = 40.0
REQUEST_LIMIT = 5.0
COALESCE = 0.2

CONFIGURATION = """
consumer:
  application: order-web
  parameters: {{zone: bj-a}}
listeners:
  - {{protocol: dubbo, address: "127.0.0.1:{port}"}}
registries:
  - name: main
    url: "{registry}"
    coalesce: {coalesce}ms
    allow_networks: ["127.0.0.0/8"]
  - name: written
    url: "file://{file}"
    allow_networks: ["127.0.0.0/8"]
services: {{preload: [{preload}]}}
drain: {{grace: 10s, idle: 500ms}}
admin: {{address: "127.0.0.1:{admin}"}}
"""


class SidecarProcess:
    """A sidecar that is ready when the constructor returns."""

    def __init__(
        self, directory: Path, registry: str, port: int = 0, triple_port: int = 0
    ) -> None:
        self.port = port or free_port()
        self.triple_port = triple_port or free_port()
        self._admin = f"http://127.0.0.1:{free_port()}"
        self._written: list[str] = []
        self._file = directory / f"registry-{self.port}.yaml"
        self.write_down()
        configuration = directory / f"sidecar-{self.port}.yaml"
        configuration.write_text(
            CONFIGURATION.format(
                port=self.port,
                triple_port=self.triple_port,
                preload=", ".join((INTERFACE, STREAMS, TEA, MENU)),
                menu=MENU,
                tea=TEA,
                coalesce=int(COALESCE * 1000),
                registry=registry,
                file=self._file,
                admin=self._admin.rpartition(":")[2],
            )
        )
        self.log = directory / f"sidecar-{self.port}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sidecar", "run", "--config", str(configuration)],
                stdout=log, stderr=log, env=environment(), cwd=directory,
            )  # fmt: skip
        try:
            wait_until(self._is_ready, START_LIMIT, "the sidecar is ready")
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The direct URL for consumers."""
        return f"dubbo://127.0.0.1:{self.port}"

    @property
    def triple_url(self) -> str:
        """The direct URL for Triple consumers."""
        return f"tri://127.0.0.1:{self.triple_port}"

    def write_down(self, *urls: str) -> None:
        """Add providers to the registry that is a file; they are known a second later."""
        self._written += urls
        self._file.write_text(json.dumps({"providers": self._written}))

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the sidecar ended:\n{self.text()}")
        try:
            self.get("/readyz")
        except OSError:
            return False
        return True

    def text(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-6000:]

    def get(self, path: str, **query: str) -> str:
        """Return what the admin server answers. Raises ``OSError`` for an error status."""
        url = f"{self._admin}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=REQUEST_LIMIT) as answer:
            text: str = answer.read().decode()
        return text

    def listed(self, interface: str) -> int:
        """Return how many names of an interface it has read from the registry."""
        service: dict[str, Any] = json.loads(self.get(f"/services/{interface}"))
        count: int = service["discovery"]["registries"]["main"]["names"]
        return count

    def stop(self) -> int:
        """End it gracefully (SIGTERM) and return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(END_LIMIT)

    def close(self) -> None:
        """End it however it stands."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
