"""Every metric in one table: name, kind, help and labels.

Nothing is exposed that is not listed here; the table of the README is made from it. Label values
are bounded: outcomes, reasons, states and kinds are words of this program, registries come from the
configuration, and services and methods are capped by `counters`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"


class Metric(NamedTuple):
    """One family as it is exposed."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


REQUESTS: Final = Metric(
    "sidecar_requests_total",
    COUNTER,
    "Calls from consumers, by how they ended.",
    ("protocol", "service", "method", "outcome"),
)
REQUEST_DURATION: Final = Metric(
    "sidecar_request_duration_seconds",
    HISTOGRAM,
    "Time from a whole request received to its reply written.",
    ("protocol", "service", "method"),
)
NO_ELIGIBLE: Final = Metric(
    "sidecar_no_eligible_total",
    COUNTER,
    "Calls for which no instance was eligible.",
    ("service", "reason"),
)
DEGRADED: Final = Metric(
    "sidecar_route_degraded_total",
    COUNTER,
    "Calls for which a router returned its wider set on purpose.",
    ("service", "router", "reason"),
)
SERIES_DROPPED: Final = Metric(
    "sidecar_metric_series_dropped_total",
    COUNTER,
    "Calls counted under _unknown because the cap of services and methods is reached.",
)
WAITING: Final = Metric(
    "sidecar_waiting_calls", GAUGE, "Calls that wait for the first list of their service."
)
INFLIGHT: Final = Metric(
    "sidecar_inflight", GAUGE, "Calls received and not answered yet.", ("protocol",)
)
HELD_BYTES: Final = Metric(
    "sidecar_held_bytes",
    GAUGE,
    "Bytes of requests and replies whose reader has not taken them yet.",
    ("protocol",),
)
CONSUMERS: Final = Metric(
    "sidecar_consumer_connections", GAUGE, "Open connections from consumers.", ("protocol",)
)
UPSTREAM_CONNECTIONS: Final = Metric(
    "sidecar_upstream_connections", GAUGE, "Connections to provider instances.", ("state",)
)
REGISTRY_CONNECTED: Final = Metric(
    "sidecar_registry_connected", GAUGE, "1 while the registry is connected.", ("registry",)
)
REGISTRY_EVENTS: Final = Metric(
    "sidecar_registry_events_total", COUNTER, "Change events received.", ("registry",)
)
REGISTRY_READS: Final = Metric(
    "sidecar_registry_reads_total", COUNTER, "Reads of lists and rules.", ("registry",)
)
REGISTRY_ROWS: Final = Metric(
    "sidecar_registry_rows_total", COUNTER, "Children received in lists.", ("registry",)
)
REGISTRY_PARSED: Final = Metric(
    "sidecar_registry_parsed_total",
    COUNTER,
    "Provider URLs parsed; names seen before are not parsed again.",
    ("registry",),
)
REGISTRY_RESYNCS: Final = Metric(
    "sidecar_registry_resyncs_total",
    COUNTER,
    "Connections after which everything was read again.",
    ("registry",),
)
REGISTRY_REFUSED: Final = Metric(
    "sidecar_registry_refused_total",
    COUNTER,
    "Registered names that give no instance.",
    ("registry", "reason"),
)
REGISTRY_ERRORS: Final = Metric(
    "sidecar_registry_errors_total",
    COUNTER,
    "Requests to the registry that failed and are repeated.",
    ("registry", "kind"),
)
SERVICES: Final = Metric("sidecar_services", GAUGE, "Services that are watched.")
UNRESOLVED: Final = Metric(
    "sidecar_services_unresolved", GAUGE, "Watched services for which no list has come yet."
)
INSTANCES: Final = Metric(
    "sidecar_instances",
    GAUGE,
    "Instances of each watched service: registered for its interface, or matching its group and"
    " version.",
    ("service", "state"),
)
SNAPSHOT_EPOCH: Final = Metric(
    "sidecar_snapshot_epoch", GAUGE, "Number of the service's current snapshot.", ("service",)
)
ROUTER_ERRORS: Final = Metric(
    "sidecar_router_errors_total",
    COUNTER,
    "Defects in a router; it was left out of the chain.",
    ("router",),
)
BAD_SERVICE: Final = Metric(
    "sidecar_bad_service_total", COUNTER, "Calls whose service name cannot be one."
)
DISCOVERY_FAILED: Final = Metric(
    "sidecar_discovery_failed_total",
    COUNTER,
    "Defects while a list was taken in; the one before stays in use.",
)
SNAPSHOT_FAILED: Final = Metric(
    "sidecar_snapshot_failed_total",
    COUNTER,
    "Snapshots that could not be built; the one before stays in use.",
)
PLAN_MEMO_CLEARED: Final = Metric(
    "sidecar_plan_memo_cleared_total",
    COUNTER,
    "Times the remembered routes of a service were forgotten because there were too many.",
)
PICK_SUMMED: Final = Metric(
    "sidecar_pick_summed_total",
    COUNTER,
    "Picks that needed a pass over all routed instances.",
)
PICK_EVEN_SPLITS: Final = Metric(
    "sidecar_pick_even_splits_total",
    COUNTER,
    "Picks among instances that all have the weight 0.",
)
RULE_INVALID: Final = Metric(
    "sidecar_rule_invalid_total",
    COUNTER,
    "Rule documents refused; the last good one stays in use.",
    ("kind",),
)
LOOP_LAG: Final = Metric(
    "sidecar_loop_lag_seconds", HISTOGRAM, "How late the event loop runs a timer."
)
DRAINING: Final = Metric("sidecar_draining", GAUGE, "1 after SIGTERM or POST /drain.")
BUILD_INFO: Final = Metric(
    "sidecar_build_info", GAUGE, "Always 1; what is running.", ("version", "python", "build")
)

