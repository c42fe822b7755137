"""A consumer's HTTP/1.1 connection over a provider's HTTP/2 one."""

from __future__ import annotations

import json

import pytest

from sidecar.proxy.triple.downstream import STALL
from sidecar.proxy.triple.http1 import MAX_UNWANTED
from sidecar.settings.schema import Http2, Listener, ListenerTls
from sidecar.settings.units import Duration, Size
from tests.fixtures.http2_ends import WINDOW
from tests.fixtures.triple_rig import connected

KIB = 1024
JSON = (b"content-type", b"application/json")
OK = ((b":status", b"200"), JSON)
VERSION = {"tri_service_version": "1.0.0", "content_type": "application/json"}
CLOSED = "sidecar_consumers_closed_total"


class Scene:
    """A consumer, and a provider with an open connection."""

    def __init__(self, listener=None, **sections):
        self.rig, other, (self.provider,) = connected(20880, **sections)
        other.finish()
        self.rig.settle()
        self.consumer = self.rig.http1(listener)
        self.downstream = self.consumer.protocol

    def ask(self, *arguments, **words):
        """Begin a request; return the answer to come and the provider's stream."""
        answer = self.consumer.ask(*arguments, **(VERSION | words))
        self.rig.settle()
        return answer, self.provider.request()

    def answer(self, stream, body=b"hello", fields=OK):
        self.provider.head(stream, fields)
        self.provider.data(stream, body, end=True)
        self.rig.settle()

    def settle(self):
        self.rig.settle()

    def closed(self):
        named = self.rig.counters.named
        return {label: count for (name, label), count in named.items() if name == CLOSED}

    def assert_empty(self):
        self.rig.assert_empty()
        assert self.downstream._untaken == 0
        assert self.downstream.parts == []


@pytest.fixture
def scene():
    return Scene()


# Requests and answers.


def test_a_request_goes_on_as_http2_and_its_answer_comes_back(scene):
    answer, stream = scene.ask(body=b'["bob"]', X_Mine="1", Connection="x-drop", X_Drop="2")
    assert stream.head == (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":authority", b"shop"),
        (b":path", b"/com.x.Demo/hi"),
        (b"tri-service-version", b"1.0.0"),
        (b"content-type", b"application/json"),
        (b"x-mine", b"1"),
        (b"content-length", b"7"),
    )
    assert (bytes(stream.body), stream.is_ended) == (b'["bob"]', True)
    scene.provider.head(stream, (*OK, (b"x-yours", b"3")))
    scene.provider.data(stream, b'"hi bob"', end=True)
    scene.settle()
    assert (answer.status, answer.body, answer.is_over) == (200, b'"hi bob"', True)
    assert answer.headers[b"x-yours"] == b"3"
    assert scene.rig.outcomes() == {"ok": 1}
    scene.assert_empty()


def test_a_request_without_a_body_ends_at_once(scene):
    _, stream = scene.ask(method="GET")
    assert stream.is_ended
    assert stream.body == b""


@pytest.mark.parametrize("tls", [None, ListenerTls(certificate="c", key="k")])
def test_the_scheme_is_that_of_the_connection(tls):
    scene = Scene(Listener(protocol="triple", tls=tls))
    _, stream = scene.ask(method="GET")
    assert stream.field(b":scheme") == (b"http" if tls is None else b"https")


def test_connections_are_used_again(scene):
    for number in range(3):
        answer, stream = scene.ask(method="GET")
        scene.answer(stream, b"%d" % number)
        assert answer.body == b"%d" % number
    assert scene.rig.outcomes() == {"ok": 3}
    assert not scene.consumer.is_closed
    scene.assert_empty()


@pytest.mark.parametrize("words", [{"Connection": "close"}, {"version": "1.0"}])
def test_connections_that_are_not_to_be_used_again_are_closed(scene, words):
    answer, stream = scene.ask(method="GET", **words)
    scene.answer(stream)
    assert (answer.headers[b"connection"], answer.body) == (b"close", b"hello")
    assert answer.is_over
    assert scene.consumer.is_closed
    assert scene.closed() == {}
    scene.assert_empty()


