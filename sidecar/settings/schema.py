"""The schema of the configuration file: one frozen struct per section, defaults included.

These structs are the only definition: the reader, the JSON Schema for editors and the documentation
test are derived from them. Durations are in seconds and sizes in bytes once read.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from sidecar.settings.units import Duration, Size

MIB = 1024 * 1024


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all sections share: immutable, keyword-only, unknown keys are errors."""


class Consumer(Section, frozen=True, kw_only=True):
    """Who the calling application is."""

    application: str = ""
    parameters: dict[str, str] = {}
    tag: str = ""
    router: str = ""


class Listener(Section, frozen=True, kw_only=True):
    """One local address that consumers call."""

    protocol: Literal["dubbo"] = "dubbo"
    address: str = "127.0.0.1:20880"
    default_service: str = ""


class Registry(Section, frozen=True, kw_only=True):
    """One registry, by URL: ``zookeeper://host:port,.../root`` or ``file:///path``."""

    name: str
    url: str
    coalesce: Duration = Duration(1.0)
    session_timeout: Duration = Duration(30.0)
    required: bool = False
    allow_networks: list[str] = []
    username: str = ""
    password: str = ""


class ServiceOverride(Section, frozen=True, kw_only=True):
    """What the configuration changes for one service."""

    timeout: Duration | None = None
    idempotent: list[str] = []
    router: str | None = None


class Services(Section, frozen=True, kw_only=True):
    """Which services are watched, when, and for how long."""

    on_demand: bool = True
    preload: list[str] = []
    wait: Duration = Duration(3.0)
    idle_release: Duration = Duration(1800.0)
    max_services: Annotated[int, Meta(ge=1, le=100_000)] = 2000
    max_waiting: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    overrides: dict[str, ServiceOverride] = {}


class Nearby(Section, frozen=True, kw_only=True):
    """The same-data-centre router."""

    enabled: bool = True
    key: str = "zone"
    mode: Literal["ratio", "count"] = "ratio"
    threshold: Annotated[int, Meta(ge=0)] = 30
    force: bool = False


class Routing(Section, frozen=True, kw_only=True):
    """The router chain."""

    nearby: Nearby = field(default_factory=Nearby)
    max_rule_size: Size = Size(256 * 1024)


class Timeouts(Section, frozen=True, kw_only=True):
    """Time limits; a call limit of 0 leaves only the consumer's and the provider's own."""

    connect: Duration = Duration(1.0)
    call: Duration = Duration(0.0)


class Upstream(Section, frozen=True, kw_only=True):
    """Connections to provider instances."""

    connections: Annotated[int, Meta(ge=1, le=64)] = 1
    warm: Annotated[int, Meta(ge=0, le=64)] = 0
    heartbeat: Duration = Duration(60.0)
    reconnect_after: Duration = Duration(180.0)
    idle_close: Duration = Duration(300.0)
    backoff_min: Duration = Duration(0.1)
    backoff_max: Duration = Duration(10.0)


class Limits(Section, frozen=True, kw_only=True):
    """Caps: each protects the sidecar's memory from one kind of peer."""

    max_payload: Size = Size(8 * MIB)
    max_consumers: Annotated[int, Meta(ge=1)] = 1024
    max_inflight_per_consumer: Annotated[int, Meta(ge=1)] = 4096
    consumer_buffer: Size = Size(16 * MIB)
    consumer_stall: Duration = Duration(30.0)
    upstream_buffer: Size = Size(16 * MIB)


class Drain(Section, frozen=True, kw_only=True):
    """The end of the process: serve until consumers are quiet for ``idle``, at most ``grace``."""

    grace: Duration = Duration(25.0)
    idle: Duration = Duration(5.0)


class Admin(Section, frozen=True, kw_only=True):
    """The admin server."""

    address: str = "127.0.0.1:15021"


class Log(Section, frozen=True, kw_only=True):
    """Logging."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Settings(Section, frozen=True, kw_only=True):
    """The whole configuration file."""

    consumer: Consumer = field(default_factory=Consumer)
    listeners: list[Listener] = field(default_factory=lambda: [Listener()])
    registries: list[Registry] = []
    services: Services = field(default_factory=Services)
    routing: Routing = field(default_factory=Routing)
    balancer: Literal["random"] = "random"
    no_provider_reply: Literal["status", "exception"] = "status"
    timeouts: Timeouts = field(default_factory=Timeouts)
    upstream: Upstream = field(default_factory=Upstream)
    limits: Limits = field(default_factory=Limits)
    drain: Drain = field(default_factory=Drain)
    admin: Admin = field(default_factory=Admin)
    log: Log = field(default_factory=Log)
