"""How real Java peers behave, fact by fact and version by version, without the sidecar in between.

These are the facts of ``docs/java-peers.md``; a new Dubbo version that changes one fails here.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

import pytest

from tests.e2e.fleet import JavaPeers
from tests.e2e.peers import VERSIONS, Consumer, Provider, Reference, Version, wait_until
from tests.e2e.record import Relay
from tests.e2e.stub import body, reply, rpc_exception, text

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(120, func_only=True),  # the first build and start take as long as they take
    pytest.mark.parametrize("version", VERSIONS, ids=str),
]

READONLY = bytes.fromhex("dabba2000000000000000003000000020152")
WRITEABLE = bytes.fromhex("dabba2000000000000000004000000020157")
GOOD = b"\x91" + text("good")
FASTJSON2 = "?serialization=fastjson2&prefer.serialization=fastjson2"

UNKNOWN, NETWORK, TIMEOUT, SERIALIZATION, NO_INVOKER, LIMITED = 0, 1, 2, 5, 6, 7
"""Codes of Dubbo's RpcException."""

CODE_OF_STATUS = {
    25: SERIALIZATION, 30: TIMEOUT, 31: TIMEOUT, 35: NETWORK, 40: NETWORK, 50: NETWORK,
    60: NETWORK, 70: NETWORK, 80: NETWORK, 90: NETWORK, 100: NETWORK, 111: NETWORK,
}  # fmt: skip


@pytest.fixture
def consumer(java_peers: JavaPeers, version: Version) -> Consumer:
    return java_peers.consumer(version)


@pytest.fixture
def direct(java_peers: JavaPeers, version: Version) -> str:
    """The URL of a plain provider of the same version."""
    words = {} if version.is_legacy else {"p_prefer__serialization": "fastjson2,hessian2"}
    return f"dubbo://127.0.0.1:{java_peers.offer(version, 'direct', **words)[0]}"


def wire_timeouts(reference: Reference) -> dict[str, str]:
    seen = reference.value("who")
    return {key: seen[key] for key in ("@timeout", "@_TO", "@_to") if key in seen}


@pytest.mark.parametrize(
    "words",
    [
        {"method": "hello"}, {"method": "helloLater"}, {"mode": "context"}, {"mode": "echo"},
        {"method": "slow", "arg": 10}, {"method": "echoBytes", "arg": 1_000_000},
        {"method": "blob", "arg": 8_000_000}, {"method": "place"},
    ],
    ids=str,
)  # fmt: skip
def test_a_call_succeeds_without_the_sidecar(consumer, direct, words):
    assert "value" in consumer.refer(direct, timeout=5000).call(**words)


def test_a_generic_call_and_a_one_way_call_succeed(consumer, direct):
    generic = consumer.refer(direct, generic="true")
    assert generic.value("hello", mode="generic") == "hello bob from direct"
    reference = consumer.refer(direct)
    before = reference.value("posted")
    assert reference.call("post", mode="oneway")["value"] is None
    wait_until(lambda: reference.value("posted") == before + 1, what="the one-way call arrives")


def test_a_business_exception_is_thrown_as_itself(consumer, direct):
    answer = consumer.refer(direct).call("fail", "no tea")
    assert (answer["thrown"], answer["message"]) == ("org.example.peer.GreetingException", "no tea")


def test_which_timeout_attachments_a_consumer_sends(consumer, direct, version):
    default: dict[str, str] = {} if version.is_legacy else {"@timeout": "1000"}
    configured: dict[str, str] = {} if version.is_legacy else {"@timeout": "2345"}
    assert wire_timeouts(consumer.refer(direct)) == default
    assert wire_timeouts(consumer.refer(direct, timeout=2345)) == configured
    assert wire_timeouts(consumer.refer(f"{direct}?timeout=2345")) == configured
    counted = consumer.refer(direct, timeout=2345, **{"p_enable-timeout-countdown": "true"})
    assert wire_timeouts(counted) == {**configured, "@_TO": "2345 java.lang.Integer"}


def test_a_caller_names_its_application(consumer, direct):
    assert consumer.refer(direct).value("who")["@remote.application"] == "order-web"


def test_user_attachments_stay_for_the_next_call_in_2_7_only(consumer, direct, version):
    reference = consumer.refer(direct)
    assert reference.value("who", at_dubbo__tag="gray")["@dubbo.tag"] == "gray"
    second = reference.value("who", keep=1)
    assert second.get("@dubbo.tag") == ("gray" if version.is_legacy else None)


