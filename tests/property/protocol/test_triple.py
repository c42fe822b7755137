"""Triple's headers and messages against twins that read the rules one by one."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from math import floor
from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.errors import CodecError
from sidecar.protocol.triple import ending, timeout
from sidecar.protocol.triple.edit import request_headers
from sidecar.protocol.triple.head import GRPC, Headers, HeadReader
from sidecar.protocol.triple.health import MAX_MESSAGE, MessageReader, read_request
from sidecar.protocol.triple.reply import MAX_MESSAGE as MAX_TEXT
from sidecar.protocol.triple.reply import http_reply, percent_encode

Pair = tuple[bytes, bytes]

SECONDS = {
    b"H": Fraction(3600),
    b"M": Fraction(60),
    b"S": Fraction(1),
    b"m": Fraction(1, 1000),
    b"u": Fraction(1, 10**6),
    b"n": Fraction(1, 10**9),
}
NAMES = st.sampled_from(
    [
        b":path", b":method", b":authority", b"host", b"content-type", b"te", b"connection",
        b"keep-alive", b"upgrade", b"transfer-encoding", b"proxy-connection", b"http2-settings",
        b"grpc-timeout", b"tri-service-timeout", b"tri-service-group", b"rest-service-group",
        b"tri-service-version", b"rest-service-version", b"dubbo.tag", b"dubbo-tag",
        b"dubbo.force.tag", b"dubbo-force-tag", b"dubbo.tag.service", b"tri-consumer-appname",
        b"x-a", b"x-b", b"trace-bin",
    ]
)  # fmt: skip
VALUES = st.sampled_from(
    [
        b"/a.B/c", b"/x/a.B/c?d=/e", b"/\xff/a.B/c", b"/a.B/", b"/c",
        b"application/grpc", b"application/grpc+x", b"application/grpc-web",
        b"application/json", b"trailers", b"Trailers", b"deflate",
        b"X-A, te,host", b"keep-alive", b"dubbo.tag", b"1S", b"500u", b"7", b"true", b"0.0.0",
        b"1.0.0", b"gray", b"", b"\xff",
    ]
)  # fmt: skip
FIELDS = st.lists(st.tuples(NAMES | st.binary(max_size=3), VALUES | st.binary(max_size=8)))
GRPC_START: list[Pair] = [(b":path", b"/a.B/c"), (b"content-type", b"application/grpc")]
HEADERS = FIELDS | FIELDS.map(lambda fields: [*GRPC_START, *fields])


def first(headers: Headers, *names: bytes) -> bytes:
    return next((value for name, value in headers if name in names), b"")


def text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


# Deadlines


def naive_timeout(value: bytes) -> int:
    match = re.fullmatch(rb"([0-9]{1,8})([HMSmun])", value)
    return floor(int(match[1]) * SECONDS[match[2]] * 10**6) if match else -1


@given(
    st.from_regex(rb"[0-9]{0,10}[HMSmunhs]?", fullmatch=True)
    | st.from_regex(rb"[0-9]{1,8}[HMSmun]", fullmatch=True)
    | st.binary(max_size=10)
)
def test_timeouts(value: bytes) -> None:
    assert timeout.parse(value) == naive_timeout(value)


@given(st.integers(0, 2 * timeout.MAX_TIMEOUT_US) | st.integers(0, 10**10))
def test_rendered_timeouts(us: int) -> None:
    value = timeout.render(us)
    assert len(value) <= 9
    unit = SECONDS[value[-1:]]
    lost = Fraction(us, 10**6) - int(value[:-1]) * unit
    assert lost >= 0
    if us <= timeout.MAX_TIMEOUT_US:
        assert lost < unit
        finer = [size for size in SECONDS.values() if Fraction(1, 10**6) <= size < unit]
        assert all(Fraction(us, 10**6) // size > timeout.MAX_NUMBER for size in finer)
        assert timeout.parse(value) == us - lost * 10**6
    else:
        assert value == b"99999999H"


@given(st.integers(0, timeout.MAX_TIMEOUT_US // 1000))
def test_rest_timeouts(ms: int) -> None:
    assert timeout.parse_ms(b"%d" % ms) == ms * 1000
    assert timeout.render_ms(ms * 1000 + ms % 1000) == b"%d" % ms


# Heads


def naive_names(path: str, version: str, group: str) -> tuple[str, str]:
    """Return the service and the method."""
    match = re.fullmatch(r"/((?:.*/)?([^/]*))/([^/]*)", path, re.DOTALL)
    last = path.rpartition("/")[2] if path.startswith("/") else ""
    method = last if last.isprintable() and "\ufffd" not in last else ""
    if not match or not method:
        return "", method
    interface = match[2]
    odd = "\ufffd" in match[1] + version + group
    odd = odd or not (interface + version + group).isprintable()
    if odd or not interface or re.search("[ :]", interface) or "/" in version:
        return "", method
    key = f"{group}/" if group else ""
    key += interface
    return (key if version in ("", "0.0.0") else f"{key}:{version}"), method


@given(st.lists(HEADERS, min_size=1, max_size=6))
def test_heads(requests: list[list[Pair]]) -> None:
    reader = HeadReader()
    for headers in requests * 2:
        head = reader.read(headers)
        kind = first(headers, b"content-type").lower()
        assert (head.kind == GRPC) == bool(re.match(rb"application/grpc(\Z|[+;])", kind))
        path = text(first(headers, b":path"))
        assert head.path == path
        service, method = naive_names(
            path if head.kind == GRPC else path.split("?")[0],
            text(first(headers, b"tri-service-version") or first(headers, b"rest-service-version")),
            text(first(headers, b"tri-service-group") or first(headers, b"rest-service-group")),
        )
        assert (head.service, head.method) == (service, method)
        assert head.http_method == text(first(headers, b":method"))
        assert head.tag == text(first(headers, b"dubbo.tag", b"dubbo-tag"))
        forced = first(headers, b"dubbo.force.tag", b"dubbo-force-tag")
        assert head.force_tag == (forced.lower() == b"true")
        assert head.service_tag == text(first(headers, b"dubbo.tag.service"))
        assert head.application == text(first(headers, b"tri-consumer-appname"))
        if head.kind == GRPC:
            assert head.timeout_us == naive_timeout(first(headers, b"grpc-timeout"))
        else:
            limit = first(headers, b"tri-service-timeout")
            assert head.timeout_us == (int(limit) * 1000 if limit.isdigit() else -1)
        assert head.size == sum(len(name) + len(value) + 32 for name, value in headers)


@given(st.lists(st.tuples(st.binary(), st.binary())))
def test_garbage_is_read(headers: list[Pair]) -> None:
    head = HeadReader().read(headers)
    edited = request_headers(headers, head, b"", b"", -1, ())
    rest = iter(headers)
    assert all(pair in rest for pair in edited)  # some of them, in their order
    assert -1 <= ending.grpc_status(headers) <= 17
    assert 0 <= ending.exception_code(headers) <= 17
    assert 0 <= ending.http_status(headers) <= 999
    json.loads(http_reply(500, head.path + head.tag)[1])
    "".join([head.method, head.service, head.tag, head.application]).encode()


# Edits


def naive_edit(
    headers: list[Pair], path: bytes, authority: bytes, timeout_us: int, extra: list[Pair]
) -> list[Pair]:
    named = b",".join(value for name, value in headers if name == b"connection").lower().split(b",")
    hop = {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
    hop |= {b"http2-settings", *(token.strip() for token in named)} - {b"te"}
    hop -= {name for name, _ in headers if name.startswith(b":")}
    if not any(name == b"connection" for name, _ in headers):
        hop -= {b""}
    if authority or any(name == b":authority" for name, _ in headers):
        hop |= {b"host"}
    kept = [
        (name, value)
        for name, value in headers
        if name not in hop and (name != b"te" or value.lower() == b"trailers")
    ]
    changes = {b":path": path, b":authority": authority}
    changes = {name: value for name, value in changes.items() if value}
    if timeout_us >= 0 and HeadReader().read(headers).kind == GRPC:
        changes[b"grpc-timeout"] = timeout.render(timeout_us)
    elif timeout_us >= 0:
        changes[b"tri-service-timeout"] = b"%d" % (timeout_us // 1000)
    changes |= dict(extra)
    names = [name for name, _ in kept]
    edited = [
        (name, changes.get(name, value))
        for at, (name, value) in enumerate(kept)
        if name not in changes or name not in names[:at]
    ]
    if authority and b":authority" not in names:
        edited = [(b":authority", changes[b":authority"]), *edited]
    return edited + [pair for pair in dict(extra).items() if pair[0] not in names]


@given(
    HEADERS,
    st.sampled_from([b"", b"/new/path"]),
    st.sampled_from([b"", b"192.0.2.1:50051"]),
    st.integers(-1, 10**9),
    st.lists(st.tuples(st.sampled_from([b"dubbo.tag", b"x-a", b"token"]), VALUES), max_size=3),
)
def test_edits(
    headers: list[Pair], path: bytes, authority: bytes, timeout_us: int, extra: list[Pair]
) -> None:
    before = list(headers)
    reader = HeadReader()
    edited = request_headers(headers, reader.read(headers), path, authority, timeout_us, extra)
    assert list(edited) == naive_edit(headers, path, authority, timeout_us, extra)
    assert headers == before
    again = request_headers(edited, reader.read(edited), b"", b"", -1, ())
    assert again is edited


# Texts


@given(st.text(max_size=50) | st.text(alphabet="%a \n中😀", max_size=MAX_TEXT))
def test_percent_encoded_texts(message: str) -> None:
    encoded = percent_encode(message)
    assert len(encoded) <= MAX_TEXT
    assert re.fullmatch(rb"([ -$&-~]|%[0-9A-F]{2})*", encoded)
    decoded = unquote(encoded.decode(), errors="strict")
    if len(encoded) < MAX_TEXT - 12:
        assert decoded == message.strip(" ")
    else:
        assert message.strip(" ").startswith(decoded)
    headers, body = http_reply(500, message)
    assert dict(headers)[b"content-length"] == b"%d" % len(body)


# Messages


def varint(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def tagged(number: int, kind: int, value: bytes) -> bytes:
    return varint(number << 3 | kind) + value


NUMBERS = st.integers(2, 2**29 - 1)
SIMPLE = (
    st.builds(tagged, NUMBERS, st.just(0), st.integers(0, 2**64 - 1).map(varint))
    | st.builds(tagged, NUMBERS, st.just(1), st.binary(min_size=8, max_size=8))
    | st.builds(tagged, NUMBERS, st.just(5), st.binary(min_size=4, max_size=4))
    | st.builds(tagged, NUMBERS, st.just(2), st.binary().map(lambda data: varint(len(data)) + data))
)
UNKNOWN = st.recursive(
    SIMPLE,
    lambda inner: st.builds(
        lambda number, fields: tagged(number, 3, b"".join(fields)) + tagged(number, 4, b""),
        NUMBERS,
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)


@given(st.lists(UNKNOWN | st.text(max_size=5), max_size=6))
def test_health_requests(fields: list[bytes | str]) -> None:
    body = b""
    service = ""
    for field in fields:
        if isinstance(field, str):
            service = field
            data = field.encode()
            body += tagged(1, 2, varint(len(data)) + data)
        else:
            body += field
    assert read_request(body) == service


@given(st.binary())
def test_garbage_is_a_request_or_refused(body: bytes) -> None:
    with suppress(CodecError):
        assert isinstance(read_request(body), str)


@given(st.binary(max_size=40), st.binary(max_size=10), st.lists(st.integers(0, 60), max_size=6))
def test_messages_cut_anywhere(body: bytes, rest: bytes, cuts: list[int]) -> None:
    data = b"\0" + len(body).to_bytes(4, "big") + body + rest
    reader = MessageReader()
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    parts = [data[start:end] for start, end in pairwise(borders)]
    found = [message for part in parts if (message := reader.feed(part)) is not None]
    assert found == [body]


@given(st.lists(st.binary(min_size=1, max_size=8), max_size=30))
def test_garbage_is_a_message_or_refused(parts: list[bytes]) -> None:
    reader = MessageReader()
    data = b"".join(parts)
    try:
        found = [message for part in parts if (message := reader.feed(part)) is not None]
    except CodecError:
        assert data[0] != 0 or int.from_bytes(data[1:5], "big") > MAX_MESSAGE
    else:
        assert found == [] or data[5:].startswith(found[0])
