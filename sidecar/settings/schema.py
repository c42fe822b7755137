"""The schema of the configuration file: one frozen struct per section, defaults included.

These structs are the only definition: the reader, the JSON Schema for editors and the documentation
test are derived from them. Durations are in seconds and sizes in bytes once read. ``form`` names a
parser of `settings.forms`, ``unique`` the key that must differ between the items of a list.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from sidecar.settings.units import Duration, Size

MIB = 1024 * 1024


def about(description: str, **rules: str | bool) -> Meta:
    """Say what a field is for; ``rules`` name the reader's own checks."""
    return Meta(description=description, extra=rules or None)


def form(name: str, *examples: str) -> Meta:
    """Say which parser of `settings.forms` a text must pass."""
    return Meta(extra={"form": name}, examples=list(examples))


Address = Annotated[str, form("address", "127.0.0.1:20880")]
ListenAddress = Annotated[str, form("listen", "127.0.0.1:20880", "unix:///run/sidecar.sock")]
PathPrefix = Annotated[str, form("prefix", "/api/orders/")]
Network = Annotated[str, form("network", "10.0.0.0/8")]
RegistryLink = Annotated[
    str,
    form("registry", "zookeeper://zk1:2181,zk2:2181/dubbo", "file:///etc/sidecar/registry.yaml"),
]
RouterSwitch = Annotated[str, form("router", "-tag")]
ServiceName = Annotated[str, form("service", "gray/org.example.Order:1.0.0")]


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all sections share: immutable, keyword-only, unknown keys are errors."""


class Consumer(Section, frozen=True, kw_only=True):
    """Who the calling application is."""

    application: Annotated[
        str, about("Name of the consumer application; the rules of this version do not read it.")
    ] = ""
    parameters: Annotated[
        dict[str, str], about("What the consumer says about itself, such as its zone.")
    ] = {}
    tag: Annotated[str, about("dubbo.tag for calls that carry none.")] = ""
    router: Annotated[
        RouterSwitch, about('Router switch as in Dubbo: "-tag" turns a router off.')
    ] = ""


class ListenerTls(Section, frozen=True, kw_only=True):
    """TLS towards consumers; files are in PEM form."""

    certificate: Annotated[str, about("Certificate chain."), Meta(min_length=1)]
    key: Annotated[str, about("Private key."), Meta(min_length=1)]
    client_ca: Annotated[
        str, about("Authorities for client certificates; empty: none is asked for.")
    ] = ""


class Listener(Section, frozen=True, kw_only=True):
    """One local address that consumers call."""

    protocol: Annotated[
        Literal["dubbo", "triple", "auto"],
        about("What consumers speak: dubbo; triple (gRPC and HTTP too); auto: told apart."),
    ] = "dubbo"
    address: Annotated[ListenAddress, about("Where to listen, host:port or unix:///path.")] = (
        "127.0.0.1:20880"
    )
    same_machine: Annotated[
        bool,
        about(
            "With a loopback address: also take consumers of this machine that call its network "
            "address, as Dubbo for Java does when told 127.0.0.1."
        ),
    ] = True
    default_service: Annotated[
        str,
        about(
            "Service of calls that do not show theirs; empty: they are refused.",
            form="service",
            may_be_empty=True,
        ),
    ] = ""
    paths: Annotated[
        dict[PathPrefix, ServiceName],
        about("triple, auto: service by prefix of the path, for paths that do not name it."),
    ] = {}
    tls: Annotated[ListenerTls | None, about("TLS towards consumers; absent: plain.")] = None


class Registry(Section, frozen=True, kw_only=True):
    """One registry, by URL: ``zookeeper://host:port,.../root`` or ``file:///path``."""

    name: Annotated[
        str, about("Name in logs, metrics and /readyz."), Meta(min_length=1, max_length=64)
    ]
    url: Annotated[RegistryLink, about("zookeeper://host:port,.../root or file:///path.")]
    coalesce: Annotated[
        Duration,
        about("ZooKeeper: delay from the first change event to the one read that serves all."),
    ] = Duration(1.0)
    session_timeout: Annotated[
        Duration, about("ZooKeeper session timeout, as asked of the server.", is_positive=True)
    ] = Duration(30.0)
    required: Annotated[
        bool, about("Not ready until every preloaded service was read from here.")
    ] = False
    allow_networks: Annotated[
        list[Network],
        about("Provider networks to accept although refused by default."),
    ] = []
    username: Annotated[str, about("ZooKeeper digest user; empty: none.")] = ""
    password: Annotated[str, about("ZooKeeper digest password.")] = ""


class ServiceOverride(Section, frozen=True, kw_only=True):
    """What the configuration changes for one service."""

    timeout: Annotated[Duration | None, about("Call limit instead of timeouts.call.")] = None
    idempotent: Annotated[
        list[str], about("Methods that may be sent again after a lost connection.")
    ] = []
    router: Annotated[RouterSwitch | None, about("Router switch instead of consumer.router.")] = (
        None
    )


