"""Java Dubbo consumers call Java Dubbo providers through the sidecar, each version with each.

Every test has a group of its own, so that one fleet, registry and sidecar serve them all.
"""

from __future__ import annotations

import contextlib
import time

import pytest

from tests.e2e.fleet import (
    Fleet,
    answered,
    offer_plain,
    other_modern,
    others,
    rule,
    token,
)
from tests.e2e.peers import (
    INTERFACE,
    LOOPBACK_NAME,
    VERSIONS,
    Consumer,
    Reference,
    Version,
    free_port,
    wait_until,
)

pytestmark = [pytest.mark.java, pytest.mark.zookeeper, pytest.mark.timeout(120, func_only=True)]

callers = pytest.mark.parametrize("caller", VERSIONS, ids=lambda v: f"consumer{v}")
callees = pytest.mark.parametrize("callee", VERSIONS, ids=lambda v: f"provider{v}")

MIB = 1024 * 1024
NETWORK, TIMEOUT = 1, 2


@pytest.fixture
def plain(fleet: Fleet, caller: Version, callee: Version) -> Reference:
    """A reference to a service with a single instance of the callee's version."""
    group = f"plain-{callee}"
    fleet.offer(callee, group, group=group)
    return fleet.reference(caller, group=group, timeout=5000)


@callers
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", LOOPBACK_NAME])
def test_a_consumer_on_a_network_reaches_the_sidecar(fleet, caller, name, tmp_path):
    callee = VERSIONS[-1]
    group = f"plain-{callee}"
    fleet.offer(callee, group, group=group)
    fleet.offer(callee, f"{group}-tri", group=group, protocol="tri")
    fleet.wait_known()
    urls = {fleet.sidecar.url: group}
    if not caller.is_legacy:
        urls[fleet.sidecar.triple_url] = f"{group}-tri"
    with contextlib.closing(Consumer(caller, tmp_path, sees_network=True)) as consumer:
        for url, answers in urls.items():
            named = url.replace("127.0.0.1", name)
            reference = consumer.refer(named, group=group, timeout=5000)
            assert reference.value("hello", "bob") == f"hello bob from {answers}"


@callers
@callees
class TestCalls:
    def test_sync(self, plain, callee):
        assert plain.value("hello", "bob") == f"hello bob from plain-{callee}"

    def test_async(self, plain, callee):
        assert plain.value("helloLater") == f"later bob from plain-{callee}"
        assert plain.value("hello", mode="context") == f"hello bob from plain-{callee}"

    def test_echo(self, plain):
        assert plain.value(mode="echo", arg="are you there") == "are you there"

    def test_objects_and_text_of_every_kind(self, plain, callee):
        assert plain.value("place", "N-1") == "N-1"
        name = "\u8336 \U0001f375 \u00e9 " + "x" * 40_000
        assert plain.value("hello", name) == f"hello {name} from plain-{callee}"

    def test_generic(self, plain, fleet, caller, callee):
        group = f"plain-{callee}"
        generic = fleet.reference(caller, group=group, timeout=5000, generic="true")
        assert generic.value("hello", mode="generic") == f"hello bob from {group}"
        assert generic.value("place", "N-2", mode="generic")["number"] == "N-2"
        failed = generic.call("fail", "no tea", mode="generic")
        assert failed["thrown"].endswith("GenericException")
        assert "GreetingException: no tea" in failed["message"]

    def test_business_exception(self, plain):
        answer = plain.call("fail", "no tea")
        assert answer["thrown"] == "org.example.peer.GreetingException"
        assert answer["message"] == "no tea"

    def test_one_way(self, plain):
        before = plain.value("posted")
        assert plain.call("post", "hi", mode="oneway")["value"] is None
        wait_until(lambda: plain.value("posted") == before + 1, what="the one-way call arrives")

    @pytest.mark.parametrize("size", [MIB, 7 * MIB])
    def test_big_payload_both_ways(self, plain, size):
        assert plain.value("echoBytes", size) == size

    def test_attachments_reach_the_provider(self, plain, caller, callee):
        seen = plain.value("who", at_trace="t-1", at_dubbo__tag="gray")
        assert seen["@trace"] == "t-1"
        assert seen["@dubbo.tag"] == "gray"
        assert seen["@group"] == f"plain-{callee}"
        assert seen["@remote.application"] == "order-web"
        assert seen.get("@timeout") == (None if caller.is_legacy else "5000")

    def test_the_providers_own_oversize_reply_passes_through(self, plain, callee):
        answer = plain.call("blob", 9_000_000)
        assert answer["root"].startswith("Data length too large: 90")
        assert plain.value("hello", "eve") == f"hello eve from plain-{callee}"

    def test_timeout(self, fleet, plain, caller, callee):
        short = fleet.reference(caller, group=f"plain-{callee}", timeout=300)
        answer = short.call("slow", 900)
        assert answer["code"] == TIMEOUT
        assert 290 <= answer["ms"] < 850
        wait_until(lambda: plain.value("slow", 1).startswith("slept 1 in"), what="the late reply")

    def test_many_calls_at_once_keep_their_answers(self, plain, callee):
        outcome = plain.many(400, threads=8, method="hello")
        assert outcome["histogram"] == {f"plain-{callee}": 400}
        assert not outcome["failures"]


