"""Who takes part, and how each is started in front of one fleet of providers.

All proxies run on one core with one worker, see the same provider addresses and are up for the
whole run; idle ones cost nothing worth counting.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import envoy, native, process, wheels
from harness.native import DUBBO, TRIPLE

DIRECT = "direct"
RELAY = "null-relay"
ENVOY = "envoy"
COMPILED = "sidecar"
PURE = "sidecar-pure"
ALL = (DIRECT, RELAY, ENVOY, COMPILED, PURE)

RELAYS = {DUBBO: "null_relay.py", TRIPLE: "null_relay_http2.py"}
SCHEMES = {DUBBO: "dubbo", TRIPLE: "tri"}


@dataclass(frozen=True)
class Competitor:
    """One way from the load generator to the providers; direct has no process of its own."""

    name: str
    ports: list[int]
    pid: int | None

    def cpu_seconds(self) -> float:
        """Return the processor time its process has used so far, 0 for direct."""
        return process.cpu_seconds(self.pid) if self.pid is not None else 0.0

    def resident_bytes(self) -> int:
        """Return the resident memory of its process, 0 for direct."""
        return process.resident_bytes(self.pid) if self.pid is not None else 0

    def resident_mib(self) -> float:
        """Return the same in MiB."""
        return self.resident_bytes() / 2**20


@contextmanager
def line_up(
    names: list[str], protocol: str, providers: list[int], place: process.Place, out: Path
) -> Iterator[list[Competitor]]:
    """Start the named competitors in front of the providers; they end with the block.

    `protocol` is what consumers and providers speak: `dubbo` or `triple`.
    """
    scratch = out / "run"
    scratch.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        line: list[Competitor] = []
        for name in names:
            if name == DIRECT:
                line.append(Competitor(name, providers, None))
                continue
            port = process.free_port()
            command, environment = _command(name, protocol, port, providers, out, scratch)
            child = running.enter_context(
                process.started(
                    place.command(command),
                    port=port,
                    log=scratch / f"{name}.log",
                    environment=environment,
                )
            )
            line.append(Competitor(name, [port], child.pid))
        yield line


def _command(
    name: str, protocol: str, port: int, providers: list[int], out: Path, scratch: Path
) -> tuple[list[str], dict[str, str] | None]:
    if name == RELAY:
        relay = str(Path(__file__).with_name(RELAYS[protocol]))
        return [sys.executable, relay, str(port), *map(str, providers)], None
    if name == ENVOY:
        return envoy.command(protocol, port, providers, scratch), None
    kind = "compiled" if name == COMPILED else "pure"
    config = scratch / f"{kind}.yaml"
    registry = registry_file(providers, scratch / f"{kind}.registry", protocol)
    config.write_text(sidecar_config(port, registry, protocol=protocol))
    folder = wheels.installed(kind, out)
    command = [*wheels.PYTHON, "-m", "sidecar", "run", "--config", str(config)]
    return command, wheels.environment(folder)


def registry_file(providers: list[int], path: Path, protocol: str) -> str:
    """Write a file registry with one instance per provider port; return its URL."""
    urls = [
        f"{SCHEMES[protocol]}://127.0.0.1:{port}/{native.INTERFACE}?application=greeter"
        f"&interface={native.INTERFACE}&version={native.VERSION}&methods={native.METHOD}"
        f"&side=provider&dubbo=2.0.2&zone=bj-a"
        for port in providers
    ]
    path.write_text(json.dumps({"providers": urls}))
    return f"file://{path.resolve()}"


def sidecar_config(
    port: int, registry: str, admin_port: int | None = None, protocol: str = DUBBO
) -> str:
    """Return a configuration of the product: its defaults, one listener, one registry."""
    settings: dict[str, Any] = {
        "consumer": {"application": "order-web", "parameters": {"zone": "bj-a"}},
        "listeners": [{"protocol": protocol, "address": f"127.0.0.1:{port}"}],
        "registries": [{"name": "main", "url": registry, "allow_networks": ["127.0.0.0/8"]}],
        "services": {"preload": [f"{native.INTERFACE}:{native.VERSION}"]},
        "admin": {"address": f"127.0.0.1:{admin_port or process.free_port()}"},
    }
    return json.dumps(settings, indent=1)
