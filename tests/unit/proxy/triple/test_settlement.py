"""How calls end: answers of providers, and those the sidecar makes itself."""

from __future__ import annotations

import json

import pytest

from sidecar.settings.schema import Listener
from tests.fixtures.http2_ends import ConsumerEnd, Stream
from tests.fixtures.http2_peers import DATA, END_STREAM, HEADERS, RESPONSE, RST_STREAM
from tests.fixtures.triple_rig import SERVICE, Rig, connected

JSON = "application/json"
OK = (b":status", b"200")
GRPC = (b"content-type", b"application/grpc")


def shape(end: ConsumerEnd, stream: Stream) -> list[tuple[int, bool]]:
    """Kind of each frame of a stream, and whether it ends it."""
    return [
        (kind, bool(flags & END_STREAM) and kind in (DATA, HEADERS))
        for kind, flags, _ in end.frames_of(stream)
    ]


def asked(kind="application/grpc", **fields):
    """A call at its provider."""
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(kind=kind, **fields)
    rig.settle()
    return rig, consumer, stream, provider, provider.request()


def test_an_answer_passes_as_it_is():
    rig, consumer, stream, provider, request = asked()
    head = (OK, GRPC, (b"x-bin", b"AAE"), (b"x-bin", b"/w"))
    trailers = ((b"grpc-status", b"0"), (b"grpc-message", b""), (b"t", b"1"), (b"t", b"2"))
    provider.head(request, head)
    provider.data(request, b"one")
    rig.settle()
    assert (stream.head, stream.body) == (head, b"one")
    provider.data(request, b"two")
    provider.trailers(request, trailers)
    rig.settle()
    assert (stream.body, stream.trailers) == (b"onetwo", trailers)
    assert (stream.closed, stream.reset) == (0, None)
    assert shape(consumer, stream)[-1] == (HEADERS, True)
    assert rig.outcomes() == {"ok": 1}
    rig.assert_empty()


def test_informational_heads_pass():
    rig, _, stream, provider, request = asked(kind=JSON)
    provider.inform(request, ((b":status", b"103"), (b"link", b"</style.css>")))
    rig.settle()
    assert stream.informational == [((b":status", b"103"), (b"link", b"</style.css>"))]
    provider.head(request, (OK,), end=True)
    rig.settle()
    assert stream.http_status == 200
    rig.assert_empty()


@pytest.mark.parametrize(
    ("head", "trailers", "counted"),
    [
        ((OK, GRPC), ((b"grpc-status", b"0"),), "ok"),
        ((OK, GRPC), ((b"grpc-status", b"5"),), "business_error"),
        ((OK, GRPC), ((b"grpc-status", b"14"),), "provider_error"),
        ((OK, GRPC), ((b"grpc-status", b"4"),), "timeout"),
        ((OK, GRPC, (b"tri-exception-code", b"3")), ((b"grpc-status", b"0"),), "business_error"),
        ((OK, GRPC, (b"tri-exception-code", b"13")), ((b"grpc-status", b"0"),), "provider_error"),
    ],
)
def test_outcomes_are_counted_once(head, trailers, counted):
    rig, _, stream, provider, request = asked()
    rig.advance(0.25)
    provider.head(request, head)
    provider.trailers(request, trailers)
    rig.settle()
    assert stream.trailers == trailers
    assert rig.outcomes() == {counted: 1}
    stats = rig.counters.methods["triple", SERVICE, "hi"]
    assert stats.duration_sum == pytest.approx(0.25)
    rig.assert_empty()


# What is no answer


def test_fc_69_trailers_only_passes_as_one_frame_and_its_status_counts():
    rig, consumer, stream, provider, request = asked()
    provider.head(request, (OK, GRPC, (b"grpc-status", b"5")), end=True)
    rig.settle()
    assert shape(consumer, stream) == [(HEADERS, True)]
    assert (stream.status, stream.closed) == (5, 0)
    assert rig.outcomes() == {"business_error": 1}
    rig.assert_empty()