@callers
@callees
class TestIdentity:
    def test_token(self, fleet, caller, callee):
        group = f"token-{callee}"
        fleet.offer(callee, group, group=group, token="s3cret")
        assert fleet.reference(caller, group=group).value() == f"hello bob from {group}"

    def test_group_and_version(self, fleet, caller, callee):
        group = f"versioned-{callee}"
        fleet.offer(callee, f"{group}-1", group=group, version="1.0.0")
        fleet.offer(callee, f"{group}-2", group=group, version="2.0.0")
        for major in "12":
            reference = fleet.reference(caller, group=group, version=f"{major}.0.0")
            assert answered(reference, 10) == {f"{group}-{major}": 10}

    def test_custom_path(self, fleet, caller, callee):
        group = f"path-{callee}"
        fleet.offer(callee, group, group=group, path=f"custom/{callee}")
        seen = fleet.reference(caller, group=group).value("who")
        assert seen["name"] == group
        assert seen["@path"] == f"custom/{callee}"

    def test_nothing_of_that_version_or_group(self, fleet, caller, callee):
        group = f"versioned-{callee}"
        fleet.offer(callee, f"{group}-1", group=group, version="1.0.0")
        wrong_version = fleet.reference(caller, group=group, version="9.0.0").call()
        assert (wrong_version["code"], token(wrong_version)) == (NETWORK, "VERSION_MISMATCH")
        wrong_group = fleet.reference(caller, group="nobody").call()
        assert (wrong_group["code"], token(wrong_group)) == (NETWORK, "GROUP_MISMATCH")


@callers
@callees
class TestRouting:
    def test_a_tagged_call_goes_to_tagged_instances_only(self, fleet, caller, callee):
        group = f"tagged-{callee}"
        fleet.offer(callee, f"{group}-gray", group=group, tag="gray")
        plain = {offer_plain(fleet, other, group) for other in others(callee)}
        reference = fleet.reference(caller, group=group)
        assert answered(reference, 30, at_dubbo__tag="gray") == {f"{group}-gray": 30}
        assert set(answered(reference, 30)) == plain
        assert set(answered(reference, 30, at_dubbo__tag="nobody")) == plain
        forced = reference.call("who", at_dubbo__tag="nobody", at_dubbo__force__tag="true")
        assert (forced["code"], token(forced)) == (NETWORK, "TAG_FORCED_EMPTY")

    def test_the_own_zone_is_preferred(self, fleet, caller, callee):
        group = f"zoned-{callee}"
        fleet.offer(callee, f"{group}-near", group=group, p_zone="bj-a")
        for other in others(callee):
            fleet.offer(other, f"{group}-far-{other}", group=group, p_zone="sh-b")
        assert answered(fleet.reference(caller, group=group), 30) == {f"{group}-near": 30}


@callees
class TestProviders:
    """What depends on the provider's version only; the newest consumer calls."""

    def test_weights_decide_the_shares(self, fleet, callee):
        group = f"weighted-{callee}"
        weights = {callee: 600, **dict(zip(others(callee), (300, 100), strict=True))}
        for version, weight in weights.items():
            fleet.offer(version, f"{group}-{version}", group=group, weight=weight, p_warmup=1)
        reference = fleet.reference(VERSIONS[-1], group=group)
        histogram = answered(reference, 1000, threads=4)
        for version, weight in weights.items():
            assert abs(histogram[f"{group}-{version}"] - weight) < 100, histogram

    def test_a_timeout_of_the_provider_holds_when_the_consumer_sends_none(self, fleet, callee):
        group = f"limited-{callee}"
        fleet.offer(callee, group, group=group, timeout=300)
        answer = fleet.reference(VERSIONS[0], group=group).call("slow", 900)
        assert answer["code"] == TIMEOUT
        assert answer["ms"] < 850
        assert fleet.reference(VERSIONS[-1], group=group).value("slow", 600)

    def test_a_dynamic_tag_rule_names_instances(self, fleet, callee):
        group = f"ruled-{callee}"
        port = free_port()
        fleet.offer(callee, f"{group}-named", group=group, port=port)
        rest = {offer_plain(fleet, other, group) for other in others(callee)}
        reference = fleet.reference(VERSIONS[-1], group=group)
        assert len(answered(reference, 60)) == 3
        with rule(fleet, "greeter", f"{{name: canary, addresses: ['127.0.0.1:{port}']}}"):
            canary = {"at_dubbo__tag": "canary"}
            wait_until(
                lambda: set(answered(reference, 20, **canary)) == {f"{group}-named"},
                what="the rule sends tagged calls to the named instance",
            )
            assert set(answered(reference, 60)) == rest
        wait_until(
            lambda: len(answered(reference, 60)) == 3,
            what="without the rule all three serve again",
        )

    def test_an_oversize_reply_or_request_ends_only_that_call(self, fleet, callee):
        group = f"huge-{callee}"
        fleet.offer(callee, group, group=group, port=free_port(), payload=32 * MIB)
        words = {"group": group, "timeout": 5000, "p_payload": 32 * MIB}
        reference = fleet.reference(VERSIONS[-1], **words)
        reply = reference.call("blob", 9_000_000)
        assert (reply["code"], token(reply)) == (NETWORK, "PAYLOAD_TOO_LARGE")
        request = reference.call("echoBytes", 9_000_000)
        assert (request["code"], token(request)) == (NETWORK, "PAYLOAD_TOO_LARGE")
        assert reference.value() == f"hello bob from {group}"


