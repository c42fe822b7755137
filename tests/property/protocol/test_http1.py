"""HTTP/1.1 connections: whatever the reads, the same requests; whatever the bytes, no surprise."""

from __future__ import annotations

import itertools

import h11
from hypothesis import given
from hypothesis import strategies as st

from sidecar.protocol.http1.session import Head, Piece, ServerSession, Trailers
from sidecar.protocol.http2.limits import SessionLimits

LIMITS = SessionLimits(
    header_size=4096, header_count=32, continuations=1, resets=1, control_frames=1,
    stream_window=1, connection_window=1, max_streams=1,
)  # fmt: skip
OK = [(b":status", b"200")]

tokens = st.text("abcxyz-", min_size=1, max_size=8).map(lambda text: b"x-" + text.encode())
values = st.text("abc ,;=\t\x80é", max_size=12).map(lambda text: text.strip().encode("latin-1"))
fields = st.lists(st.tuples(tokens, values), max_size=5)
bodies = st.binary(max_size=300)


@st.composite
def requests(draw):
    """A request as bytes, and as HTTP/2 has it."""
    method = draw(st.sampled_from([b"GET", b"POST", b"DELETE"]))
    headers, body, trailers = draw(fields), draw(bodies), []
    lines = [b"%s: %s" % pair for pair in headers]
    if draw(st.booleans()):
        framed, trailers = draw(chunks(body))
        lines.append(b"Transfer-Encoding: chunked")
    else:
        framed = body
        if body or draw(st.booleans()):
            headers = [*headers, (b"content-length", b"%d" % len(body))]
            lines.append(b"content-length:%d " % len(body))
    text = b"\r\n".join([b"%s /p HTTP/1.1" % method, b"hOST: h", *lines, b"", framed])
    pseudo = [
        (b":method", method), (b":scheme", b"http"), (b":authority", b"h"), (b":path", b"/p"),
    ]  # fmt: skip
    return text + b"\r\n" * draw(st.integers(0, 2)), (pseudo + headers, body, trailers)


@st.composite
def chunks(draw, body):
    """A body in chunks, with trailers."""
    text, rest = b"", body
    while rest:
        size = draw(st.integers(1, len(rest)))
        text += b"%x\r\n%s\r\n" % (size, rest[:size])
        rest = rest[size:]
    trailers = draw(fields)
    lines = b"".join(b"%s: %s\r\n" % pair for pair in trailers)
    return text + b"0\r\n" + lines + b"\r\n", trailers


@st.composite
def reads(draw, data):
    """Some bytes in pieces."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    edges = [0, *cuts, len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


class Reader:
    """Collects requests and answers each when it is over."""

    def __init__(self):
        self.session = ServerSession(LIMITS, b"http")
        self.requests = []
        self.sent = b""

    def feed(self, data):
        self._take(self.session.feed(data))
        while self.session.has_more or self._answer():
            self._take(self.session.feed(b""))

    def _answer(self):
        if not self.session.is_request_over or self.session.broken:
            return False
        self.sent += self.session.respond(OK, True, False) + self.session.end()
        return self.session.next_request()

    def _take(self, events):
        for event in events:
            if isinstance(event, Head):
                self.requests.append((list(event.headers), b"", []))
                is_over = event.is_end
            else:
                headers, body, trailers = self.requests[-1]
                if isinstance(event, Piece):
                    self.requests[-1] = (headers, body + event.data, trailers)
                    is_over = event.is_end
                else:
                    assert isinstance(event, Trailers)
                    self.requests[-1] = (headers, body, list(event.headers))
                    is_over = True
            assert is_over <= self.session.is_request_over


@given(st.data(), st.lists(requests(), min_size=1, max_size=4))
def test_the_same_requests_however_they_are_read(data, sent):
    expected = [each for _, each in sent]
    reader = Reader()
    for read in data.draw(reads(b"".join(text for text, _ in sent))):
        reader.feed(read)
    assert reader.session.broken == ""
    assert reader.requests == expected
    assert reader.sent.count(b"HTTP/1.1 200 OK") == len(expected)
    assert not reader.session.is_in_head


@given(st.data(), requests(), st.integers(0, 500), st.binary(max_size=5))
def test_damage_is_understood_or_refused(data, request, place, damage):
    text = request[0][:place] + damage + request[0][place + data.draw(st.integers(0, 5)) :]
    reader = Reader()
    for read in data.draw(reads(text)):
        reader.feed(read)
    session = reader.session
    if session.broken:
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method="GET", target="/", headers=[("host", "h")]))
        client.receive_data(session.farewell())
        assert client.next_event().status_code in (400, 431, 501, 505)
        assert session.feed(text) == []
    for headers, _, _ in reader.requests:
        assert [name for name, _ in headers[:4]] == [
            b":method",
            b":scheme",
            b":authority",
            b":path",
        ]
        for name, value in headers:
            assert name == name.lower()
            assert not {0, 10, 13} & set(value)


@given(st.lists(st.binary(max_size=3000), max_size=6))
def test_any_bytes_at_all(reads):
    session = ServerSession(LIMITS, b"http")
    for read in reads:
        session.feed(read)
        assert len(session._held) <= max(map(len, reads))


@given(
    st.integers(200, 599), st.booleans(), st.lists(bodies, max_size=4), fields, fields,
    st.sampled_from(["GET", "HEAD"]), st.sampled_from(["1.0", "1.1"]),
)  # fmt: skip
def test_an_answer_is_what_a_client_hears(
    status, knows, pieces, headers, trailers, method, version
):
    body = b"".join(pieces)
    if knows:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    session = ServerSession(LIMITS, b"http")
    session.feed(f"{method} / HTTP/{version}\r\nhost: h\r\nte: trailers\r\n\r\n".encode())
    sent = session.respond([(b":status", b"%d" % status), *headers], False, False)
    sent += b"".join(session.data(piece) for piece in pieces) + session.end(trailers)
    assert session.broken == ""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("host", "h")]))
    client.send(h11.EndOfMessage())
    client.receive_data(sent)
    if not session.next_request():
        client.receive_data(b"")
    events = []
    while not events or not isinstance(events[-1], h11.EndOfMessage):
        events.append(client.next_event())
    assert events[0].status_code == status
    heard = b"".join(event.data for event in events[1:-1])
    assert heard == (b"" if method == "HEAD" or status in (204, 304) else body)
    is_chunked = b"transfer-encoding" in dict(events[0].headers) and method != "HEAD"
    assert list(events[-1].headers) == (trailers if is_chunked else [])
