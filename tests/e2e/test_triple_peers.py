"""How real Java Triple peers behave, without the sidecar in between.

These are the facts of ``docs/java-peers.md``; a new Dubbo version that changes one fails here.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.fleet import JavaPeers
from tests.e2e.http2_frames import Http2Frame, Http2Relay
from tests.e2e.peers import (
    HASTY,
    STREAMS,
    TEA,
    VERSIONS,
    Consumer,
    Provider,
    Reference,
    Version,
    wait_until,
)
from tests.e2e.triple_stub import Request, TripleStub

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(120, func_only=True),
    pytest.mark.parametrize("version", VERSIONS[1:], ids=str),
]

UNKNOWN, NETWORK, TIMEOUT, FORBIDDEN, NO_INVOKER, NO_METHOD = 0, 1, 2, 4, 6, 11
"""Codes of Dubbo's RpcException."""

STATUSES = {
    1: ("CANCELLED", UNKNOWN), 2: ("UNKNOWN", UNKNOWN), 4: ("DEADLINE_EXCEEDED", TIMEOUT),
    5: ("NOT_FOUND", UNKNOWN), 7: ("PERMISSION_DENIED", FORBIDDEN),
    8: ("RESOURCE_EXHAUSTED", UNKNOWN), 12: ("UNIMPLEMENTED", NO_METHOD),
    13: ("INTERNAL", UNKNOWN), 14: ("UNAVAILABLE", NETWORK),
}  # fmt: skip

Refer = Callable[..., Reference]
EVERYTHING = 2**31 - 1


@pytest.fixture
def consumer(java_peers: JavaPeers, version: Version) -> Consumer:
    return java_peers.consumer(version)


@pytest.fixture
def triple_stub() -> Iterator[TripleStub]:
    with contextlib.closing(TripleStub()) as stub:
        yield stub


@pytest.fixture
def ask(consumer: Consumer, triple_stub: TripleStub) -> Iterator[Refer]:
    """Makes references to the stub. One to nobody would go on connecting, and delay others."""
    with contextlib.ExitStack() as made:

        def refer(query: str = "", **words: object) -> Reference:
            reference = consumer.refer(triple_stub.url + query, **words)
            made.callback(reference.destroy)
            return reference

        yield refer


@pytest.fixture
def port(java_peers: JavaPeers, version: Version) -> int:
    """The port of a Triple provider of the same version, which has no registry."""
    port, _ = java_peers.offer(version, "tri-direct", protocol="tri", group="facts")
    for name, interface in (("streams-direct", STREAMS), ("tea-direct", TEA)):
        words = {"protocol": "tri", "interface": interface, "port": port, "group": "facts"}
        java_peers.offer(version, name, **words)
    return port


@pytest.fixture
def relay(port: int) -> Iterator[Http2Relay]:
    with contextlib.closing(Http2Relay(port)) as relay:
        yield relay


def heads(frames: list[Http2Frame]) -> list[Http2Frame]:
    return [frame for frame in frames if frame.kind == "HEADERS"]


def timed_out(answer: dict[str, object]) -> bool:
    return answer.get("root_code", answer["code"]) == TIMEOUT


def is_cut_off(answer: dict[str, object]) -> bool:
    """Tell the answer of a consumer that has no connection."""
    assert "code" in answer, answer
    return answer["code"] == NO_INVOKER or str(answer["root"]).endswith("is unavailable")


def refer(consumer: Consumer, relay: Http2Relay, **words: object):
    return consumer.refer(relay.url, group="facts", **words)


def test_the_headers_of_a_call(consumer, relay, version):
    reference = refer(consumer, relay, timeout=5000, version="2.0.0")
    reference.value(at_traceId="t", at_dubbo__tag="gray")
    head = heads(relay.up)[0]
    assert {name.decode() for name, _ in head.headers} == {
        ":scheme", ":authority", ":method", ":path", "content-type", "te", "grpc-timeout",
        "tri-service-version", "tri-service-group", "tri-consumer-appname",
        "grpc-accept-encoding", "traceid", "dubbo.tag", "timeout", "tri-header-convert",
    }  # fmt: skip
    assert head.header(":path") == "/org.example.peer.Greeter/hello"
    assert head.header("content-type") == "application/grpc+proto"
    assert head.header("grpc-timeout") == ("5000000u" if version.name == "3.3" else "5000m")
    assert head.header("tri-consumer-appname") == "order-web"
    assert head.header("tri-header-convert") == "%7B%22traceid%22%3A%22traceId%22%7D"


def test_a_stream_has_no_deadline(consumer, relay):
    refer(consumer, relay, interface=STREAMS, timeout=300).value("many", "1 1")
    assert heads(relay.up)[0].header("grpc-timeout") is None
    assert heads(relay.up)[0].header("timeout") is None