@pytest.mark.parametrize("ends_with", ["data", "empty data", "trailers", "head"])
def test_fc_69_an_end_without_a_status_is_an_internal_error(ends_with):
    rig, consumer, stream, provider, request = asked()
    provider.head(request, RESPONSE, end=ends_with == "head")
    if ends_with == "data":
        provider.data(request, b"all", end=True)
    elif ends_with == "empty data":
        provider.data(request, b"all")
        rig.settle()
        provider.data(request, b"", end=True)
    elif ends_with == "trailers":
        provider.trailers(request, [(b"x", b"1")])
    rig.settle()
    assert stream.status == 13
    assert stream.message == f"BAD_RESPONSE {SERVICE}: the provider's answer ended without a status"
    assert stream.body == (b"all" if "data" in ends_with else b"")
    assert shape(consumer, stream)[-1] == (HEADERS, True)
    assert rig.outcomes() == {"provider_error": 1}
    rig.assert_empty()


@pytest.mark.parametrize(
    ("status", "expected"), [(b"503", 14), (b"404", 12), (b"500", 2), (b"302", 2)]
)
@pytest.mark.parametrize("is_end", [True, False])
def test_fc_69_an_http_error_becomes_a_grpc_status(status, expected, is_end):
    rig, consumer, stream, provider, request = asked()
    provider.head(request, ((b":status", status), (b"content-type", b"text/plain")), end=is_end)
    if not is_end:
        provider.data(request, b"the reason", end=True)
    rig.settle()
    assert stream.status == expected
    assert stream.message.endswith(f"the provider answered with HTTP status {status.decode()}")
    assert shape(consumer, stream) == [(HEADERS, True)]
    assert rig.outcomes() == {"provider_error": 1}
    rig.assert_empty()


@pytest.mark.parametrize(
    ("code", "expected"), [(0, 13), (1, 13), (2, 13), (8, 1), (11, 8), (12, 7)]
)
@pytest.mark.parametrize("has_head", [True, False])
def test_fc_69_a_reset_becomes_a_grpc_status(code, expected, has_head):
    rig, consumer, stream, provider, request = asked()
    if has_head:
        provider.head(request)
        rig.settle()
    provider.reset(request, code)
    rig.settle()
    assert stream.status == expected
    assert (
        stream.message == f"STREAM_RESET {SERVICE}: the provider reset the stream with code {code}"
    )
    assert shape(consumer, stream) == [(HEADERS, False)] * has_head + [(HEADERS, True)]
    assert rig.outcomes() == {"provider_error": 1}
    rig.assert_empty()


@pytest.mark.parametrize("progress", ["sent", "head", "message"])
def test_fc_69_a_lost_connection_is_unavailable(progress):
    rig, consumer, stream, provider, request = asked()
    if progress != "sent":
        provider.head(request)
    if progress == "message":
        provider.data(request, b"half a mess")
    rig.settle()
    provider.finish()
    rig.settle()
    assert stream.status == 14
    assert stream.message == f"CONNECTION_LOST {SERVICE}: 127.0.0.1:20880 closed the connection"
    assert shape(consumer, stream)[-1] == (HEADERS, True)
    assert rig.outcomes() == {"connection_lost": 1}
    rig.assert_empty()


def test_a_provider_is_told_that_an_answer_which_is_none_is_not_wanted():
    rig, _, _, provider, request = asked()
    provider.head(request, ((b":status", b"503"),))
    provider.data(request, b"a long text")
    rig.settle()
    assert (request.reset, request.closed) == (8, 8)
    rig.assert_empty()


def test_a_provider_hears_nothing_after_a_whole_answer_which_is_none():
    rig, _, _, provider, request = asked()
    provider.head(request, ((b":status", b"503"),), end=True)
    rig.settle()
    assert [kind for kind, _, _ in provider.frames_of(request)] == [HEADERS]
    rig.assert_empty()


# Calls over JSON