def test_unload_cluster_related_in_the_url_changes_nothing(consumer, direct, stub, version):
    plain = consumer.refer(direct).value("who")
    unloaded = consumer.refer(f"{direct}?unloadClusterRelated=true").value("who")
    assert unloaded.keys() == plain.keys()
    stub.answer = lambda request: reply(request, 80, text("lost"))
    consumer.refer(f"{stub.url}?unloadClusterRelated=true", retries=2).call()
    assert len(stub.requests) == (1 if version.is_legacy else 3)


@pytest.mark.parametrize("status", CODE_OF_STATUS)
def test_how_an_error_status_surfaces(consumer, stub, version, status):
    stub.answer = lambda request: reply(request, status, text("SOME_REASON no luck"))
    answer = consumer.refer(stub.url, retries=2).call()
    expected = NETWORK if version.is_legacy and status == 25 else CODE_OF_STATUS[status]
    assert answer["thrown"] == "org.apache.dubbo.rpc.RpcException"
    assert answer["code"] == expected
    assert answer["root"] == "SOME_REASON no luck"
    # 2.7 puts no cluster, so no retry, around a single direct URL.
    assert len(stub.requests) == (1 if version.is_legacy else 3)


def test_an_async_method_gets_the_bare_remoting_exception_and_no_retry(consumer, stub):
    reference = consumer.refer(stub.url, retries=2)
    for status, name in ((31, "TimeoutException"), (60, "RemotingException")):
        stub.requests.clear()
        stub.answer = lambda request, status=status: reply(request, status, text("why"))
        answer = reference.call("helloLater")
        assert answer["thrown"] == f"org.apache.dubbo.remoting.{name}"
        assert len(stub.requests) == 1


@pytest.mark.parametrize("code", [LIMITED, NO_INVOKER])
@pytest.mark.parametrize("kind", [0, 3])
def test_an_rpc_exception_as_result_is_never_retried(consumer, stub, version, code, kind):
    stub.answer = lambda request: reply(request, 20, rpc_exception(code, "LIMITED", kind))
    reference = consumer.refer(stub.url, retries=2)
    answer = reference.call()
    assert answer["thrown"] == "org.apache.dubbo.rpc.RpcException"
    assert answer["root"] == "LIMITED"
    # 3.x wraps it once more for synchronous methods; the cause keeps the code.
    assert answer["code"] == (code if version.is_legacy else UNKNOWN)
    assert len(stub.requests) == 1
    assert reference.call("helloLater")["code"] == code


def test_a_real_providers_rpc_exception_surfaces_in_the_same_way(consumer, direct, version):
    answer = consumer.refer(direct).call("fail", "rpc7")
    assert answer["root"] == "rpc7"
    assert answer["code"] == (LIMITED if version.is_legacy else UNKNOWN)


def test_a_hessian_error_reply_answers_a_fastjson2_request(consumer, stub, version):
    stub.answer = lambda request: reply(request, 60, text("SOME_REASON"))
    answer = consumer.refer(stub.url + FASTJSON2).call()
    if version.is_legacy:
        assert "fastjson2" in answer["message"]
        assert not stub.requests
    else:
        assert stub.requests[0][2] == 0xD7
        assert (answer["code"], answer["root"]) == (NETWORK, "SOME_REASON")


def test_a_late_reply_does_no_harm(consumer, stub):
    reference = consumer.refer(stub.url, timeout=200)
    assert reference.call()["code"] == TIMEOUT
    stub.send(reply(stub.requests[0], 20, GOOD))
    stub.answer = lambda request: reply(request, 20, GOOD)
    assert reference.value() == "good"


def outcomes(reference: Reference, seconds: float, until: str = "") -> list[str]:
    """Call again and again; each change of the outcome is listed once. Ends early at ``until``."""
    seen: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (until and until in seen):
        answer = reference.call()
        outcome = "good" if "value" in answer else str(answer["code"])
        if not seen or seen[-1] != outcome:
            seen.append(outcome)
        time.sleep(0.02)
    return seen


def test_what_a_closed_idle_connection_costs(consumer, stub, version):
    stub.answer = lambda request: reply(request, 20, GOOD)
    reference = consumer.refer(stub.url, timeout=500)
    assert reference.value() == "good"
    stub.cut()
    seen = outcomes(reference, 2)
    assert seen[-1] == "good"
    # 3.x may take the reference out of use until the reconnect task's next turn, up to a second.
    assert str(NO_INVOKER) not in seen or not version.is_legacy


def test_what_a_readonly_event_does_to_a_direct_reference(consumer, stub, version):
    stub.answer = lambda request: reply(request, 20, GOOD)
    reference = consumer.refer(stub.url)
    assert reference.value() == "good"
    stub.send(READONLY)
    seen = outcomes(reference, 0.7)
    assert seen[-1] == ("good" if version.is_legacy else str(NO_INVOKER))
    stub.send(WRITEABLE)
    assert outcomes(reference, 5, until="good")[-1] == "good"