def test_a_chunked_request_goes_on_piece_by_piece(scene):
    answer, stream = scene.ask(is_chunked=True)
    for piece in (b"one", b"two"):
        scene.consumer.chunk(piece)
        scene.settle()
    assert (stream.body, stream.is_ended) == (b"onetwo", False)
    scene.consumer.chunk(b"")
    scene.settle()
    assert stream.is_ended
    scene.answer(stream)
    assert answer.body == b"hello"
    scene.assert_empty()


def test_trailers_of_a_request_go_on(scene):
    _, stream = scene.ask(is_chunked=True)
    scene.consumer.say(b"1\r\nx\r\n0\r\nX-Sum: 7\r\n\r\n")
    scene.settle()
    assert stream.trailers == ((b"x-sum", b"7"),)


@pytest.mark.parametrize(("te", "expected"), [({"TE": "trailers"}, [(b"x-sum", b"7")]), ({}, [])])
def test_trailers_of_an_answer_are_for_those_who_ask(scene, te, expected):
    answer, stream = scene.ask(method="GET", **te)
    scene.provider.head(stream, OK)
    scene.provider.data(stream, b"x")
    scene.provider.trailers(stream, [(b"x-sum", b"7")])
    scene.settle()
    assert (answer.body, answer.trailers, answer.is_over) == (b"x", expected, True)
    assert scene.rig.outcomes() == {"ok": 1}
    scene.assert_empty()


def test_an_answer_to_head(scene):
    answer, stream = scene.ask(method="HEAD")
    scene.provider.head(stream, (*OK, (b"content-length", b"5")), end=True)
    scene.settle()
    assert (answer.headers[b"content-length"], answer.body) == (b"5", b"")
    assert answer.is_over
    assert not scene.consumer.is_closed


def test_a_body_where_none_may_be_is_dropped(scene):
    answer, stream = scene.ask(method="GET")
    scene.provider.head(stream, OK)
    scene.settle()
    scene.downstream._session.has_body = False  # HTTP/2 has its own eye on that
    scene.provider.data(stream, b"nonsense", end=True)
    scene.settle()
    assert (answer.status, answer.body, answer.is_over) == (200, b"", True)
    scene.assert_empty()


def test_real_status_codes_come_back(scene):
    answer, stream = scene.ask(method="GET")
    scene.answer(stream, b"gone", ((b":status", b"410"), JSON))
    assert (answer.status, answer.body) == (410, b"gone")
    assert scene.rig.outcomes() == {"business_error": 1}


def test_events_are_written_as_they_come(scene):
    answer, stream = scene.ask(method="GET")
    scene.provider.head(stream, ((b":status", b"200"), (b"content-type", b"text/event-stream")))
    scene.settle()
    assert answer.status == 200
    for number in range(3):
        scene.provider.data(stream, b"data: %d\n\n" % number)
        scene.settle()
        assert answer.body.endswith(b"data: %d\n\n" % number)
        assert not answer.is_over
    scene.provider.data(stream, b"", end=True)
    scene.settle()
    assert answer.is_over
    scene.assert_empty()


def test_hints_before_the_answer(scene):
    answer, stream = scene.ask(method="GET")
    scene.provider.connection.send_informational_response(stream.id, [(b":status", b"103")])
    scene.settle()
    assert answer.informational == [103]
    scene.answer(stream)
    assert answer.body == b"hello"


def test_a_grpc_call_has_its_status_in_trailers(scene):
    answer, stream = scene.ask(body=b"\0\0\0\0\0", content_type="application/grpc", TE="trailers")
    scene.provider.head(stream, ((b":status", b"200"), (b"content-type", b"application/grpc")))
    scene.provider.data(stream, b"\0\0\0\0\0")
    scene.provider.trailers(stream)
    scene.settle()
    assert (answer.status, answer.trailers) == (200, [(b"grpc-status", b"0")])


# Requests that are not forwarded.


