"""The sidecar as its users run it: a process of its own with a configuration file."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.peers import INTERFACE, environment, free_port, wait_until

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
  - {{protocol: triple, address: "127.0.0.1:{triple}", paths: {paths}}}
{listeners}registries:
  - name: main
    url: "{registry}"
    coalesce: {coalesce}ms
    allow_networks: ["127.0.0.0/8"]
{registries}services: {{preload: [{preload}]}}
drain: {{grace: {grace}s, idle: 500ms}}
admin: {{address: "127.0.0.1:{admin}"}}
{sections}"""


class SidecarProcess:
    """A sidecar that is ready when the constructor returns.

    ``preload`` names the services it watches from the start, ``paths`` those that the Triple
    listener finds by their paths; ``listeners``, ``registries`` and ``sections`` are further items
    of those lists and further sections of its file. ``grace`` is in seconds.
    """

    def __init__(
        self,
        directory: Path,
        registry: str,
        port: int = 0,
        preload: Sequence[str] = (INTERFACE,),
        listeners: str = "",
        sections: str = "",
        registries: str = "",
        triple_port: int = 0,
        paths: Mapping[str, str] | None = None,
        grace: float = 10,
    ) -> None:
        self.port = port or free_port()
        self.triple_port = triple_port or free_port()
        self._admin = f"http://127.0.0.1:{free_port()}"
        configuration = directory / f"sidecar-{self.port}.yaml"
        configuration.write_text(
            CONFIGURATION.format(
                port=self.port,
                triple=self.triple_port,
                preload=", ".join(preload),
                listeners=listeners,
                sections=sections,
                registries=registries,
                paths=json.dumps(paths or {}),
                grace=grace,
                coalesce=int(COALESCE * 1000),
                registry=registry,
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
    def triple(self) -> str:
        """The address for Triple and gRPC consumers."""
        return f"127.0.0.1:{self.triple_port}"

    @property
    def ports(self) -> dict[str, int]:
        """What another sidecar needs to take its place."""
        return {"port": self.port, "triple_port": self.triple_port}

    @property
    def triple_url(self) -> str:
        """The direct URL for Triple consumers."""
        return f"tri://{self.triple}"

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

    def terminate(self) -> None:
        """Ask for the graceful end (SIGTERM) and return at once."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait for it to end and return the exit code."""
        return self._process.wait(END_LIMIT)

    def stop(self) -> int:
        """End it gracefully and return the exit code."""
        self.terminate()
        return self.wait()

    def close(self) -> None:
        """End it however it stands."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
