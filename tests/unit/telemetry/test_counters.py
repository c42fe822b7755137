import pytest

from sidecar.model import outcome
from sidecar.telemetry import counters
from sidecar.telemetry.counters import Counters, Histogram


def test_a_call_is_settled_into_its_block():
    stats = Counters().method("dubbo", "a.B", "hello")
    stats.settle(outcome.OK, 0.0005)
    stats.settle(outcome.OK, 0.003)
    stats.settle(outcome.TIMEOUT, 99.0)
    assert stats.outcomes[outcome.OK] == 2
    assert stats.outcomes[outcome.TIMEOUT] == 1
    assert stats.buckets[0] == stats.buckets[3] == stats.buckets[-1] == 1
    assert stats.duration_sum == pytest.approx(99.0035)


def test_blocks_are_found_again():
    held = Counters()
    assert held.method("dubbo", "a.B", "x") is held.method("dubbo", "a.B", "x")
    assert held.method("dubbo", "a.B", "y") is not held.method("dubbo", "a.B", "x")


def test_fc_82_random_names_share_one_block_when_the_cap_is_reached():
    held = Counters(max_blocks=100)
    for number in range(50_000):
        held.method("dubbo", f"service{number}", f"method{number}").settle(outcome.NO_PROVIDER, 0.0)
    assert len(held.methods) == 101
    shared = held.methods["dubbo", "_unknown", "_other"]
    assert shared.outcomes[outcome.NO_PROVIDER] == held.series_dropped == 49_900


def test_fc_82_unknown_services_share_one_block():
    held = Counters()
    for number in range(1000):
        held.method("dubbo", "_unknown", f"method{number}").settle(outcome.NO_PROVIDER, 0.0)
    assert list(held.methods) == [("dubbo", "_unknown", "_other")]


def test_fc_82_one_service_cannot_take_the_blocks_of_the_others():
    held = Counters()
    for number in range(5000):
        held.method("dubbo", "a.B", f"method{number}").settle(outcome.PROVIDER_ERROR, 0.0)
    assert len(held.methods) == counters.MAX_METHODS + 1
    shared = held.methods["dubbo", "a.B", "_other"]
    assert shared.outcomes[outcome.PROVIDER_ERROR] == 5000 - counters.MAX_METHODS
    assert held.method("dubbo", "a.C", "x").method == "x"


def test_fc_82_the_rarer_families_are_capped_too():
    held = Counters()
    for number in range(counters.MAX_LABEL_SETS + 50):
        held.no_provider(f"s{number}", "UNKNOWN_SERVICE")
        held.degrade(f"s{number}", "nearby", "BELOW")
    held.no_provider("s0", "UNKNOWN_SERVICE")
    held.degrade("s0", "nearby", "BELOW")
    assert held.no_eligible["s0", "UNKNOWN_SERVICE"] == held.degraded["s0", "nearby", "BELOW"] == 2
    assert held.no_eligible["_unknown", "UNKNOWN_SERVICE"] == 50
    assert held.degraded["_unknown", "nearby", "BELOW"] == 50
    assert held.series_dropped == 100


def test_rare_counters():
    held = Counters()
    held.count("sidecar_registry_rows_total", "main", 3)
    held.count("sidecar_registry_rows_total", "main")
    assert held.named == {("sidecar_registry_rows_total", "main"): 4}


def test_histogram():
    histogram = Histogram((1.0, 2.0))
    for seconds in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(seconds)
    assert (histogram.buckets, histogram.sum) == ([2, 1, 1], 12.0)
