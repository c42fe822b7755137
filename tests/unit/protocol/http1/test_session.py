import json

import h11
import pytest

from sidecar.protocol.http1.session import (
    BAD_REQUEST,
    BAD_RESPONSE,
    HEADER_SIZE,
    MAX_STEPS,
    SLOW_HEADER,
    Head,
    Piece,
    ServerSession,
    Trailers,
)
from sidecar.protocol.http2.limits import SessionLimits

GET = b"GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = [(b":status", b"200"), (b"content-type", b"a/b")]


def session(**words):
    limits = {
        "header_size": 1024, "header_count": 16, "continuations": 1, "resets": 1,
        "control_frames": 1, "stream_window": 1, "connection_window": 1, "max_streams": 1,
    }  # fmt: skip
    return ServerSession(SessionLimits(**(limits | words)), b"http")


def pseudo(method=b"GET", path=b"/a?b"):
    return [
        (b":method", method), (b":scheme", b"http"), (b":authority", b"h"), (b":path", path),
    ]  # fmt: skip


class Client:
    """An HTTP/1.1 client that hears answers."""

    def __init__(self, method="GET", version="1.1"):
        self.connection = h11.Connection(h11.CLIENT)
        self.ask(method)

    def ask(self, method="GET"):
        headers = [("Host", "h")]
        self.connection.send(h11.Request(method=method, target="/", headers=headers))
        self.connection.send(h11.EndOfMessage())

    def hear(self, data, is_closed=False):
        """Return status, headers, body and trailers of one answer."""
        connection = self.connection
        connection.receive_data(data)
        if is_closed:
            connection.receive_data(b"")
        head = connection.next_event()
        body, event = b"", connection.next_event()
        while isinstance(event, h11.Data):
            body += event.data
            event = connection.next_event()
        assert isinstance(event, h11.EndOfMessage)
        return head.status_code, dict(head.headers), body, list(event.headers)


def whole(events):
    """Return head, body and trailers of the one request in a list of events."""
    head, *pieces = events
    assert isinstance(head, Head)
    trailers = []
    if pieces and isinstance(pieces[-1], Trailers):
        trailers = pieces.pop().headers
        assert not any(piece.is_end for piece in pieces)
    else:
        ends = [head.is_end, *[piece.is_end for piece in pieces]]
        assert ends == [False] * (len(ends) - 1) + [True]
    return head.headers, b"".join(piece.data for piece in pieces), trailers


REQUESTS = [
    (GET, (pseudo(), b"", [])),
    (POST, ([*pseudo(b"POST", b"/a"), (b"content-length", b"5")], b"hello", [])),
    (CHUNKED + b"2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", (pseudo(b"POST", b"/a"), b"hello", [])),
    (
        CHUNKED + b"5\r\nhello\r\n0\r\nX-Sum: 7\r\nContent-Length: 1\r\n\r\n",
        (pseudo(b"POST", b"/a"), b"hello", [(b"x-sum", b"7")]),
    ),
    (CHUNKED + b"0\r\nX-Sum: 7\r\n\r\n", (pseudo(b"POST", b"/a"), b"", [(b"x-sum", b"7")])),
    (CHUNKED + b"0\r\n\r\n", (pseudo(b"POST", b"/a"), b"", [])),
    (
        b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
        ([*pseudo(b"POST", b"/a"), (b"content-length", b"0")], b"", []),
    ),
    (
        b"GET /a?b HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        (pseudo(), b"", []),
    ),
    (b"GET /a?b HTTP/1.0\r\nhost:h\r\nX: a\r\n b\r\n\r\n", ([*pseudo(), (b"x", b"a b")], b"", [])),
    (b"\r\n\r\n" + GET, (pseudo(), b"", [])),
]


@pytest.mark.parametrize(("data", "expected"), REQUESTS)
def test_requests_whole_and_split_anywhere(data, expected):
    assert whole(session().feed(data)) == expected
    for cut in range(1, len(data)):
        divided = session()
        assert whole(divided.feed(data[:cut]) + divided.feed(data[cut:])) == expected
        assert divided.broken == ""


@pytest.mark.parametrize(("data", "expected"), REQUESTS)
def test_requests_byte_by_byte(data, expected):
    slow = session()
    events = []
    for number in range(len(data)):
        events += slow.feed(data[number : number + 1])
        assert slow.is_request_over == (number == len(data) - 1)
    assert whole(events) == expected


@pytest.mark.parametrize(("data", "expected"), REQUESTS)
def test_the_next_request_waits_for_the_answer(data, expected):
    if b"1.0" in data:
        return
    pipelined = session()
    assert whole(pipelined.feed(data + data + GET)) == expected
    for more in (expected, (pseudo(), b"", [])):
        assert pipelined.is_ahead
        assert pipelined.feed(b"") == []
        assert not pipelined.next_request()
        pipelined.respond(OK, True, False)
        pipelined.end()
        assert pipelined.is_answer_over
        assert pipelined.next_request()
        assert whole(pipelined.feed(b"")) == more
    assert not pipelined.is_ahead