@pytest.mark.parametrize(
    ("status", "counted"),
    [
        (b"200", "ok"), (b"302", "ok"), (b"404", "business_error"), (b"500", "provider_error"),
        (b"504", "timeout"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ends_with", ["head", "data", "trailers"])
def test_answers_of_json_calls_pass_whatever_their_status(status, counted, ends_with):
    rig, _, stream, provider, request = asked(kind=JSON)
    head = ((b":status", status), (b"content-type", b"application/json"))
    provider.head(request, head, end=ends_with == "head")
    if ends_with != "head":
        provider.data(request, b"{}", end=ends_with == "data")
    if ends_with == "trailers":
        provider.trailers(request, [(b"x-time", b"3")])
    rig.settle()
    assert stream.head == head
    assert stream.is_ended
    assert stream.body == (b"" if ends_with == "head" else b"{}")
    assert rig.outcomes() == {counted: 1}
    rig.assert_empty()


def test_a_json_call_that_breaks_off_is_reset():
    rig, _, stream, provider, request = asked(kind=JSON)
    provider.head(request, (OK,))
    provider.data(request, b"{")
    rig.settle()
    provider.lose()
    rig.settle()
    assert (stream.body, stream.is_ended, stream.reset) == (b"{", False, 2)
    assert rig.outcomes() == {"connection_lost": 1}
    rig.assert_empty()


def test_a_json_call_whose_answer_has_not_begun_gets_an_http_status():
    rig, _, stream, provider, _ = asked(kind=JSON)
    provider.lose()
    rig.settle()
    assert stream.http_status == 503
    assert json.loads(stream.body) == {
        "status": 503,
        "reason": "CONNECTION_LOST",
        "message": f"CONNECTION_LOST {SERVICE}: 127.0.0.1:20880 closed the connection",
    }
    assert rig.outcomes() == {"connection_lost": 1}
    rig.assert_empty()


def test_an_answer_to_head_has_no_body():
    rig, consumer, stream, provider, _ = asked(kind=JSON, method="HEAD")
    provider.lose()
    rig.settle()
    assert stream.http_status == 503
    assert shape(consumer, stream) == [(HEADERS, True)]
    rig.assert_empty()


# Local answers


def test_nothing_eligible_is_unavailable_with_its_reason():
    rig = Rig()
    rig.publish(service=SERVICE)
    consumer = rig.consumer()
    grpc, rest = consumer.ask(), consumer.ask(kind=JSON)
    rig.settle()
    text = f"EMPTY_REGISTRY {SERVICE}: the registry lists no instance that can be used"
    assert (grpc.status, grpc.message) == (14, text)
    assert grpc.head[:2] == (OK, GRPC)
    assert shape(consumer, grpc) == [(HEADERS, True)]
    assert (rest.http_status, json.loads(rest.body)["message"]) == (503, text)
    assert rig.outcomes_of("triple", "_unknown", "_other") == {"no_provider": 2}
    assert rig.counters.no_eligible == {("_unknown", "EMPTY_REGISTRY"): 2}
    rig.assert_empty()


def test_the_content_type_of_the_consumer_is_that_of_a_local_answer():
    rig = Rig()
    rig.publish(service=SERVICE)
    consumer = rig.consumer()
    stream = consumer.ask(kind="application/grpc+proto")
    rig.settle()
    assert stream.field(b"content-type") == b"application/grpc+proto"


def test_a_message_is_percent_encoded():
    rig = Rig()
    consumer = rig.consumer(Listener(protocol="triple"))
    stream = consumer.ask("/\u00e9t\u00e9")
    rig.settle()
    assert stream.status == 12
    assert stream.message == "UNKNOWN_PATH: no service is known for the path '/%C3%A9t%C3%A9'"
    rig.assert_empty()


# Cancellation


@pytest.mark.parametrize("progress", ["sent", "head", "message"])
def test_a_consumer_that_cancels_cancels_at_the_provider(progress):
    rig, consumer, stream, provider, request = asked()
    if progress != "sent":
        provider.head(request)
    if progress == "message":
        provider.data(request, b"one")
    rig.settle()
    consumer.reset(stream)
    rig.settle()
    assert request.reset == 8
    assert rig.outcomes() == {"cancelled": 1}
    rig.assert_empty()


def test_a_consumer_that_goes_away_cancels_its_calls():
    rig, consumer, _, _, request = asked()
    rig.advance(2)
    consumer.finish()
    rig.settle()
    assert request.reset == 8
    assert rig.outcomes() == {"cancelled": 1}
    assert rig.counters.methods["triple", SERVICE, "hi"].duration_sum == pytest.approx(2)
    assert rig.engine.consumers == set()
    rig.assert_empty()


def test_what_crosses_a_cancellation_is_dropped():
    rig, consumer, stream, provider, request = asked()
    consumer.reset(stream)
    consumer.push()
    provider.inform(request, ((b":status", b"100"),))
    provider.answer(request, b"late")
    provider.push()
    rig.settle()
    assert stream.head is None
    assert rig.outcomes() == {"cancelled": 1}
    rig.assert_empty()


def test_a_call_cancelled_in_the_turn_it_came_in_never_reaches_the_provider():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(body=b"x", end=False)
    consumer.push()
    consumer.reset(stream)
    consumer.push()
    rig.settle()
    assert provider.requests() == []
    assert rig.outcomes() == {"cancelled": 1}
    rig.assert_empty()


def test_a_call_that_is_over_is_not_cancelled():
    rig, consumer, _, provider, request = asked()
    (call,) = consumer.protocol.calls.values()
    provider.answer(request)
    rig.settle()
    rig.engine._forwarder.cancelled(call, rig.loop.now)
    assert rig.outcomes() == {"ok": 1}


# Early answers


@pytest.mark.parametrize("trailers_only", [True, False])
def test_an_answer_before_the_request_has_ended_is_followed_by_a_reset_without_error(trailers_only):
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(body=b"one", end=False)
    rig.settle()
    request = provider.request()
    if trailers_only:
        provider.head(request, (OK, GRPC, (b"grpc-status", b"9")), end=True)
    else:
        provider.answer(request, b"two", [(b"grpc-status", b"9")])
    consumer.data(stream, b"more")
    consumer.push()
    rig.settle()
    assert stream.status == 9
    assert stream.reset == 0
    kinds = [kind for kind, _ in shape(consumer, stream)]
    assert kinds[-2:] == [HEADERS, RST_STREAM]
    assert request.reset == 0, "the provider need not wait for the rest of it either"
    assert rig.outcomes() == {"business_error": 1}
    rig.assert_empty()


def test_an_early_answer_is_whole_before_the_reset():
    rig, consumer, (provider,) = connected(20880)
    consumer.reads = False
    stream = consumer.ask(end=False)
    rig.settle()
    provider.answer(provider.request(), b"x" * 200_000)
    rig.settle()
    assert (len(stream.body), stream.reset) == (65_535, None)
    consumer.reads = True
    consumer.read_all()
    rig.settle()
    assert (len(stream.body), stream.status, stream.reset) == (200_000, 0, 0)
    rig.assert_empty()


def test_a_request_that_ends_with_its_early_answer_is_not_reset():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(end=False)
    rig.settle()
    provider.answer(provider.request())
    provider.push()
    consumer.data(stream, b"", end=True)
    consumer.push()
    rig.settle()
    assert (stream.status, stream.reset) == (0, None)
    assert RST_STREAM not in [kind for kind, _ in shape(consumer, stream)]
    rig.assert_empty()


def test_a_refusal_before_the_request_has_ended_is_followed_by_a_reset_without_error():
    rig = Rig()
    rig.publish(service=SERVICE)
    consumer = rig.consumer()
    stream = consumer.ask(body=b"x", end=False)
    rig.settle()
    assert (stream.status, stream.reset) == (14, 0)
    rig.assert_empty()


def test_an_early_json_answer_is_followed_by_a_reset_without_error():
    rig, consumer, (provider,) = connected(20880)
    stream = consumer.ask(body=b"x", end=False, kind=JSON)
    rig.settle()
    provider.head(provider.request(), ((b":status", b"413"),), end=True)
    rig.settle()
    assert (stream.http_status, stream.is_ended, stream.reset) == (413, True, 0)
    rig.assert_empty()