class Services(Section, frozen=True, kw_only=True):
    """Which services are watched, when, and for how long."""

    on_demand: Annotated[bool, about("Subscribe to a service at its first call.")] = True
    preload: Annotated[
        list[ServiceName],
        about("Services to subscribe to at the start."),
    ] = []
    wait: Annotated[Duration, about("How long a call waits for the first list of its service.")] = (
        Duration(3.0)
    )
    idle_release: Annotated[
        Duration, about("A service without calls for this long is released.", is_positive=True)
    ] = Duration(1800.0)
    max_services: Annotated[int, about("Services watched at once."), Meta(ge=1, le=100_000)] = 2000
    max_waiting: Annotated[
        int, about("Calls that wait for a first list at once."), Meta(ge=1, le=100_000)
    ] = 1000
    overrides: Annotated[
        dict[ServiceName, ServiceOverride], about("Settings of single services.")
    ] = {}


class Nearby(Section, frozen=True, kw_only=True):
    """The same-data-centre router."""

    enabled: Annotated[bool, about("Prefer instances of the same place.")] = True
    key: Annotated[
        str, about("Parameter that names the place, on both sides."), Meta(min_length=1)
    ] = "zone"
    mode: Annotated[
        Literal["ratio", "count"],
        about("What threshold counts: percent of the instances, or instances."),
    ] = "ratio"
    threshold: Annotated[
        int, about("Below this, calls go to all places."), Meta(ge=0, le=1_000_000)
    ] = 30
    force: Annotated[bool, about("Never leave the own place.")] = False


class Routing(Section, frozen=True, kw_only=True):
    """The router chain."""

    nearby: Annotated[Nearby, about("The same-data-centre router.")] = field(default_factory=Nearby)
    max_rule_size: Annotated[
        Size, about("Larger rule documents are refused.", is_positive=True)
    ] = Size(256 * 1024)


class Timeouts(Section, frozen=True, kw_only=True):
    """Time limits; a call limit of 0 leaves only the consumer's and the provider's own."""

    connect: Annotated[Duration, about("Limit of one connection attempt.", is_positive=True)] = (
        Duration(1.0)
    )
    call: Annotated[
        Duration,
        about("Limit of a call that brings none; 0s: none from here, ten minutes at the very end."),
    ] = Duration(0.0)
    longest: Annotated[
        Duration, about("Triple: limits that calls bring are cut to this; 0s: they are not.")
    ] = Duration(0.0)


class UpstreamTls(Section, frozen=True, kw_only=True):
    """TLS towards providers; files are in PEM form."""

    mode: Annotated[
        Literal["registered", "always", "never"],
        about("registered: for providers that register ssl-enabled=true."),
    ] = "registered"
    ca: Annotated[str, about("Authorities to trust; empty: those of the system.")] = ""
    certificate: Annotated[str, about("Own certificate chain; empty: none.")] = ""
    key: Annotated[str, about("Own private key.")] = ""
    server_name: Annotated[
        str, about("Name that certificates must have; empty: the registered host.")
    ] = ""
    verify: Annotated[bool, about("Check certificates and names.")] = True


class Upstream(Section, frozen=True, kw_only=True):
    """Connections to provider instances."""

    connections: Annotated[
        int, about("Shared connections to each instance."), Meta(ge=1, le=64)
    ] = 1
    warm: Annotated[int, about("Connections opened before the first call."), Meta(ge=0, le=64)] = 0
    heartbeat: Annotated[
        Duration, about("Heartbeat after this long without a read.", is_positive=True)
    ] = Duration(60.0)
    reconnect_after: Annotated[
        Duration, about("A connection silent for this long is dropped.", is_positive=True)
    ] = Duration(180.0)
    idle_close: Annotated[
        Duration, about("A connection without calls for this long is closed.", is_positive=True)
    ] = Duration(300.0)
    backoff_min: Annotated[
        Duration, about("First pause after a failed connection attempt.", is_positive=True)
    ] = Duration(0.1)
    backoff_max: Annotated[
        Duration, about("Longest pause between connection attempts.", is_positive=True)
    ] = Duration(10.0)
    max_connections: Annotated[
        int,
        about("HTTP/2: connections to one instance when its limit of streams is reached."),
        Meta(ge=1, le=64),
    ] = 8
    max_age: Annotated[
        Duration,
        about("HTTP/2: a connection this old, a tenth more or less, is replaced; 0s: never."),
    ] = Duration(0.0)
    authority: Annotated[
        Literal["keep", "instance"],
        about("HTTP/2: the :authority providers see: the consumer's, or their own address."),
    ] = "keep"
    tls: Annotated[UpstreamTls, about("TLS towards providers.")] = field(
        default_factory=UpstreamTls
    )