def test_local_refusals_are_http_answers(scene):
    answer = scene.consumer.ask("/none", method="GET")
    scene.settle()
    assert answer.status == 404
    assert json.loads(answer.body)["reason"] == "UNKNOWN_PATH"
    assert not scene.consumer.is_closed
    _, stream = scene.ask(method="GET")
    assert stream.head


def test_a_refusal_before_the_body_has_come(scene):
    answer = scene.consumer.ask("/none", is_chunked=True)
    scene.settle()
    assert answer.status == 404
    assert scene.downstream.inflight == 1
    scene.consumer.chunk(b"x")
    scene.consumer.chunk(b"")
    scene.settle()
    assert scene.downstream.inflight == 0
    answer, stream = scene.ask(method="GET")
    scene.answer(stream)
    assert answer.body == b"hello"
    scene.assert_empty()


@pytest.mark.parametrize(
    ("data", "status", "word"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nx: " + b"y" * 70_000, 431, "header_size"),
        (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 501, "bad_request"),
    ],
)
def test_what_cannot_be_understood_ends_the_connection(scene, data, status, word):
    answer = scene.consumer.expect()
    scene.consumer.say(data)
    scene.settle()
    assert (answer.status, answer.is_over) == (status, True)
    assert scene.consumer.is_closed
    assert scene.closed() == {word: 1}


def test_a_bad_body_ends_the_call(scene):
    answer, stream = scene.ask(is_chunked=True)
    scene.consumer.say(b"zz\r\n")
    scene.settle()
    assert (answer.status, answer.is_over) == (400, True)
    assert stream.reset == 8
    assert scene.consumer.is_closed
    assert scene.rig.outcomes() == {"cancelled": 1}
    scene.assert_empty()


def test_a_bad_body_after_the_answer_has_begun_breaks_it_off(scene):
    answer, stream = scene.ask(is_chunked=True)
    scene.provider.head(stream, OK)
    scene.provider.data(stream, b"half")
    scene.settle()
    scene.consumer.say(b"zz\r\n")
    scene.settle()
    assert (answer.body, answer.is_over) == (b"half", False)
    assert scene.consumer.transport.is_aborted
    assert stream.reset == 8
    scene.assert_empty()


# Bodies that are asked for.


def test_a_consumer_that_waits_is_told_to_go_on(scene):
    answer, stream = scene.ask(Content_Length="5", Expect="100-continue")
    assert answer.informational == [100]
    assert stream.field(b"expect") is None
    scene.consumer.say(b"hello")
    scene.settle()
    assert (bytes(stream.body), stream.is_ended) == (b"hello", True)


def test_a_consumer_that_is_refused_is_not_told_to_go_on(scene):
    answer = scene.consumer.ask("/none", Content_Length="5", Expect="100-continue")
    scene.settle()
    assert (answer.informational, answer.status) == ([], 404)


# Several requests in one read.


def test_one_request_after_the_other(scene):
    answers = [scene.consumer.ask(method="GET", **VERSION) for _ in range(3)]
    for number, answer in enumerate(answers):
        scene.settle()
        stream = scene.provider.request()
        assert not scene.consumer.transport.is_reading or number == 2
        scene.answer(stream, b"%d" % number)
        assert answer.body == b"%d" % number
    assert scene.consumer.transport.is_reading
    scene.assert_empty()


def test_requests_that_are_all_refused(scene):
    answers = [scene.consumer.ask("/none", method="GET") for _ in range(50)]
    scene.settle()
    assert [each.status for each in answers] == [404] * 50
    scene.assert_empty()


def test_a_body_in_tiny_chunks_is_looked_at_in_turns(scene):
    _, stream = scene.ask(is_chunked=True)
    scene.consumer.say(b"1\r\nx\r\n" * 5000)
    scene.consumer.chunk(b"")
    scene.consumer.push()
    assert not scene.consumer.transport.is_reading
    scene.settle()
    assert (len(stream.body), stream.is_ended) == (5000, True)
    assert scene.consumer.transport.is_reading
    scene.answer(stream)
    scene.assert_empty()