def test_what_comes_during_an_answer_waits_too():
    busy = session()
    busy.feed(GET)
    assert not busy.is_ahead
    assert busy.feed(GET) == []
    assert busy.is_ahead
    assert busy.feed(GET) == []
    busy.respond(OK, True, False)
    busy.end()
    assert busy.next_request()
    assert whole(busy.feed(b"")) == (pseudo(), b"", [])


@pytest.mark.parametrize(
    "first", [GET.replace(b"1.1", b"1.0"), GET[:-2] + b"Connection: close\r\n\r\n"]
)
def test_what_comes_after_the_last_request_counts_for_nothing(first):
    last = session()
    assert whole(last.feed(first + GET))[1] == b""
    assert last.feed(GET) == []
    assert (last.broken, last.is_ahead, last.has_more) == ("", False, False)
    client = Client()
    answer = last.respond(OK, True, False) + last.end()
    assert client.hear(answer)[1][b"connection"] == b"close"
    assert not last.next_request()


def test_a_body_in_tiny_chunks_takes_several_calls():
    tiny = session()
    count = 3 * MAX_STEPS
    events = tiny.feed(CHUNKED + b"1\r\nx\r\n" * count + b"0\r\n\r\n")
    calls = 1
    while tiny.has_more:
        assert len(events) <= calls + 1
        events += tiny.feed(b"")
        calls += 1
    assert whole(events)[1] == b"x" * count
    assert calls == 4


# What is refused.

