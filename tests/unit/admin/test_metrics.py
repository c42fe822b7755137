import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from sidecar.admin.metrics import CONTENT_TYPE, SLICE, Exposition
from sidecar.model import outcome
from sidecar.telemetry import names
from sidecar.telemetry.counters import MAX_METHOD_BLOCKS, Counters


def parsed(page):
    """Return every sample as (name, labels) -> value, as Prometheus' own client reads it."""
    samples = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples
            samples[key] = sample.value
    return samples


def value(samples, name, **labels):
    return samples[name, frozenset(labels.items())]


def render(counters, facts=()):
    return asyncio.run(Exposition(counters, lambda: facts).render())


def test_counters_and_histograms():
    counters = Counters()
    stats = counters.method("dubbo", "a.B", "hello")
    stats.settle(outcome.OK, 0.003)
    stats.settle(outcome.TIMEOUT, 99.0)
    samples = parsed(render(counters))
    labels = {"protocol": "dubbo", "service": "a.B", "method": "hello"}
    assert value(samples, "sidecar_requests_total", outcome="ok", **labels) == 1
    assert value(samples, "sidecar_requests_total", outcome="timeout", **labels) == 1
    assert not any("cancelled" in str(key) for key in samples)
    name = "sidecar_request_duration_seconds"
    assert value(samples, f"{name}_bucket", le="0.0025", **labels) == 0
    assert value(samples, f"{name}_bucket", le="0.005", **labels) == 1
    assert value(samples, f"{name}_bucket", le="+Inf", **labels) == 2
    assert value(samples, f"{name}_count", **labels) == 2
    assert value(samples, f"{name}_sum", **labels) == pytest.approx(99.003)


def test_rarer_counters_and_facts():
    counters = Counters()
    counters.no_provider("a.B", "EMPTY_REGISTRY")
    counters.degrade("a.B", "nearby", "BELOW_THRESHOLD")
    counters.count("oversize", "request", 7)
    counters.loop_lag.observe(0.002)
    facts = [
        (names.DRAINING, [((), 1)]),
        (names.REGISTRY_CONNECTED, [(("main",), 1), (("backup",), 0)]),
    ]
    samples = parsed(render(counters, facts))
    assert value(samples, "sidecar_no_eligible_total", service="a.B", reason="EMPTY_REGISTRY") == 1
    assert (
        value(
            samples,
            "sidecar_route_degraded_total",
            service="a.B",
            router="nearby",
            reason="BELOW_THRESHOLD",
        )
        == 1
    )
    assert value(samples, "sidecar_oversize_total", direction="request") == 7
    assert value(samples, "sidecar_metric_series_dropped_total") == 0
    assert value(samples, "sidecar_draining") == 1
    assert value(samples, "sidecar_registry_connected", registry="backup") == 0
    assert value(samples, "sidecar_loop_lag_seconds_bucket", le="0.001") == 0
    assert value(samples, "sidecar_loop_lag_seconds_count") == 1
    assert value(samples, "process_resident_memory_bytes") > 0
    assert CONTENT_TYPE.startswith("text/plain")


def test_counters_without_labels_begin_with_zero():
    samples = parsed(render(Counters()))
    assert value(samples, "sidecar_snapshot_failed_total") == 0
    assert not any(name == "sidecar_oversize_total" for name, _ in samples)
    counters = Counters()
    counters.count("snapshot_failed")
    assert value(parsed(render(counters)), "sidecar_snapshot_failed_total") == 1


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_label_value_is_read_back(service, method):
    counters = Counters()
    counters.method("dubbo", service, method).settle(outcome.OK, 0.0)
    page = render(counters).replace(b"\r", b"<CR>")
    service, method = (text.replace("\r", "<CR>") for text in (service, method))
    labels = {"protocol": "dubbo", "service": service, "method": method, "outcome": "ok"}
    assert value(parsed(page), "sidecar_requests_total", **labels) == 1


def test_a_counter_that_is_not_in_the_table_is_a_fault():
    counters = Counters()
    counters.count("made_up")
    with pytest.raises(KeyError):
        render(counters)


async def test_a_full_page_leaves_the_loop_its_turns():
    counters = Counters()
    for number in range(MAX_METHOD_BLOCKS):
        counters.method("dubbo", f"org.example.Service{number}", "hello").settle(outcome.OK, 0.01)
    facts = [(names.SNAPSHOT_EPOCH, [((f"s{n}",), n) for n in range(10 * SLICE)])]
    exposition = Exposition(counters, lambda: facts)
    turns = 0
    longest = 0.0
    rendering = asyncio.ensure_future(exposition.render())
    while not rendering.done():
        started = time.perf_counter()
        await asyncio.sleep(0)
        longest = max(longest, time.perf_counter() - started)
        turns += 1
    assert turns > 2 * MAX_METHOD_BLOCKS // SLICE
    assert longest < 0.25  # about 2 ms on a quiet machine
    assert (await rendering).count(b"\n") > 18 * MAX_METHOD_BLOCKS