def test_a_reply_above_the_consumers_limit_fails_that_call(consumer, stub):
    too_long = (9_000_000).to_bytes(4, "big")
    stub.answer = lambda request: reply(request, 20, GOOD)[:12] + too_long
    answer = consumer.refer(stub.url).call()
    assert answer["code"] == NETWORK
    assert answer["root"].startswith("Data length too large: 9000000, max payload: 8388608")


@pytest.fixture
def relayed(direct):
    with contextlib.closing(Relay(int(direct.rpartition(":")[2]))) as relay:
        yield relay


def statuses(relay: Relay) -> list[int]:
    return [frame[3] for frame in relay.down]


def test_which_status_a_provider_sends_for_its_own_oversize_reply(consumer, relayed, version):
    answer = consumer.refer(relayed.url).call("blob", 9_000_000)
    assert answer["root"].startswith("Data length too large: 90")
    assert answer["code"] == (NETWORK if version.is_legacy else SERIALIZATION)
    # A 3.x server writes its errors in the serialization that its first service prefers.
    assert [(frame[2], frame[3]) for frame in relayed.down] == [
        (0x02, 50) if version.is_legacy else (0x17, 25)
    ]


def test_what_a_request_above_the_providers_limit_does(consumer, java_peers, version):
    port, _ = java_peers.offer(version, "small", payload=100_000)
    reference = consumer.refer(f"dubbo://127.0.0.1:{port}", connections=1, timeout=700)
    first = reference.call("echoBytes", 500_000)
    second = reference.call()
    if version.is_legacy:  # nothing on this connection is answered any more
        assert first["code"] == second["code"] == TIMEOUT
    else:
        assert "value" in second


def test_how_a_provider_refuses_a_wrong_version_or_group(consumer, java_peers, version):
    words = {"group": "g", "version": "1.0.0"}
    port, _ = java_peers.offer(version, "versioned", **words)
    with contextlib.closing(Relay(port)) as relay:
        assert consumer.refer(relay.url, **words).value() == "hello bob from versioned"
        relay.down.clear()
        consumer.refer(relay.url, version="1.0.0").call()
        consumer.refer(relay.url, **{**words, "version": "2.0.0"}).call()
        wrong_group, wrong_version = statuses(relay)
        assert wrong_group == 70
        # 3.x looks for the method first: in a version-less service of that interface, if any.
        assert wrong_version in ([70] if version.is_legacy else [40, 70])


def test_a_provider_refuses_a_call_without_its_token(consumer, java_peers, version):
    port, _ = java_peers.offer(version, "guarded", token="s3cret")
    with contextlib.closing(Relay(port)) as relay:
        answer = consumer.refer(relay.url).call()
        assert "Invalid token!" in answer["root"]
        assert statuses(relay) == [70]
        assert "value" in consumer.refer(f"{relay.url}?token=s3cret").call()


def test_a_full_thread_pool_answers_100(consumer, java_peers, version):
    port, _ = java_peers.offer(version, "narrow", threads=1)
    with contextlib.closing(Relay(port)) as relay:
        reference = consumer.refer(relay.url, timeout=3000)
        outcome = reference.many(3, threads=3, method="slow", arg=500)
        assert sorted(statuses(relay)) == [20, 100, 100]
        assert sum(outcome["failures"].values()) == 2


def shutdown_story(relay: Relay, provider: Provider) -> list[Any]:
    relay.down.clear()
    provider.terminate()
    wait_until(lambda: provider.has_ended, what="graceful end")
    return [frame for frame in relay.down if frame[2] & 0x20]


def test_a_provider_announces_its_end_with_readonly_events(consumer, java_peers, version):
    words = {} if version.is_legacy else {"p_prefer__serialization": "fastjson2,hessian2"}
    with (
        contextlib.closing(Provider(version, java_peers.directory, **words)) as provider,
        contextlib.closing(Relay(provider.port)) as relay,
    ):
        assert "value" in consumer.refer(relay.url).call()
        events = shutdown_story(relay, provider)
    # The event is in the provider's preferred serialization, not in that of the calls.
    expected = (0xA2, b"\x01R") if version.is_legacy else (0xB7, b"\x00\x00\x00\x02\x4aR")
    assert events
    assert {(frame[2], body(frame)) for frame in events} == {expected}


def test_a_provider_closes_a_silent_connection_after_three_heartbeats(java_peers, version):
    port, _ = java_peers.offer(version, "hasty", p_heartbeat=500)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        begin = time.monotonic()
        assert connection.recv(1) == b""  # and it sends no heartbeat of its own before
        assert 1 < time.monotonic() - begin < 4