BAD = [
    (b"GET / HTTP/1.1\r\n\r\n", 400),  # no host
    (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"GET /\r\n\r\n", 400),
    (b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: h\r\nx y: z\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: h\r\n: z\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: h\r\nx: \x01\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 501),
    (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
    (b"GET x HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    (CHUNKED + b"x\r\n", 400),
    (CHUNKED + b"1\r\nabc", 400),
    (CHUNKED + b"0\r\nx y: z\r\n\r\n", 400),
    (CHUNKED + b"0\r\nx: \x01\r\n\r\n", 400),
    (b"\x00", 400),
    (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"x: y\r\n" * 16 + b"\r\n", 431),
    (b"GET / HTTP/1.1\r\nHost: h\r\nx: " + b"y" * 20_000, 431),
    (b"GET /" + b"y" * 20_000, 431),
    (CHUNKED + b"0\r\nx: " + b"y" * 20_000, 431),
]


@pytest.mark.parametrize(("data", "status"), BAD)
def test_what_cannot_be_understood_is_refused_with_an_answer(data, status):
    for cut in (0, 1, len(data) // 2, len(data) - 1):
        bad = session()
        bad.feed(data[:cut])
        bad.feed(data[cut:])
        assert bad.broken == (HEADER_SIZE if status == 431 else BAD_REQUEST)
        code, headers, body, _ = Client().hear(bad.farewell())
        assert code == status
        assert headers[b"connection"] == b"close"
        reason = "HEADERS_TOO_LARGE" if status == 431 else "BAD_REQUEST"
        assert json.loads(body)["reason"] == reason
        assert b"bytearray" not in body
        assert bad.feed(GET) == []
        assert bad.farewell() == b""
        assert not bad.next_request()


def test_a_request_before_garbage_is_told():
    events = session().feed(CHUNKED + b"1\r\nx\r\nzz\r\n")
    assert events == [Head(pseudo(b"POST", b"/a"), False), Piece(b"x", False)]


def test_a_large_head_in_one_read_is_no_larger_for_that():
    large = session(header_size=64_000)
    (head,) = large.feed(b"GET /a?b HTTP/1.1\r\nHost: h\r\nx: " + b"y" * 60_000 + b"\r\n\r\n")
    assert head.headers[-1] == (b"x", b"y" * 60_000)


def test_no_answer_to_what_is_broken_when_one_has_begun():
    begun = session()
    begun.feed(CHUNKED)
    begun.respond(OK, False, False)
    begun.feed(b"zz\r\n")
    assert begun.broken == BAD_REQUEST
    assert begun.farewell() == b""


def test_a_head_that_does_not_end_in_time():
    slow = session()
    assert not slow.is_in_head
    slow.feed(GET[:-1])
    assert slow.is_in_head
    slow.fail(SLOW_HEADER, 408, "too slow")
    slow.fail(BAD_REQUEST, 400, "")
    status, _, body, _ = Client().hear(slow.farewell())
    assert (status, json.loads(body)["reason"]) == (408, "TIMEOUT")


# Answers.


def answered(headers, pieces=(), is_end=False, trailers=(), method="GET", data=None, is_last=False):
    """Return what a client hears, and the session after it."""
    server = session()
    server.feed((data or GET).replace(b"GET", method.encode()))
    sent = server.respond(headers, is_end, is_last)
    for piece in pieces:
        sent += server.data(piece)
    sent += server.end(trailers)
    assert server.broken == ""
    assert server.is_answer_over
    return Client(method).hear(sent, is_closed=not server.next_request()), server


def test_an_answer_of_unknown_length_is_chunked():
    (status, headers, body, _), _ = answered(OK, [b"he", b"", b"llo"])
    assert (status, body) == (200, b"hello")
    assert headers == {b"content-type": b"a/b", b"transfer-encoding": b"chunked"}


def test_an_answer_of_known_length_is_not():
    headers = [*OK, (b"content-length", b"5")]
    (_, told, body, _), _ = answered(headers, [b"hello"])
    assert (told[b"content-length"], body) == (b"5", b"hello")
    assert b"transfer-encoding" not in told


def test_an_answer_without_a_body_says_so():
    assert answered(OK, is_end=True)[0][1][b"content-length"] == b"0"


@pytest.mark.parametrize("status", [b"204", b"304"])
def test_answers_that_have_no_body(status):
    headers = [(b":status", status), (b"etag", b"x")]
    (code, told, body, _), _ = answered(headers, [b"ignored"])
    assert (code, told, body) == (int(status), {b"etag": b"x"}, b"")


@pytest.mark.parametrize("is_end", [True, False])
def test_an_answer_to_head_has_the_headers_of_one_with_a_body(is_end):
    headers = [*OK, (b"content-length", b"5")]
    (_, told, body, _), server = answered(headers, [b"hello"], is_end, method="HEAD")
    assert (told[b"content-length"], body) == (b"5", b"")
    assert not server.has_body


def test_old_clients_get_a_body_that_ends_with_the_connection():
    (_, told, body, _), _ = answered(OK, [b"hello"], data=GET.replace(b"1.1", b"1.0"))
    assert (told[b"connection"], body) == (b"close", b"hello")


@pytest.mark.parametrize(
    ("te", "length", "expected"),
    [
        (b"TE: trailers\r\n", [], [(b"grpc-status", b"0")]),
        (b"", [], []),
        (b"TE: trailers\r\n", [(b"content-length", b"2")], []),
    ],
)
def test_trailers_are_for_those_who_ask(te, length, expected):
    data = GET[:-2] + te + b"\r\n"
    trailers = [(b"grpc-status", b"0"), (b"connection", b"x")]
    (*_, heard), _ = answered([*OK, *length], [b"ab"], trailers=trailers, data=data)
    assert heard == expected


def test_the_last_answer_of_a_connection():
    (_, told, *_), server = answered(OK, is_end=True, is_last=True)
    assert told[b"connection"] == b"close"
    assert not server.next_request()


def test_reasons_are_the_usual_ones():
    for status, phrase in ((b"404", b"Not Found"), (b"799", b"")):
        server = session()
        server.feed(GET)
        sent = server.respond([(b":status", status)], True, False)
        assert sent.startswith(b"HTTP/1.1 %s %s\r\n" % (status, phrase))


@pytest.mark.parametrize(
    ("headers", "pieces"),
    [
        ([*OK, (b"content-length", b"2")], [b"abc"]),
        ([*OK, (b"content-length", b"4")], [b"abc"]),
        ([*OK, (b"x", b"a\nb")], [b""]),
        ([(b":status", b"x")], [b""]),
    ],
)
def test_an_answer_that_http1_cannot_carry_breaks_the_connection(headers, pieces):
    server = session()
    server.feed(GET)
    server.respond(headers, False, False)
    for piece in pieces:
        server.data(piece)
    server.end()
    assert server.broken == BAD_RESPONSE
    assert server.farewell() == b""
    assert not server.next_request()


def test_an_early_answer_waits_for_the_end_of_the_request():
    early = session()
    early.feed(CHUNKED)
    early.respond(OK, True, False)
    early.end()
    assert early.is_answer_over
    assert not early.is_request_over
    assert not early.next_request()
    assert early.feed(b"1\r\nx\r\n") == [Piece(b"x", False)]
    assert early.feed(b"0\r\n\r\n" + GET) == [Piece(b"", True)]
    assert early.next_request()
    assert whole(early.feed(b"")) == (pseudo(), b"", [])


# Informational heads.

EXPECTING = POST[:-5].replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")


def test_a_consumer_is_told_once_to_send_the_body():
    server = session()
    (head,) = server.feed(EXPECTING)
    assert (b"expect", b"100-continue") not in head.headers
    assert server.waits_for_go_on
    assert server.go_on() == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert not server.waits_for_go_on
    assert server.go_on() == b""
    assert server.feed(b"hello") == [Piece(b"hello", True)]


def test_a_consumer_that_is_answered_at_once_is_not_told_to_go_on():
    server = session()
    server.feed(EXPECTING)
    server.respond(OK, True, False)
    assert not server.waits_for_go_on
    assert server.go_on() == b""


def test_other_informational_heads():
    hint = [(b":status", b"103"), (b"link", b"</a>")]
    server = session()
    assert server.inform(hint) == b""
    server.feed(GET)
    assert server.inform(hint) == b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
    assert server.inform([(b":status", b"101")]) == b""
    assert server.inform([(b":status", b"100")]) == b""
    old = session()
    old.feed(GET.replace(b"1.1", b"1.0"))
    assert old.inform(hint) == b""