class Http2(Section, frozen=True, kw_only=True):
    """HTTP/2 on both sides; limits.max_inflight_per_consumer limits the streams of a consumer."""

    header_size: Annotated[
        Size, about("Largest header list, decoded; announced to peers.", is_positive=True)
    ] = Size(64 * 1024)
    header_count: Annotated[
        int, about("Most fields of one header list."), Meta(ge=16, le=10_000)
    ] = 512
    continuations: Annotated[
        int, about("Most CONTINUATION frames of one header list."), Meta(ge=1, le=1000)
    ] = 16
    resets: Annotated[
        int,
        about("Streams a peer may reset, or make us reset, in ten seconds."),
        Meta(ge=1, le=1_000_000),
    ] = 200
    control_frames: Annotated[
        int,
        about("PING, SETTINGS, PRIORITY and empty frames a peer may send in ten seconds."),
        Meta(ge=10, le=1_000_000),
    ] = 1000
    stream_window: Annotated[
        Size, about("Bytes kept for one stream that is read slowly.", is_positive=True)
    ] = Size(1 * MIB)
    connection_window: Annotated[
        Size, about("Bytes kept for one connection, over its streams.", is_positive=True)
    ] = Size(16 * MIB)
    replay: Annotated[
        Size,
        about("Request bytes kept of a call that was sent, to send it again; less of many calls."),
    ] = Size(64 * 1024)
    slow_header: Annotated[
        Duration,
        about("Time for a handshake or a header list to be complete.", is_positive=True),
    ] = Duration(10.0)
    idle: Annotated[
        Duration,
        about("A consumer's connection without streams for this long is closed.", is_positive=True),
    ] = Duration(3600.0)


class Limits(Section, frozen=True, kw_only=True):
    """Caps: each protects the sidecar's memory from one kind of peer."""

    max_payload: Annotated[
        Size, about("Largest body of a request or a reply.", is_positive=True)
    ] = Size(8 * MIB)
    max_consumers: Annotated[int, about("Consumer connections."), Meta(ge=1)] = 1024
    max_inflight_per_consumer: Annotated[
        int, about("Calls in flight on one consumer connection."), Meta(ge=1)
    ] = 4096
    consumer_buffer: Annotated[
        Size, about("Unread replies kept for one consumer before it is closed.", is_positive=True)
    ] = Size(16 * MIB)
    consumer_stall: Annotated[
        Duration, about("A consumer that reads nothing for this long is closed.", is_positive=True)
    ] = Duration(30.0)
    upstream_buffer: Annotated[
        Size, about("Unsent requests kept for one provider connection.", is_positive=True)
    ] = Size(16 * MIB)


class Drain(Section, frozen=True, kw_only=True):
    """The end of the process: serve until consumers are quiet for ``idle``, at most ``grace``."""

    grace: Annotated[Duration, about("Longest time from SIGTERM to the end.")] = Duration(25.0)
    idle: Annotated[Duration, about("Consumers quiet for this long end the wait.")] = Duration(5.0)


class Admin(Section, frozen=True, kw_only=True):
    """The admin server."""

    address: Annotated[Address, about("Probes, metrics, services and explain; host:port.")] = (
        "127.0.0.1:15021"
    )


class Log(Section, frozen=True, kw_only=True):
    """Logging."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], about("Least severity written.")
    ] = "info"
    format: Annotated[
        Literal["text", "json"], about("One line of text or one JSON object per record.")
    ] = "text"


class Settings(Section, frozen=True, kw_only=True):
    """The whole configuration file."""

    consumer: Annotated[Consumer, about("Who the calling application is.")] = field(
        default_factory=Consumer
    )
    listeners: Annotated[
        list[Listener], about("Local addresses that consumers call."), Meta(min_length=1)
    ] = field(default_factory=lambda: [Listener()])
    registries: Annotated[
        list[Registry],
        about("Where providers register.", unique="name", is_required=True),
        Meta(min_length=1),
    ] = []
    services: Annotated[Services, about("Which services are watched.")] = field(
        default_factory=Services
    )
    routing: Annotated[Routing, about("The router chain.")] = field(default_factory=Routing)
    balancer: Annotated[Literal["random"], about("How one of the routed instances is picked.")] = (
        "random"
    )
    no_provider_reply: Annotated[
        Literal["status", "exception"],
        about("Nothing eligible: error status 60, or an RpcException (no retries)."),
    ] = "status"
    timeouts: Annotated[Timeouts, about("Time limits.")] = field(default_factory=Timeouts)
    upstream: Annotated[Upstream, about("Connections to providers.")] = field(
        default_factory=Upstream
    )
    http2: Annotated[Http2, about("HTTP/2 limits, for Triple and gRPC.")] = field(
        default_factory=Http2
    )
    limits: Annotated[Limits, about("Caps against greedy peers.")] = field(default_factory=Limits)
    drain: Annotated[Drain, about("The end of the process.")] = field(default_factory=Drain)
    admin: Annotated[Admin, about("The admin server.")] = field(default_factory=Admin)
    log: Annotated[Log, about("Logging.")] = field(default_factory=Log)