def test_the_windows_that_peers_announce(consumer, relay):
    refer(consumer, relay).value()
    for frames in (relay.up, relay.down):
        settings = next(frame for frame in frames if frame.kind == "SETTINGS").payload
        values = {
            settings[i + 1]: int.from_bytes(settings[i + 2 : i + 6], "big")
            for i in range(0, len(settings), 6)
        }
        assert (values[4], values[5], values[6]) == (8 << 20, 8 << 20, 32768)
        window = next(frame for frame in frames if frame.kind == "WINDOW_UPDATE")
        assert (window.stream, int.from_bytes(window.payload, "big") >> 20) == (0, 15)


def test_an_exception_of_a_wrapped_method_comes_with_status_0(consumer, relay):
    reference = refer(consumer, relay)
    for reason, code in (("no tea", "3"), ("illegal", "3"), ("rpc7", "14"), ("rpc2", "4")):
        relay.down.clear()
        reference.call("fail", reason)
        first, last = heads(relay.down)
        assert (first.header("tri-exception-code"), last.header("grpc-status")) == (code, "0")


def test_an_error_of_a_stub_comes_in_one_block_of_headers(consumer, relay, version):
    refer(consumer, relay, interface=TEA).call("brew", "coffee")
    (head,) = heads(relay.down)
    assert (head.is_end, head.header("grpc-status")) == (True, "5")
    if version.name == "3.3":
        assert head.header(":status") == "500"
        assert head.header("grpc-message") == "NOT_FOUND : no coffee ? here"
        assert head.header("grpc-status-details-bin") is None
    else:
        assert head.header(":status") == "200"
        assert head.header("grpc-message") == "no%20coffee%20%E8%8C%B6%20here"
        assert head.header("grpc-status-details-bin") is not None


def test_what_a_provider_says_about_an_unknown_service(consumer, relay, version):
    words = {"generic": "true", "interface": "org.example.peer.Nobody"}
    refer(consumer, relay, **words).call(mode="generic")
    (head,) = heads(relay.down)
    expected = ("404", "12") if version.name == "3.3" else ("200", "12")
    assert (head.header(":status"), head.header("grpc-status")) == expected


def test_a_provider_answers_for_any_version_and_group(consumer, relay):
    assert refer(consumer, relay, version="9.0.0").value().startswith("hello bob from ")


def test_the_path_of_a_registered_url_is_no_path_for_calls(consumer, java_peers, port, version):
    words = {"protocol": "tri", "group": "pathed", "port": port, "path": "custom"}
    java_peers.offer(version, "pathed", **words)
    asked = {"group": "pathed", "check": "false"}
    by_path = consumer.refer(f"tri://127.0.0.1:{port}/custom", **asked).call()
    assert by_path["root_code"] == NO_METHOD
    by_interface = consumer.refer(f"tri://127.0.0.1:{port}", **asked)
    assert by_interface.value() == "hello bob from pathed"


def test_a_missing_token(consumer, java_peers, port, version):
    words = {"protocol": "tri", "group": "guarded", "port": port, "token": "s3cret"}
    java_peers.offer(version, "tri-guarded", **words)
    url = f"tri://127.0.0.1:{port}"
    answer = consumer.refer(url, group="guarded", timeout=500).call()
    # 3.2 does not answer at all.
    assert timed_out(answer) if version.name == "3.2" else answer["root_code"] == FORBIDDEN
    assert "value" in consumer.refer(f"{url}?token=s3cret", group="guarded").call()


def test_a_timeout_is_retried_and_resets_no_stream(ask, triple_stub):
    triple_stub.answer = lambda request: None
    reference = ask(timeout=200, retries=2)

    def tries() -> int:
        """A timer of the consumer may be first; its timeout looks like a status from the wire."""
        before = len(triple_stub.requests)
        assert timed_out(reference.call())
        return len(triple_stub.requests) - before

    wait_until(lambda: tries() == 3, limit=5, what="the thread itself is first")
    assert triple_stub.connections[0].resets == []


@pytest.mark.parametrize("status", STATUSES)
def test_how_a_status_surfaces_and_that_it_is_not_retried(ask, triple_stub, status):
    name, code = STATUSES[status]
    triple_stub.answer = lambda request: request.refuse(status, "NO_LUCK %E8%8C%B6 today")
    reference = ask(retries=2, timeout=20_000)
    answer = reference.call()
    assert answer["thrown"] == "org.apache.dubbo.rpc.RpcException"
    assert (answer["code"], answer["root_code"]) == (UNKNOWN, code)
    assert answer["root"] == f"{name} : NO_LUCK \u8336 today"
    later = reference.call("helloLater")
    assert (later["thrown"], later["code"]) == ("org.apache.dubbo.rpc.StatusRpcException", code)
    assert len(triple_stub.requests) == 2


