"""HTTP and JSON to a Java Triple provider of 3.3, over both versions of HTTP."""

from __future__ import annotations

import functools
import json

import pytest

from tests.e2e.fleet import DIRECT, SIDECAR
from tests.e2e.http_client import fetch_http1, fetch_http2
from tests.e2e.peers import INTERFACE, MENU, STREAMS, VERSIONS

pytestmark = [
    pytest.mark.java,
    pytest.mark.zookeeper,
    pytest.mark.timeout(120, func_only=True),
    pytest.mark.parametrize("via", [DIRECT, SIDECAR]),
    pytest.mark.parametrize("fetch", [fetch_http1, fetch_http2], ids=["http1", "http2"]),
]

JSON = {"content_type": "application/json"}
EVENTS = {**JSON, "accept": "text/event-stream"}
CALLEE = VERSIONS[-1]
GROUP = "http"


@pytest.fixture
def ask(fleet, via, fetch):
    """One request to the provider or to the sidecar; the services share a provider."""
    offered = {"protocol": "tri", "group": GROUP, "version": "1.0.0"}
    for name, interface in (("greeter", INTERFACE), ("menu", MENU), ("streams", STREAMS)):
        port = fleet.offer(CALLEE, f"http-{name}", interface=interface, **offered)
        fleet.wait_known(interface)
    chosen = {"tri_service_group": GROUP, "tri_service_version": "1.0.0"}
    return functools.partial(fetch, port if via == DIRECT else fleet.sidecar.triple_port, **chosen)


def call(ask, interface: str, method: str, *arguments: object, **headers: str):
    body = json.dumps(arguments).encode()
    return ask("POST", f"/{interface}/{method}", body, **{**JSON, **headers})


def test_a_call_with_arguments(ask, via):
    answer = call(ask, INTERFACE, "hello", "bob \u8336")
    assert (answer.status, answer.json) == (200, "hello bob \u8336 from http-greeter")
    assert answer.headers["content-type"] == "application/json"
    if via == SIDECAR:
        assert "alt-svc" not in answer.headers  # it names the provider's own port


def test_objects(ask):
    orders = [{"number": "N-1", "cents": 5, "lines": ["tea"]}, {"number": "N-2"}]
    answer = call(ask, INTERFACE, "place", *orders)
    assert (answer.status, answer.json["lines"]) == (200, ["tea"])


def test_a_large_body_both_ways(ask):
    name = "x" * 1_000_000
    answer = call(ask, INTERFACE, "hello", name)
    assert answer.json == f"hello {name} from http-greeter"


def test_headers_reach_the_provider(ask):
    answer = call(ask, INTERFACE, "who", dubbo__tag="gray", trace="t-1")
    seen = {key.lower(): value for key, value in answer.json.items()}
    assert (seen["@dubbo.tag"], seen["@trace"]) == ("gray", "t-1")


@pytest.mark.parametrize(("reason", "status"), [("no tea", 500), ("illegal", 500), ("rpc7", 503)])
def test_an_exception_has_an_http_status(ask, reason, status):
    answer = call(ask, INTERFACE, "fail", reason)
    assert (answer.status, answer.json) == (status, {"message": reason, "status": str(status)})


def test_an_unknown_method(ask):
    answer = call(ask, INTERFACE, "nothing")
    assert (answer.status, answer.json["status"]) == (404, "404")


def test_the_group_by_its_other_header(ask):
    ask.keywords.clear()
    chosen = {"rest_service_group": GROUP, "rest_service_version": "1.0.0"}
    assert call(ask, INTERFACE, "hello", "eve", **chosen).json == "hello eve from http-greeter"


def test_paths_of_the_services_own(ask):
    got = ask("GET", "/api/menu/tea?size=big")
    assert got.json == {"dish": "tea", "size": "big", "from": "http-menu"}
    posted = ask("POST", "/api/menu/orders", b'{"dish": "tea"}', **JSON)
    assert posted.json == {"dish": "tea", "from": "http-menu"}
    refused = ask("GET", "/api/menu/coffee")
    assert (refused.status, refused.body) == (418, b'"no coffee here"')
    assert ask("GET", "/api/menu/nothing/here").status == 404
    options = ask("OPTIONS", "/api/menu/tea")
    assert (options.status, options.headers["allow"]) == (204, "GET")


def test_head(ask, via, fetch):
    if via == DIRECT and fetch is fetch_http2:
        pytest.skip("a provider sends a body, which is against the rules")
    head = ask("HEAD", "/api/menu/tea")
    assert (head.status, head.body) == (200, b"")


def test_a_stream_of_events(ask):
    answer = call(ask, STREAMS, "many", "3 5", **EVENTS)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.events == ["0.....", "1.....", "2.....", "from http-streams"]
    failed = call(ask, STREAMS, "many", "3 5 fail", **EVENTS).events
    assert json.loads(failed[-1])["message"] == "no more tea"


def test_a_long_stream_of_events(ask):
    answer = call(ask, STREAMS, "many", "300 10000", **EVENTS)
    assert (len(answer.events), answer.events[-1]) == (301, "from http-streams")


def test_a_timeout(ask, via):
    answer = call(ask, INTERFACE, "slow", 900, tri_service_timeout="300")
    assert answer.status in ({408} if via == DIRECT else {408, 504})


def test_the_sidecars_own_answers(ask, via):
    if via == DIRECT:
        pytest.skip("a provider would say 404, or answer for any version")
    for path, headers, status, reason in (
        ("/org.example.peer.Nobody/hello", {}, 503, "EMPTY_REGISTRY"),
        (f"/{INTERFACE}/hello", {"tri_service_version": "9.0.0"}, 503, "VERSION_MISMATCH"),
    ):
        answer = ask("POST", path, b'["bob"]', **{**JSON, **headers})
        assert (answer.status, reason in answer.body.decode()) == (status, True)
