"""What routing sees of a Triple request."""

from __future__ import annotations

import pytest

from sidecar.model.service import ServiceKey
from sidecar.protocol.triple import head as module
from sidecar.protocol.triple.head import (
    FIELD_OVERHEAD,
    GRPC,
    MAX_HEADS,
    MAX_KEY_SIZE,
    MAX_NAME,
    REST,
    Headers,
    HeadReader,
    TripleHead,
)

PATH = b"/org.example.Greeter/greet"
PLAIN = ((b":method", b"POST"), (b":path", PATH), (b"content-type", b"application/grpc"))


def grpc(*fields: tuple[bytes, bytes], path: bytes = PATH) -> Headers:
    return [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"localhost:50051"),
        (b"content-type", b"application/grpc+proto"),
        (b"te", b"trailers"),
        *fields,
    ]


def rest(*fields: tuple[bytes, bytes], path: bytes = PATH) -> Headers:
    return [(b":method", b"GET"), (b":path", path), (b"content-type", b"application/json"), *fields]


def read(headers: Headers) -> TripleHead:
    return HeadReader().read(headers)


def test_a_plain_grpc_call() -> None:
    head = read(grpc())
    assert head.kind == GRPC
    assert head.http_method == "POST"
    assert head.content_type == b"application/grpc+proto"
    assert head.path == "/org.example.Greeter/greet"
    assert head.service_path == head.interface == head.service == "org.example.Greeter"
    assert head.method == "greet"
    assert (head.version, head.group, head.tag, head.service_tag, head.application) == ("",) * 5
    assert not head.force_tag
    assert not head.needs_cleaning
    assert head.timeout_us == -1


def test_every_header() -> None:
    head = read(
        grpc(
            (b"tri-service-version", b"1.0.0"),
            (b"tri-service-group", b"gray"),
            (b"grpc-timeout", b"3000m"),
            (b"dubbo.tag", b"blue"),
            (b"dubbo.force.tag", b"True"),
            (b"dubbo.tag.service", b"red"),
            (b"tri-consumer-appname", b"shop"),
        )
    )
    assert head.service == "gray/org.example.Greeter:1.0.0"
    assert ServiceKey.parse(head.service).text == head.service
    assert (head.interface, head.version, head.group) == ("org.example.Greeter", "1.0.0", "gray")
    assert (head.tag, head.service_tag, head.application) == ("blue", "red", "shop")
    assert head.force_tag
    assert head.timeout_us == 3_000_000


def test_the_other_spelling_of_tags() -> None:
    head = read(grpc((b"dubbo-tag", b"blue"), (b"dubbo-force-tag", b"true")))
    assert head.tag == "blue"
    assert head.force_tag


@pytest.mark.parametrize("text", [b"", b"1", b"yes", b"false", b"true "])
def test_only_true_forces_the_tag(text: bytes) -> None:
    assert not read(grpc((b"dubbo.force.tag", text))).force_tag


def test_the_first_of_repeated_headers_counts() -> None:
    head = read(
        grpc(
            (b"dubbo.tag", b"a"),
            (b"dubbo.tag", b"b"),
            (b"dubbo-tag", b"c"),
            (b"grpc-timeout", b"1S"),
            (b"grpc-timeout", b"2S"),
            (b"tri-service-version", b"1"),
            (b"tri-service-version", b"2"),
        )
    )
    assert (head.tag, head.timeout_us, head.version) == ("a", 1_000_000, "1")


def test_an_empty_first_value_counts_as_well() -> None:
    assert read(grpc((b"dubbo.tag", b""), (b"dubbo.tag", b"b"))).tag == ""


def test_group_and_version_of_rest() -> None:
    fields = ((b"rest-service-group", b"g"), (b"rest-service-version", b"2"))
    assert read(rest(*fields)).service == "g/org.example.Greeter:2"
    tri = ((b"tri-service-version", b"1"), (b"tri-service-group", b"h"))
    assert read(rest(*fields, *tri)).service == "h/org.example.Greeter:1"


def test_no_version() -> None:
    head = read(grpc((b"tri-service-version", b"0.0.0")))
    assert (head.service, head.version) == ("org.example.Greeter", "")


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        (b"application/grpc", GRPC),
        (b"application/grpc+proto", GRPC),
        (b"application/grpc+json", GRPC),
        (b"application/grpc;charset=utf-8", GRPC),
        (b"Application/GRPC", GRPC),
        (b"application/grpc-web", REST),
        (b"application/grpc-web+proto", REST),
        (b"application/grpcx", REST),
        (b"application/grp", REST),
        (b"application/proto", REST),
        (b"application/json", REST),
        (b"text/plain", REST),
        (b"\xff", REST),
        (b"", REST),
    ],
)
def test_kinds(content_type: bytes, kind: int) -> None:
    head = read([(b":path", PATH), (b"content-type", content_type)])
    assert (head.kind, head.content_type) == (kind, content_type)