@pytest.mark.parametrize("status", [17, 99])
def test_a_status_without_a_name_loses_its_text(ask, triple_stub, status):
    triple_stub.answer = lambda request: request.refuse(status, "NO_LUCK")
    assert ask().call()["root"] == "CANCELLED"


@pytest.mark.parametrize("code", [0, 2, 7, 8])
def test_a_reset_stream_is_not_retried(ask, triple_stub, code):
    triple_stub.answer = lambda request: request.reset(code)
    answer = ask(retries=2).call()
    assert answer["root"] == f"CANCELLED : Canceled by remote peer, errorCode={code}"
    assert len(triple_stub.requests) == 1


def test_a_bare_http_status(ask, triple_stub, version):
    head = [(":status", "503"), ("content-type", "text/plain")]
    triple_stub.answer = lambda request: request.send(head, ends=True)
    answer = ask().call()
    if version.name == "3.3":
        assert answer["root"].startswith("UNAVAILABLE : HTTP status: 503")
    else:
        assert timed_out(answer) or answer["root"] == "CANCELLED"


def go_away_before_the_answer(request: Request, last_stream: int) -> None:
    def later() -> None:
        request.connection.go_away(last_stream)
        time.sleep(0.3)
        with contextlib.suppress(Exception):  # a consumer that gave up
            request.greet()

    threading.Thread(target=later, daemon=True).start()


def test_a_consumer_leaves_at_the_first_goaway_but_waits_for_its_answers(ask, triple_stub):
    reference = ask(HASTY, timeout=2000)
    triple_stub.answer = functools.partial(go_away_before_the_answer, last_stream=EVERYTHING)
    assert reference.value() == "hi bob"
    assert triple_stub.connections[0].is_leaving
    triple_stub.answer = Request.greet
    assert is_cut_off(reference.call())  # until it connects again, a second or two later
    wait_until(lambda: "value" in reference.call(), limit=10, what="the new connection")
    assert triple_stub.connections[0].is_closed


def test_a_call_that_a_goaway_leaves_out_is_lost(ask, triple_stub):
    reference = ask(timeout=2000, retries=2)
    triple_stub.answer = functools.partial(go_away_before_the_answer, last_stream=1)
    assert reference.call()["root"] == "CANCELLED"
    assert len(triple_stub.requests) == 1


def test_a_closed_idle_connection_costs_a_second_or_two(ask, triple_stub):
    reference = ask(HASTY, timeout=1000)
    assert reference.value() == "hi bob"
    triple_stub.connections[0].cut()
    wait_until(lambda: "value" not in reference.call(), limit=1, what="the loss is seen")
    begin = time.monotonic()
    wait_until(lambda: "value" in reference.call(), limit=10, what="the new connection")
    assert time.monotonic() - begin > 0.5


def test_a_consumer_that_is_told_to_goes_on_connecting(ask, triple_stub):
    """Without these parameters the attempt after the first one that fails comes a minute later."""
    reference = ask(HASTY, timeout=1000)
    assert reference.value() == "hi bob"
    triple_stub.close()
    time.sleep(2.5)  # the first attempt fails
    assert is_cut_off(reference.call())
    with contextlib.closing(TripleStub(triple_stub.port)):
        wait_until(lambda: "value" in reference.call(), limit=10, what="a later attempt")


def test_an_idle_consumer_sends_pings(ask, triple_stub):
    ask("?heartbeat=300").value()
    wait_until(lambda: triple_stub.connections[0].pings >= 3, limit=5, what="pings")


def test_how_a_provider_ends(consumer, java_peers, version):
    """First it serves on for a while, then it says GOAWAY, or under load in 3.3 nothing at all."""
    with (
        contextlib.closing(Provider(version, java_peers.directory, protocol="tri")) as provider,
        contextlib.closing(Http2Relay(provider.port)) as relay,
    ):
        reference = consumer.refer(relay.url)
        assert "value" in reference.call()
        provider.terminate()
        time.sleep(0.5)
        assert "value" in reference.call()
        wait_until(lambda: provider.has_ended, what="graceful end")
        reference.destroy()
    last_words = [frame for frame in relay.down if frame.kind in {"GOAWAY", "PING"}]
    assert last_words or version.name == "3.3"
    if last_words:
        assert last_words[0].payload == b"\x7f\xff\xff\xff\0\0\0\0app_requested"
        assert last_words[1].payload.hex() == "000000097acef001"


def test_a_provider_of_3_3_loses_the_border_inside_a_frame(consumer, java_peers, version, port):
    """The first message of a stream must end with its frame, or whole messages must follow."""
    reference = consumer.refer(f"tri://127.0.0.1:{port}", interface=STREAMS, group="facts")
    answers = (reference.call("join", 5, size=200_000) for _ in range(30))  # it leaks: stop at once
    is_lost = any("reserved bits not zero" in str(answer) for answer in answers)
    assert is_lost == (version.name == "3.3")