@callees
def test_a_callback_parameter_is_refused_with_the_reason(fleet, callee):
    group, callback = f"callback-{callee}", {"p_listen__0__callback": "true"}
    port = fleet.offer(callee, group, group=group, **callback)
    caller, direct = VERSIONS[0], f"dubbo://127.0.0.1:{port}"
    heard = fleet.peers.reference(caller, direct, group=group, **callback).value("listen")
    assert heard == f"hello from {group}"
    refused = fleet.reference(caller, group=group, **callback).call("listen")
    assert refused["code"] == NETWORK
    assert "callback" in refused["root"]


@pytest.mark.parametrize("caller", VERSIONS[1:], ids=lambda v: f"consumer{v}")
@pytest.mark.parametrize("callee", VERSIONS[1:], ids=lambda v: f"provider{v}")
class TestFastjson2:
    def test_calls_are_routed_and_answered(self, fleet, caller, callee):
        group = f"json-{callee}"
        offered = {"group": group, "p_prefer__serialization": "fastjson2,hessian2"}
        # A server writes error replies in the preferred serialization of its first service.
        fleet.offer(callee, f"{group}-plain", port=free_port(), **offered)
        gray = {**offered, "tag": "gray", "port": free_port()}
        fleet.offer(other_modern(callee), f"{group}-gray", **gray)
        query = "?serialization=fastjson2&prefer.serialization=fastjson2"
        reference = fleet.reference(caller, query, group=group)
        assert answered(reference, 20, at_dubbo__tag="gray") == {f"{group}-gray": 20}
        assert reference.value() == f"hello bob from {group}-plain"
        assert reference.value("helloLater") == f"later bob from {group}-plain"
        assert reference.value("place", "N-3") == "N-3"
        assert reference.call("fail", "no tea")["message"] == "no tea"
        assert reference.value("echoBytes", MIB) == MIB
        forced = reference.call("who", at_dubbo__tag="nobody", at_dubbo__force__tag="true")
        assert (forced["code"], token(forced)) == (NETWORK, "TAG_FORCED_EMPTY")


@callers
def test_a_service_without_any_provider_is_refused_at_once(fleet, caller):
    reference = fleet.reference(caller, generic="true", interface="org.example.peer.Nobody")
    answer = reference.call("hello", mode="generic")
    assert (answer["code"], token(answer)) == (NETWORK, "EMPTY_REGISTRY")
    assert answer["ms"] < 1000


def test_metrics_count_the_calls(fleet):
    group = "counted"
    offer_plain(fleet, VERSIONS[-1], group)
    answered(fleet.reference(VERSIONS[-1], group=group), 7)
    label = f'service="{group}/{INTERFACE}"'
    lines = [line for line in fleet.sidecar.get("/metrics").splitlines() if label in line]
    requests = [line for line in lines if line.startswith("sidecar_requests_total")]
    assert sum(float(line.split()[-1]) for line in requests) == 7


@callers
def test_idle_connections_live_on_heartbeats_and_are_replaced_when_closed(fleet, caller):
    group, callee = f"idle-{caller}", VERSIONS[-1]
    hasty = {"port": free_port(), "p_heartbeat": 500}  # closes what is silent for 1.5 s
    fleet.offer(callee, group, group=group, **hasty)
    reference = fleet.reference(caller, "?heartbeat=700", group=group, connections=1)
    for _ in range(2):
        assert reference.value() == f"hello bob from {group}"
        time.sleep(2.5)
    assert answered(reference, 10) == {group: 10}