@pytest.mark.parametrize(
    ("path", "service_path", "interface", "method"),
    [
        (b"/a.B/c", "a.B", "a.B", "c"),
        (b"/ctx/a.B/c", "ctx/a.B", "a.B", "c"),
        (b"/x/y/a.B/c", "x/y/a.B", "a.B", "c"),
        (b"//a.B/c", "/a.B", "a.B", "c"),
        (b"/a.B/$invoke", "a.B", "a.B", "$invoke"),
        (b"/a%2EB/c%20d", "a%2EB", "a%2EB", "c%20d"),
        (b"/a.B/c?d", "a.B", "a.B", "c?d"),
        ("/a.Gruß/größe".encode(), "a.Gruß", "a.Gruß", "größe"),
    ],
)
def test_paths(path: bytes, service_path: str, interface: str, method: str) -> None:
    head = read(grpc(path=path))
    assert (head.service_path, head.interface, head.method) == (service_path, interface, method)
    assert head.service == interface
    assert head.path == path.decode()


def test_a_query_is_no_part_of_a_rest_path() -> None:
    head = read(rest(path=PATH + b"?name=a/b"))
    assert (head.service, head.method) == ("org.example.Greeter", "greet")
    assert head.path == "/org.example.Greeter/greet?name=a/b"


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"/",
        b"*",
        b"//",
        b"/a.B/",
        b"/c",
        b"/x//c",
        b"a.B/c",
        b"/a:B/c",
        b"/a B/c",
        b"/a\x01B/c",
        b"/a.B/c\n",
        b"/a\xff/c",
        b"/\xff/a.B/c",
        b"/a.B/\xff",
        b"/" + b"a" * (MAX_NAME + 1) + b"/c",
        b"/a.B/" + b"c" * (MAX_NAME + 1),
    ],
)
def test_paths_that_name_no_service(path: bytes) -> None:
    for headers in (grpc(path=path), rest(path=path)):
        head = read(headers)
        assert head.service == head.interface == ""
        assert head.path == path.decode("utf-8", "replace")


@pytest.mark.parametrize("path", [b"/a.B/", b"/a.B/\x7f", b"/a.B/" + b"c" * (MAX_NAME + 1)])
def test_methods_that_are_no_names(path: bytes) -> None:
    assert read(grpc(path=path)).method == ""


@pytest.mark.parametrize(
    "field",
    [
        (b"tri-service-version", b"1/2"),
        (b"tri-service-version", b"1\x00"),
        (b"tri-service-version", b"1" * (MAX_NAME + 1)),
        (b"tri-service-group", b"\xff"),
        (b"tri-service-group", b"g" * (MAX_NAME + 1)),
    ],
)
def test_odd_groups_and_versions_name_no_service(field: tuple[bytes, bytes]) -> None:
    head = read(grpc(field))
    assert (head.service, head.interface, head.version, head.group) == ("", "", "", "")
    assert head.method == "greet"


def test_the_longest_names() -> None:
    name = b"a" * MAX_NAME
    fields = ((b"tri-service-group", name), (b"tri-service-version", name))
    head = read(grpc(*fields, path=b"/%b/%b" % (name, name)))
    assert ServiceKey.parse(head.service).group == head.method == "a" * MAX_NAME


def test_no_headers_at_all() -> None:
    head = read(())
    assert (head.kind, head.service, head.method, head.http_method) == (REST, "", "", "")
    assert (head.size, head.timeout_us) == (0, -1)


@pytest.mark.parametrize(
    ("headers", "timeout_us"),
    [
        (grpc((b"grpc-timeout", b"0n")), 0),
        (grpc((b"grpc-timeout", b"soon")), -1),
        (grpc((b"tri-service-timeout", b"5")), -1),
        (rest((b"tri-service-timeout", b"5")), 5000),
        (rest((b"tri-service-timeout", b"x")), -1),
        (rest((b"grpc-timeout", b"1S")), -1),
    ],
)
def test_timeouts(headers: Headers, timeout_us: int) -> None:
    assert read(headers).timeout_us == timeout_us


