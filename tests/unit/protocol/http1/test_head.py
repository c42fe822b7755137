import pytest

from sidecar.protocol.http1 import head
from sidecar.protocol.http1.head import HeadError


def request(target=b"/a.B/hi", method=b"POST", version=b"1.1", scheme=b"http", **fields):
    headers = [(name.replace("_", "-").encode(), value) for name, value in fields.items()]
    return head.request_headers(method, target, version, headers, scheme)


def refusal(**words):
    with pytest.raises(HeadError) as caught:
        request(**words)
    return caught.value.status


def test_a_request_as_http2_has_it():
    headers = [
        (b"accept", b"a"), (b"host", b"shop:80"), (b"x-b", b"2"), (b"x-a", b"1"), (b"x-b", b"3"),
        (b"content-length", b"7"),
    ]  # fmt: skip
    assert head.request_headers(b"PUT", b"/p?q", b"1.1", headers, b"https") == [
        (b":method", b"PUT"),
        (b":scheme", b"https"),
        (b":authority", b"shop:80"),
        (b":path", b"/p?q"),
        (b"accept", b"a"),
        (b"x-b", b"2"),
        (b"x-a", b"1"),
        (b"x-b", b"3"),
        (b"content-length", b"7"),
    ]


@pytest.mark.parametrize(
    ("target", "method", "expected"),
    [
        (b"/x/y?z", b"GET", (b"http", b"h", b"/x/y?z")),
        (b"//x", b"GET", (b"http", b"h", b"//x")),
        (b"*", b"OPTIONS", (b"http", b"h", b"*")),
        (b"http://other:1/x", b"GET", (b"http", b"other:1", b"/x")),
        (b"HTTPS://other/x", b"GET", (b"https", b"other", b"/x")),
        (b"http://other", b"GET", (b"http", b"other", b"/")),
        (b"http://other", b"OPTIONS", (b"http", b"other", b"*")),
        (b"http://other?x", b"OPTIONS", (b"http", b"other", b"/?x")),
        (b"http://other/", b"OPTIONS", (b"http", b"other", b"/")),
        (b"http://[::1]:8/x", b"GET", (b"http", b"[::1]:8", b"/x")),
    ],
)
def test_targets(target, method, expected):
    fields = dict(request(target, method, host=b"h"))
    assert (fields[b":scheme"], fields[b":authority"], fields[b":path"]) == expected


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ({"target": b"*"}, 400),
        ({"target": b"x"}, 400),
        ({"target": b"ftp://h/x"}, 400),
        ({"target": b"http://u@h/"}, 400),
        ({"host": b"u@h"}, 400),
        ({"host": b"a b"}, 400),
        ({"host": b"a/b"}, 400),
        ({"host": b"h\xc3\xa9"}, 400),
        ({"method": b"CONNECT", "target": b"h:1"}, 501),
        ({"version": b"2.0"}, 505),
        ({"version": b"0.9"}, 505),
        ({"x_a": b"a\x01b"}, 400),
        ({"x_a": b"a\x7f"}, 400),
        ({"connection": b"\x02"}, 400),
        ({"content_length": b"1", "transfer_encoding": b"chunked"}, 400),
        ({"version": b"1.0", "transfer_encoding": b"chunked"}, 400),
    ],
)
def test_what_is_refused(words, status):
    assert refusal(**words) == status


@pytest.mark.parametrize(
    "words", [{"version": b"1.0"}, {"host": b""}, {"target": b"http:///x"}, {"version": b"1.2"}]
)
def test_a_request_without_a_host(words):
    assert dict(request(**words))[b":authority"] == b"localhost"


def test_what_is_for_one_hop_is_left_out():
    fields = request(
        host=b"h", connection=b"X-Mine, close", x_mine=b"1", keep_alive=b"1", upgrade=b"h2c",
        http2_settings=b"AA", proxy_connection=b"a", transfer_encoding=b"chunked",
        expect=b"100-continue", te=b"gzip", x_yours=b"2\t3",
    )[4:]  # fmt: skip
    assert fields == [(b"x-yours", b"2\t3")]


@pytest.mark.parametrize("value", [b"trailers", b"gzip;q=0.5, Trailers"])
def test_trailers_that_are_asked_for(value):
    assert request(host=b"h", te=value, connection=b"te")[4:] == [(b"te", b"trailers")]
    assert head.accepts_trailers([(b"te", value)])
    assert not head.accepts_trailers([(b"te", b"gzip"), (b"x", value)])


def test_trailers():
    fields = [(b"x-sum", b"1"), (b"content-length", b"2"), (b"te", b"x"), (b"grpc-status", b" 0 ")]
    assert head.request_trailers(fields) == [(b"x-sum", b"1"), (b"grpc-status", b" 0 ")]
    assert head.response_trailers(fields) == [(b"x-sum", b"1"), (b"grpc-status", b"0")]
    with pytest.raises(HeadError):
        head.request_trailers([(b"a", b"\x00")])


@pytest.mark.parametrize(
    ("status", "length"), [(200, [(b"content-length", b"2")]), (204, []), (103, [])]
)
def test_a_response_from_http2(status, length):
    headers = [
        (b":status", b"%d" % status), (b"x-a", b" 1\t"), (b"content-length", b"2"),
        (b"connection", b"x"), (b"set-cookie", b"a"), (b"set-cookie", b"b"),
    ]  # fmt: skip
    expected = [(b"x-a", b"1"), *length, (b"set-cookie", b"a"), (b"set-cookie", b"b")]
    assert head.response_headers(headers) == (status, expected)
