"""What a call is given on its way to its chosen instance."""

from __future__ import annotations

import pytest

from sidecar.model.service import ServiceKey
from sidecar.protocol.triple.head import HeadReader
from sidecar.proxy.link import FlushQueue
from sidecar.proxy.triple.exchange import ConsumerSide, TripleCall
from sidecar.proxy.triple.extras import outgoing
from sidecar.proxy.triple.paths import Paths
from tests.fixtures.services import SERVICE, instance
from tests.fixtures.stage import FakeLoop

BARE = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/com.x.Demo/hi"),
    (b":authority", b"sidecar:50051"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
    (b"tri-service-version", b"1.0.0"),
)


def call(headers=BARE, asked_ms=-1, **values) -> TripleCall:
    """A call, and the instance with these values that was chosen for it."""
    loop = FakeLoop()
    side = ConsumerSide(FlushQueue(loop.call_soon), loop.time, Paths({}, ""))
    head = HeadReader().read(headers)
    made = TripleCall(side, 1, head, headers, SERVICE, asked_ms, True, 1000.0)
    made.is_named_by_path = True
    made.instance = instance(20880, ServiceKey.parse(SERVICE), protocol="tri", **values)
    return made


def changed(made: TripleCall, tag="", is_authority_own=False, now=1000.0):
    """The fields that differ from what came, and those that were added."""
    out = outgoing(made, tag, is_authority_own, False, now)
    return {
        name.decode(): value.decode() for name, value in out if (name, value) not in made.headers
    }


def with_field(name: bytes, value: bytes):
    kept = tuple(pair for pair in BARE if pair[0] != name)
    return (*kept, (name, value))


def test_a_call_that_fits_is_not_touched():
    made = call()
    assert outgoing(made, "", False, False, 1000.0) is made.headers


def test_a_call_without_an_instance_is_not_touched():
    made = call()
    made.instance = None
    assert outgoing(made, "", True, False, 1000.0) is made.headers


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"token": "secret"}, {"token": "secret"}),
        ({"group": "g1"}, {"tri-service-group": "g1"}),
        ({"version": "2.0.0"}, {"tri-service-version": "2.0.0"}),
        ({"version": ""}, {"tri-service-version": "0.0.0"}),
        ({"path": "shop/com.x.Demo"}, {":path": "/shop/com.x.Demo/hi"}),
        ({"path": "anything"}, {}),
        ({"path": ""}, {}),
    ],
)
def test_what_differs_from_the_call_is_given_to_it(values, field):
    assert changed(call(**values)) == field


def test_all_of_it():
    made = call(token="t", group="g", version="2.0.0", path="shop/com.x.Demo")
    assert changed(made, "gray", True) == {
        "token": "t",
        "tri-service-group": "g",
        "tri-service-version": "2.0.0",
        "dubbo.tag": "gray",
        ":path": "/shop/com.x.Demo/hi",
        ":authority": "127.0.0.1:20880",
    }


def test_the_version_is_named_for_a_call_that_named_none():
    assert changed(call(BARE[:-1])) == {"tri-service-version": "1.0.0"}


def test_a_context_of_the_consumer_is_replaced_by_that_of_the_instance():
    headers = with_field(b":path", b"/old/ctx/com.x.Demo/hi")
    assert changed(call(headers)) == {":path": "/com.x.Demo/hi"}
    assert changed(call(headers, path="old/ctx/com.x.Demo")) == {}
    assert changed(call(headers, path="n\u00e9w/com.x.Demo")) == {
        ":path": "/n\u00e9w/com.x.Demo/hi"
    }


def test_the_rest_of_a_json_path_stays():
    headers = (*with_field(b":path", b"/com.x.Demo/hi?a=1/2"),)
    rest = tuple((n, b"application/json" if n == b"content-type" else v) for n, v in headers)
    assert changed(call(rest, path="shop/com.x.Demo")) == {":path": "/shop/com.x.Demo/hi?a=1/2"}


def test_a_path_that_did_not_name_the_service_stays():
    made = call(path="shop/com.x.Demo")
    made.is_named_by_path = False
    assert changed(made) == {}


def test_the_default_tag_is_for_calls_that_have_none():
    assert changed(call(), "gray") == {"dubbo.tag": "gray"}
    tagged = (*BARE, (b"dubbo-tag", b"blue"))
    assert changed(call(tagged), "gray") == {}


def test_the_authority_is_kept_or_that_of_the_instance():
    assert changed(call(), is_authority_own=True) == {":authority": "127.0.0.1:20880"}
    assert changed(call(), is_authority_own=False) == {}


@pytest.mark.parametrize(
    ("asked", "asked_ms", "spent", "expected"),
    [
        (b"1S", 1000, 0.0, None),
        (b"1S", 1000, 0.0009, None),
        (b"1S", 1000, 0.12, b"880000u"),
        (b"1S", 1000, 0.9999, b"100u"),
        (b"1S", 1000, 2.0, b"0u"),
        (b"1H", 30_000, 0.0, b"30000000u"),
        (b"1H", 30_000, 1.5, b"28500000u"),
        (b"1500u", 2, 0.0, None),
    ],
)
def test_a_deadline_is_what_is_left_of_it(asked, asked_ms, spent, expected):
    made = call((*BARE, (b"grpc-timeout", asked)), asked_ms)
    left = changed(made, now=1000.0 + spent).get("grpc-timeout")
    if expected is None or left is None:
        assert left == (expected and expected.decode())
    else:
        assert abs(int(left[:-1]) - int(expected[:-1])) <= 1
        assert int(left[:-1]) <= int(expected[:-1]) + 1


def test_a_call_without_a_deadline_is_given_none():
    assert changed(call(asked_ms=-1), now=1000.5) == {}


def test_a_request_without_a_path_is_given_none():
    assert changed(call(BARE[:2], path="shop/", version="")) == {}
