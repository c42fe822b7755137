"""What Dubbo's Java providers need, and how they answer: seen with 3.2 and 3.3."""

from __future__ import annotations

import pytest

from sidecar.settings.schema import Listener
from tests.fixtures.http2_peers import DATA, END_STREAM
from tests.fixtures.triple_rig import Rig, connected

JSON = "application/json"


def message(size: int) -> bytes:
    return b"\x00" + size.to_bytes(4, "big") + b"x" * size


def data_frames(provider, request) -> list[tuple[int, bool]]:
    """Length of each DATA frame of a request, and whether it ends it."""
    return [
        (size, bool(flags & END_STREAM))
        for kind, flags, size in provider.frames_of(request)
        if kind == DATA
    ]


# The first message of a stream


@pytest.mark.parametrize(
    ("pieces", "frames"),
    [
        ([message(10) + message(20)], [15, 25]),
        ([message(10) + message(20)[:7], message(20)[7:]], [15, 25]),
        ([message(10)[:3], message(10)[3:] + message(20)], [15, 25]),
        ([message(10), message(20)], [15, 25]),
        ([message(10), message(20) + message(30)], [15, 60]),
        ([message(0) + message(0)], [5, 5]),
    ],
)
def test_the_first_message_ends_with_a_frame(pieces, frames):
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(end=False)
    for piece in pieces:
        consumer.data(stream, piece)
        consumer.push()
    rig.settle()
    request = provider.request()
    assert [size for size, _ in data_frames(provider, request)] == frames
    consumer.data(stream, b"", end=True)
    rig.settle()
    assert (request.body, request.is_ended) == (b"".join(pieces), True)
    provider.answer(request)
    rig.settle()
    rig.assert_empty()


def test_a_unary_call_is_one_frame_however_it_comes():
    rig, consumer, (provider,) = connected(20880)
    whole = consumer.ask(body=message(10))
    in_two = consumer.ask(body=message(10), end=False)
    consumer.data(in_two, b"", end=True)
    rig.settle()
    assert [data_frames(provider, each) for each in provider.requests()] == [[(15, True)]] * 2
    assert whole.closed is in_two.closed is None


def test_it_ends_with_a_frame_when_the_call_had_to_wait_for_its_connection():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    stream = consumer.ask(body=message(10) + message(20)[:9], end=False)
    rig.settle()
    consumer.data(stream, message(20)[9:], end=True)
    rig.settle()
    provider = rig.open()
    request = provider.request()
    assert request.body == message(10) + message(20)
    assert data_frames(provider, request)[0] == (15, False)


def test_it_shares_its_frame_when_the_transport_takes_nothing_just_then():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(body=message(10)[:6], end=False)
    rig.settle()
    provider.protocol.pause_writing()
    consumer.data(stream, message(10)[6:] + message(20), end=True)
    rig.settle()
    provider.protocol.resume_writing()
    rig.settle()
    request = provider.request()
    assert (request.body, request.is_ended) == (message(10) + message(20), True)


def test_bodies_that_are_no_grpc_are_left_alone():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(kind=JSON, body=message(10) + message(20), end=False)
    rig.settle()
    consumer.data(stream, b"", end=True)
    rig.settle()
    assert data_frames(provider, provider.request())[0][0] == 40


# Paths


@pytest.mark.parametrize(
    ("registered", "asked", "expected"),
    [
        ("com.x.Demo", "/com.x.Demo/hi", "/com.x.Demo/hi"),
        ("app/com.x.Demo", "/com.x.Demo/hi", "/app/com.x.Demo/hi"),
        ("com.x.Demo", "/app/com.x.Demo/hi", "/com.x.Demo/hi"),
        ("custom", "/com.x.Demo/hi", "/com.x.Demo/hi"),
        ("some/where/custom", "/com.x.Demo/hi", "/com.x.Demo/hi"),
    ],
)
def test_a_context_is_added_and_other_paths_are_not(registered, asked, expected):
    rig = Rig()
    rig.publish(20880, path=registered)
    rig.consumer().ask(asked)
    rig.settle()
    request = rig.open().request()
    assert request.field(b":path") == expected.encode()


@pytest.mark.parametrize(
    ("configured", "asked"),
    [
        ("com.x.Demo", {"tri_service_group": "g", "version": "1.0.0"}),
        ("g/com.x.Demo:1.0.0", {"version": ""}),
        ("g/com.x.Demo:1.0.0", {"tri_service_group": "other", "version": "9"}),
    ],
)
@pytest.mark.parametrize("path", ["/shop/orders/7", "/shop"])
def test_a_path_that_names_no_service_is_routed_by_group_and_version_too(configured, asked, path):
    rig = Rig()
    rig.publish(20880, service="g/com.x.Demo:1.0.0")
    listener = Listener(protocol="triple", paths={"/shop": configured})
    rig.consumer(listener).ask(path, kind=JSON, method="GET", **asked)
    rig.settle()
    request = rig.open().request()
    assert request.field(b":path") == path.encode()


# Answers


@pytest.mark.parametrize(("http", "status"), [(b"500", b"5"), (b"404", b"12"), (b"200", b"5")])
def test_an_error_with_an_http_status_passes_as_it_is(http, status):
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask()
    rig.settle()
    head = (
        (b":status", http), (b"content-type", b"application/grpc"), (b"grpc-status", status),
        (b"grpc-message", b"NOT_FOUND : no coffee"),
    )  # fmt: skip
    provider.head(provider.request(), head, end=True)
    rig.settle()
    assert stream.head == head
    assert stream.is_ended
    rig.assert_empty()


def test_a_body_in_answer_to_head_is_dropped():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(kind=JSON, method="HEAD")
    rig.settle()
    request = provider.request()
    provider.head(request, ((b":status", b"200"), (b"content-length", b"7")))
    rig.settle()
    assert (stream.http_status, stream.is_ended, stream.body) == (200, True, b"")
    assert stream.reset is None
    assert request.reset is not None
    assert rig.outcomes() == {"ok": 1}
    rig.assert_empty()
