"""The headers of a request as the provider gets them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from sidecar.protocol.triple.edit import request_headers
from sidecar.protocol.triple.head import Headers, HeadReader

GRPC = [
    (b":method", b"POST"),
    (b":path", b"/a.B/c"),
    (b":authority", b"localhost:50051"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
    (b"grpc-timeout", b"1S"),
    (b"x-trace", b"1"),
    (b"x-trace", b"2"),
]
REST = [
    (b":method", b"POST"),
    (b":path", b"/a.B/c"),
    (b":authority", b"localhost"),
    (b"content-type", b"application/json"),
    (b"tri-service-timeout", b"1000"),
]


class NeverIndexed(NamedTuple):
    """A field as HTTP/2 libraries mark it."""

    name: bytes
    value: bytes


def edit(
    headers: Headers,
    path: bytes = b"",
    authority: bytes = b"",
    timeout_us: int = -1,
    extra: Headers = (),
) -> Headers:
    return request_headers(headers, HeadReader().read(headers), path, authority, timeout_us, extra)


@pytest.mark.parametrize("headers", [GRPC, tuple(GRPC), REST, [(b"te", b"TRAILERS")], ()])
def test_nothing_to_change(headers: Headers) -> None:
    assert edit(headers) is headers


def test_changes_of_what_is_not_there() -> None:
    headers = [(b":method", b"POST"), (b"host", b"h")]
    assert edit(headers, path=b"/x/y", timeout_us=5) is headers


def test_path_and_authority() -> None:
    changed = edit(GRPC, path=b"/x/c", authority=b"192.0.2.1:50051")
    assert list(changed) == [
        (b":method", b"POST"),
        (b":path", b"/x/c"),
        (b":authority", b"192.0.2.1:50051"),
        *GRPC[3:],
    ]


def test_an_authority_that_was_not_there_replaces_the_host() -> None:
    headers = [(b":path", b"/a.B/c"), (b"accept", b"*/*"), (b"host", b"h")]
    expected = [(b":authority", b"192.0.2.1:50051"), (b":path", b"/a.B/c"), (b"accept", b"*/*")]
    assert edit(headers, authority=b"192.0.2.1:50051") == expected


def test_fc_70_the_deadline_is_reduced() -> None:
    assert edit(GRPC, timeout_us=880_000)[5] == (b"grpc-timeout", b"880000u")
    assert edit(GRPC, timeout_us=0)[5] == (b"grpc-timeout", b"0u")
    assert edit(REST, timeout_us=880_999)[4] == (b"tri-service-timeout", b"880")


def test_fc_70_a_deadline_is_not_invented() -> None:
    headers = [*GRPC[:5], (b"tri-service-timeout", b"7")]
    assert edit(headers, timeout_us=880_000) is headers
    headers = [*REST[:4], (b"grpc-timeout", b"7S")]
    assert edit(headers, timeout_us=880_000) is headers


def test_a_deadline_that_cannot_be_read_is_replaced_too() -> None:
    headers = [*GRPC[:5], (b"grpc-timeout", b"soon")]
    assert edit(headers, timeout_us=1000)[5] == (b"grpc-timeout", b"1000u")


def test_extra_pairs_override_or_are_added() -> None:
    extra = ((b"x-trace", b"3"), (b"token", b"t"), (b"dubbo.tag", b"gray"))
    assert edit(GRPC, extra=extra) == [
        *GRPC[:6],
        (b"x-trace", b"3"),
        (b"token", b"t"),
        (b"dubbo.tag", b"gray"),
    ]


def test_the_last_of_equal_extra_pairs_counts() -> None:
    extra = ((b"token", b"a"), (b"token", b"b"))
    assert edit(GRPC, extra=extra) == [*GRPC, (b"token", b"b")]


def test_fields_for_one_hop_are_left_out() -> None:
    headers = [
        *GRPC[:4],
        (b"connection", b"keep-alive, TE"),
        (b"connection", b"X-Private ,:path,"),
        (b"te", b"trailers"),
        (b"te", b"deflate"),
        (b"keep-alive", b"timeout=5"),
        (b"proxy-connection", b"close"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"h2c"),
        (b"http2-settings", b"AAMAAABk"),
        (b"host", b"localhost"),
        (b"x-private", b"1"),
        (b"x-public", b"1"),
    ]
    expected = [*GRPC[:4], (b"te", b"trailers"), (b"x-public", b"1")]
    assert edit(headers) == expected
    assert edit(headers, timeout_us=5, extra=[(b"x-private", b"2")]) == [
        *expected,
        (b"x-private", b"2"),
    ]


def test_a_host_alone_stays() -> None:
    headers = [(b":path", b"/a.B/c"), (b"host", b"h")]
    assert edit(headers) is headers
    assert edit(headers, extra=[(b"a", b"b")]) == [*headers, (b"a", b"b")]


def test_no_content_length_is_added() -> None:
    assert b"content-length" not in dict(edit(GRPC, authority=b"a", timeout_us=1))


def test_marks_of_fields_are_kept() -> None:
    secret = NeverIndexed(b"authorization", b"secret")
    headers = [*GRPC, secret, (b"host", b"h")]
    for changed in (
        edit(headers),
        edit(headers, timeout_us=5),
        edit(headers, authority=b"a", extra=((b"x-trace", b"3"),)),
    ):
        assert secret in changed
        assert next(pair for pair in changed if pair[0] == b"authorization") is secret


def test_values_are_not_touched() -> None:
    odd = [
        (b"tri-header-convert", b"%7B%22a%22%3A%22A%22%7D"),
        (b"trace-bin", b"AAECAw"),
        (b"grpc-status-details-bin", b"CA4SC25vIGluc3RhbmNl"),
        (b"x-odd", b"\xff\xc3\x28 "),
        (b"x-odd", b""),
    ]
    assert edit([*GRPC, *odd], timeout_us=5)[len(GRPC) :] == odd