# Back-pressure.


def test_a_provider_that_does_not_read_stops_the_consumer():
    scene = Scene(http2=Http2(stream_window=Size(128 * KIB)))
    scene.provider.reads = False
    answer, stream = scene.ask(is_chunked=True)
    sent = 0
    while scene.consumer.transport.is_reading:
        scene.consumer.chunk(b"x" * 32 * KIB)
        sent += 32 * KIB
        scene.settle()
        assert sent < MAX_UNWANTED
    assert len(stream.body) == WINDOW
    assert sent - WINDOW <= 160 * KIB
    scene.provider.reads = True
    scene.provider.read_all()
    scene.settle()
    assert len(stream.body) == sent
    assert scene.consumer.transport.is_reading
    scene.consumer.chunk(b"")
    scene.settle()
    scene.answer(stream)
    assert answer.is_over
    scene.assert_empty()


def test_a_consumer_that_does_not_read_stops_the_provider():
    scene = Scene(http2=Http2(stream_window=Size(128 * KIB)))
    answer, stream = scene.ask(method="GET")
    scene.consumer.transport.is_stuck = True
    scene.provider.head(stream, OK)
    scene.provider.data(stream, b"x" * 1024 * KIB, end=True)
    scene.settle()
    assert scene.downstream.is_write_paused
    assert scene.downstream.held_bytes <= 128 * KIB
    assert scene.consumer.transport.unread <= 160 * KIB
    scene.consumer.transport.is_stuck = False
    scene.settle()
    assert (len(answer.body), answer.is_over) == (1024 * KIB, True)
    scene.assert_empty()


def test_a_consumer_that_reads_nothing_for_long_is_ended():
    scene = Scene()
    _, stream = scene.ask(method="GET")
    scene.consumer.transport.is_stuck = True
    scene.provider.head(stream, OK)
    scene.provider.data(stream, b"x" * 512 * KIB, end=True)
    scene.settle()
    for _ in range(2):
        scene.rig.check()
        assert not scene.consumer.is_closed
        scene.rig.advance(STALL / 2)
    scene.rig.check()
    assert scene.consumer.is_closed
    assert scene.closed() == {"stalled": 1}
    scene.assert_empty()


def test_large_reads_give_way(scene):
    scene.ask(body=b"x" * 200 * KIB)
    scene.consumer.say(b"")
    assert scene.consumer.transport.is_reading
    scene.ask.__self__.downstream.data_received(b"GET / HTTP/1.1\r\n" + b"x" * 130 * KIB)
    assert not scene.consumer.transport.is_reading


# Early answers.


def early(scene):
    """A request that is answered before its end."""
    answer, stream = scene.ask(is_chunked=True)
    scene.answer(stream)
    assert answer.is_over
    assert scene.rig.outcomes() == {"ok": 1}
    return answer


def test_the_rest_of_a_request_that_was_answered_is_passed_over(scene):
    early(scene)
    scene.consumer.chunk(b"x" * 100)
    scene.settle()
    assert scene.downstream.inflight == 1
    scene.consumer.chunk(b"")
    answer = scene.consumer.ask(method="GET", **VERSION)
    scene.settle()
    assert scene.provider.request().field(b":method") == b"GET"
    assert not answer.is_over
    assert not scene.consumer.is_closed