@pytest.mark.parametrize(
    "field",
    [
        (b"connection", b"keep-alive"),
        (b"keep-alive", b"timeout=5"),
        (b"proxy-connection", b"close"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"h2c"),
        (b"http2-settings", b"AAMAAABk"),
        (b"host", b"localhost"),
        (b"te", b"deflate"),
    ],
)
def test_headers_that_must_not_go_further_are_noticed(field: tuple[bytes, bytes]) -> None:
    reader = HeadReader()
    assert not reader.read(grpc()).needs_cleaning
    assert reader.read(grpc(field)).needs_cleaning
    assert not reader.read(grpc((b"te", b"Trailers"))).needs_cleaning


def test_text_that_is_not_utf_8_can_be_shown() -> None:
    head = read(grpc((b"dubbo.tag", b"\xffgray"), (b"tri-consumer-appname", b"\xc3")))
    assert head.tag == "\ufffdgray"
    assert head.application.encode() == b"\xef\xbf\xbd"


def test_fc_67_the_size_of_a_header_list() -> None:
    reader = HeadReader()
    small = sum(len(name) + len(value) + FIELD_OVERHEAD for name, value in grpc())
    assert reader.read(grpc()).size == small
    for extra in (20 * 1024, 70 * 1024):
        head = reader.read(grpc((b"x-token", b"t" * extra)))
        assert head.size == small + len("x-token") + extra + 32
        assert head.service == "org.example.Greeter"


def test_equal_requests_share_their_head() -> None:
    reader = HeadReader()
    head = reader.read(grpc((b"grpc-timeout", b"1S"), (b"traceparent", b"00-a")))
    assert reader.read(grpc((b"grpc-timeout", b"1S"), (b"traceparent", b"00-b"))) is head
    assert reader.read(tuple(grpc((b"grpc-timeout", b"1S"), (b"traceparent", b"00-c")))) is head
    other = reader.read(grpc((b"grpc-timeout", b"2S"), (b"traceparent", b"00-b")))
    assert other.timeout_us == 2_000_000
    assert other.service is head.service
    longer = reader.read(grpc((b"grpc-timeout", b"1S"), (b"traceparent", b"00-bb")))
    assert (longer.size, longer.timeout_us) == (head.size + 1, head.timeout_us)
    assert reader.read(grpc((b"grpc-timeout", b"1S"), (b"traceparent", b"00-d"))) is head


def test_what_is_remembered_is_not_mixed_up() -> None:
    reader = HeadReader()
    fields = [b"tri-service-group", b"rest-service-group", b"dubbo.tag", b"dubbo.tag.service"]
    heads = [reader.read(grpc((name, b"x"))) for name in fields]
    assert [head.group for head in heads] == ["x", "x", "", ""]
    assert [head.tag for head in heads] == ["", "", "x", ""]
    assert [head.service_tag for head in heads] == ["", "", "", "x"]


def test_the_memory_is_bounded() -> None:
    reader = HeadReader()
    first = reader.read(PLAIN)
    for number in range(MAX_HEADS - 1):
        reader.read((*PLAIN, (b"dubbo.tag", b"%d" % number)))
    assert reader.read(PLAIN) is first
    reader.read((*PLAIN, (b"dubbo.tag", b"one more")))
    assert reader.read(PLAIN) is not first


@pytest.mark.parametrize(("excess", "is_shared"), [(0, True), (1, False)])
def test_long_headers_are_not_remembered(excess: int, is_shared: bool) -> None:
    reader = HeadReader()
    size = MAX_KEY_SIZE - sum(len(value) for _, value in PLAIN) + excess
    headers = (*PLAIN, (b"dubbo.tag", b"t" * size))
    assert (reader.read(headers) is reader.read(headers)) == is_shared


def test_the_latest_headers_are_told_by_their_bytes_and_no_others_are_taken_for_them() -> None:
    reader = HeadReader()
    first = reader.read(PLAIN)
    assert reader.read(tuple((bytes(name), bytes(value)) for name, value in PLAIN)) is first
    assert reader.read(list(PLAIN)) is first
    slow, quick = (*PLAIN, (b"grpc-timeout", b"9S")), (*PLAIN, (b"grpc-timeout", b"1S"))
    assert [reader.read(each).timeout_us for each in (slow, quick, slow, PLAIN)] == [
        9_000_000, 1_000_000, 9_000_000, -1,
    ]  # fmt: skip


def test_every_wanted_name_is_in_lower_case() -> None:
    assert all(name == name.lower() for name in module._WANTED)