LATE_REPLIES: Final = Metric(
    "sidecar_late_replies_total",
    COUNTER,
    "Replies nobody waited for: past the deadline, to a call that was over, or to none.",
    ("kind",),
)
OVERSIZE: Final = Metric(
    "sidecar_oversize_total",
    COUNTER,
    "Frames larger than limits.max_payload, and header lists larger than http2 allows.",
    ("direction",),
)
ONEWAY_SENT: Final = Metric(
    "sidecar_oneway_sent_total", COUNTER, "One-way calls written to a provider."
)
ONEWAY_DROPPED: Final = Metric(
    "sidecar_oneway_dropped_total", COUNTER, "One-way calls that went nowhere.", ("reason",)
)
UNPARSED: Final = Metric(
    "sidecar_unparsed_total",
    COUNTER,
    "Calls refused because their serialization is not understood.",
    ("serialization",),
)
READONLY_OVERRIDE: Final = Metric(
    "sidecar_readonly_override_total",
    COUNTER,
    "Calls given to an instance that is shutting down because there was no other.",
)
REVERSE_REQUESTS: Final = Metric(
    "sidecar_reverse_requests_total", COUNTER, "Calls of providers to consumers, all refused."
)
CONNECT_FAILURES: Final = Metric(
    "sidecar_connect_failures_total", COUNTER, "Attempts to connect to a provider that failed."
)
UPSTREAM_CLOSED: Final = Metric(
    "sidecar_upstream_closed_total",
    COUNTER,
    "Provider connections that ended, by who ended them and why.",
    ("reason",),
)
RETRIES: Final = Metric(
    "sidecar_retries_total",
    COUNTER,
    "Triple calls sent again: the provider did not process them, or the method is idempotent.",
    ("reason",),
)
CONSUMERS_CLOSED: Final = Metric(
    "sidecar_consumers_closed_total",
    COUNTER,
    "Consumer connections ended by the sidecar, by the reason.",
    ("reason",),
)
STREAMS_REFUSED: Final = Metric(
    "sidecar_streams_refused_total",
    COUNTER,
    "HTTP/2 streams of consumers that never became calls: malformed, or beyond the limit.",
)

# Those of `Counters.named`; they are on the page from the start.
COUNTED: Final = (
    LATE_REPLIES,
    OVERSIZE,
    ONEWAY_SENT,
    ONEWAY_DROPPED,
    UNPARSED,
    READONLY_OVERRIDE,
    REVERSE_REQUESTS,
    CONNECT_FAILURES,
    UPSTREAM_CLOSED,
    CONSUMERS_CLOSED,
    STREAMS_REFUSED,
    RETRIES,
    ROUTER_ERRORS,
    BAD_SERVICE,
    DISCOVERY_FAILED,
    SNAPSHOT_FAILED,
    PLAN_MEMO_CLEARED,
    PICK_SUMMED,
    PICK_EVEN_SPLITS,
    RULE_INVALID,
)
METRICS: Final = (
    *COUNTED,
    REQUESTS,
    REQUEST_DURATION,
    NO_ELIGIBLE,
    DEGRADED,
    SERIES_DROPPED,
    INFLIGHT,
    WAITING,
    HELD_BYTES,
    CONSUMERS,
    UPSTREAM_CONNECTIONS,
    REGISTRY_CONNECTED,
    REGISTRY_EVENTS,
    REGISTRY_READS,
    REGISTRY_ROWS,
    REGISTRY_PARSED,
    REGISTRY_RESYNCS,
    REGISTRY_REFUSED,
    REGISTRY_ERRORS,
    SERVICES,
    UNRESOLVED,
    INSTANCES,
    SNAPSHOT_EPOCH,
    LOOP_LAG,
    DRAINING,
    BUILD_INFO,
)
BY_NAME: Final = {metric.name: metric for metric in METRICS}


def counted(name: str) -> Metric:
    """Return the metric of a counter of `Counters.named`; raises KeyError when there is none."""
    return BY_NAME[name if name in BY_NAME else f"sidecar_{name}_total"]