def test_a_rest_without_end_is_not_read(scene):
    early(scene)
    for _ in range(MAX_UNWANTED // (64 * KIB) + 1):
        assert not scene.consumer.is_closed
        scene.consumer.chunk(b"x" * 64 * KIB)
        scene.settle()
    assert scene.consumer.is_closed
    assert scene.closed() == {"unwanted_body": 1}
    scene.assert_empty()


def test_a_rest_that_does_not_come_is_not_waited_for(scene):
    early(scene)
    scene.rig.advance(9.9)
    scene.rig.check()
    assert not scene.consumer.is_closed
    scene.rig.advance(0.2)
    scene.rig.check()
    assert scene.consumer.is_closed
    assert scene.closed() == {"unwanted_body": 1}


# The end of a provider, a consumer, a deadline.


def test_an_answer_that_breaks_off_breaks_the_connection(scene):
    answer, stream = scene.ask(method="GET")
    scene.provider.head(stream, OK)
    scene.provider.data(stream, b"half")
    scene.settle()
    scene.provider.reset(stream, 2)
    scene.settle()
    assert (answer.body, answer.is_over) == (b"half", False)
    assert scene.consumer.transport.is_aborted
    assert scene.closed() == {"answer_cut": 1}
    assert scene.rig.outcomes() == {"provider_error": 1}
    scene.assert_empty()


def test_an_answer_longer_than_it_says_breaks_the_connection(scene):
    answer, stream = scene.ask(method="GET")
    session = scene.downstream._session
    scene.provider.head(stream, OK)
    scene.settle()
    session.end()
    scene.provider.data(stream, b"more", end=True)
    scene.settle()
    assert not answer.is_over or answer.body == b""
    assert scene.consumer.is_closed
    assert scene.closed() == {"bad_response": 1}
    scene.assert_empty()


def test_a_head_that_http1_cannot_carry_is_told(scene):
    scene.ask(method="GET")
    call = scene.downstream.call
    scene.downstream.begin(call, [(b":status", b"200"), (b"x", b"a\nb")], False)
    scene.settle()
    assert scene.consumer.is_closed
    assert scene.closed() == {"bad_response": 1}


def test_a_provider_that_is_lost(scene):
    answer, _ = scene.ask(method="GET")
    scene.provider.lose()
    scene.settle()
    assert answer.status == 503
    assert json.loads(answer.body)["reason"] == "CONNECTION_LOST"
    assert not scene.consumer.is_closed
    scene.assert_empty()


def test_a_deadline(scene):
    answer, stream = scene.ask(method="GET", tri_service_timeout="50")
    scene.rig.advance(0.1)
    assert answer.status == 504
    assert stream.reset == 8
    assert not scene.consumer.is_closed
    scene.assert_empty()


def test_a_deadline_during_an_answer_that_is_not_read(scene):
    answer, stream = scene.ask(method="GET", tri_service_timeout="50")
    scene.consumer.transport.is_stuck = True
    scene.provider.head(stream, OK)
    scene.provider.data(stream, b"x" * 300 * KIB)
    scene.settle()
    scene.rig.advance(0.1)
    assert scene.consumer.transport.is_aborted
    assert not answer.is_over
    assert stream.reset == 8
    assert scene.closed() == {"answer_cut": 1}
    scene.assert_empty()


def test_a_consumer_that_goes_cancels_its_call(scene):
    _, stream = scene.ask(method="GET")
    scene.consumer.finish()
    scene.settle()
    assert stream.reset == 8
    assert scene.rig.outcomes() == {"cancelled": 1}
    assert scene.rig.engine.consumers == set()
    assert scene.closed() == {}
    scene.assert_empty()


def test_what_a_consumer_that_goes_has_not_taken_is_returned(scene):
    _, stream = scene.ask(method="GET")
    scene.consumer.transport.is_stuck = True
    scene.provider.head(stream, OK)
    scene.provider.data(stream, b"x" * 300 * KIB)
    scene.settle()
    assert scene.downstream.held_bytes > 0
    scene.consumer.lose()
    scene.provider.data(stream, b"x" * 300 * KIB)
    scene.settle()
    scene.assert_empty()


# Time and the end of the sidecar.


def test_a_head_that_does_not_end_is_answered_with_408(scene):
    answer = scene.consumer.expect()
    scene.consumer.say(b"GET / HTTP/1.1\r\nHost:")
    scene.settle()
    scene.rig.advance(5)
    scene.consumer.say(b" h")
    scene.settle()
    scene.rig.advance(4.9)
    scene.rig.check()
    assert not scene.consumer.is_closed
    scene.rig.advance(0.2)
    scene.rig.check()
    assert (answer.status, answer.is_over) == (408, True)
    assert scene.consumer.is_closed
    assert scene.closed() == {"slow_header": 1}


def test_a_head_in_time_is_no_slow_one(scene):
    scene.consumer.say(b"GET")
    scene.settle()
    scene.rig.advance(9)
    scene.consumer.say(b" /com.x.Demo/hi HTTP/1.1\r\nHost: h\r\ntri-service-version: 1.0.0\r\n\r\n")
    scene.settle()
    scene.rig.advance(9)
    scene.rig.check()
    assert scene.provider.requests()
    assert not scene.consumer.is_closed


def test_a_connection_without_requests_is_closed():
    scene = Scene(http2=Http2(idle=Duration(60.0)))
    _, stream = scene.ask(method="GET")
    scene.rig.advance(61)
    scene.rig.check()
    assert not scene.consumer.is_closed, "a call is in flight"
    scene.answer(stream)
    scene.rig.advance(59.9)
    scene.rig.check()
    assert not scene.consumer.is_closed
    scene.rig.advance(0.2)
    scene.rig.check()
    assert scene.consumer.is_closed
    assert scene.closed() == {"idle": 1}


def test_a_quiet_connection_is_left_at_once(scene):
    scene.downstream.leave()
    scene.downstream.leave()
    scene.settle()
    assert scene.consumer.is_closed
    assert scene.closed() == {}


def test_a_busy_connection_is_left_after_its_answer(scene):
    answer, stream = scene.ask(method="GET")
    scene.downstream.leave()
    scene.settle()
    assert not scene.consumer.is_closed
    scene.answer(stream)
    assert (answer.headers[b"connection"], answer.is_over) == (b"close", True)
    assert scene.consumer.is_closed


def test_an_answer_that_has_begun_is_finished(scene):
    answer, stream = scene.ask(method="GET")
    scene.provider.head(stream, OK)
    scene.settle()
    scene.downstream.leave()
    scene.settle()
    scene.provider.data(stream, b"rest", end=True)
    scene.settle()
    assert (answer.body, answer.is_over) == (b"rest", True)
    assert scene.consumer.is_closed


def test_a_request_that_was_about_to_come_is_answered(scene):
    scene.consumer.say(b"GET /com.x.Demo/hi HTTP/1.1\r\n")
    scene.settle()
    scene.rig.engine.refuse_new()
    answer = scene.consumer.expect()
    scene.consumer.say(b"Host: h\r\n\r\n")
    scene.settle()
    assert (answer.status, answer.headers[b"connection"]) == (503, b"close")
    assert scene.consumer.is_closed


def test_the_end_of_all(scene):
    _, stream = scene.ask(method="GET")
    scene.rig.engine.give_up(scene.downstream)
    scene.downstream.abort()
    scene.settle()
    assert stream.reset == 8
    scene.assert_empty()
    assert not scene.downstream.flush()


def test_nothing_counts_after_the_end(scene):
    scene.ask(is_chunked=True)
    scene.rig.engine.give_up(scene.downstream)
    scene.consumer.chunk(b"nobody takes it")
    scene.settle()
    scene.downstream.close()
    scene.downstream.data_received(b"x")
    scene.downstream.flush()
    scene.downstream.leave()
    scene.settle()
    assert scene.consumer.is_closed
    scene.assert_empty()


def test_tls_has_no_half_closed_state(scene):
    scene.consumer.transport.can_write_eof = lambda: False
    answer = scene.consumer.expect()
    scene.consumer.say(b"GET / HTTP/1.1\r\n\r\n")
    scene.settle()
    assert answer.status == 400
    assert not scene.consumer.is_closed
    scene.consumer.say(b"more")
    scene.settle()
    scene.rig.advance(0.9)
    scene.rig.check()
    assert not scene.consumer.is_closed
    scene.rig.advance(0.2)
    scene.rig.check()
    assert scene.consumer.transport.is_aborted
    assert scene.closed() == {"bad_request": 1}


def test_a_broken_connection_that_is_lost_already(scene):
    scene.consumer.lose()
    scene.downstream._linger(b"")
    assert scene.closed() == {}
