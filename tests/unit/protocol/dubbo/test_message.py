"""Reading requests, adding attachments, telling replies and events apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.model import outcome
from sidecar.model.errors import CodecError
from sidecar.protocol.dubbo import jsonb
from sidecar.protocol.dubbo.frame import FASTJSON2, HESSIAN2, Frame, FrameReader
from sidecar.protocol.dubbo.head import MAX_HEADS, MAX_KEY_SIZE
from sidecar.protocol.dubbo.message import (
    HEARTBEAT,
    MAX_PRELUDE_SIZE,
    MAX_PRELUDES,
    OTHER,
    READONLY,
    WRITEABLE,
    RequestHead,
    RequestReader,
    append_attachments,
    event_kind,
    reply_outcome,
)
from sidecar.protocol.hessian.write import write_map, write_string
from tests.vectors.loader import ROOT, message, messages

FRAMES = messages("dubbo/frames.txt")
RECORDED = sorted((ROOT / "dubbo").glob("java-*/*.hex"))
STRING = "Ljava/lang/String;"
GENERIC = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;"


def frame_of(raw: bytes) -> Frame:
    (frame,) = FrameReader(8 * 1024 * 1024).feed(raw)
    return frame


def read(raw: bytes) -> RequestHead:
    return RequestReader().read(frame_of(raw))


def make_frame(body: bytes, flags: int = 0xC2, status: int = 0, id8: bytes = b"\0" * 8) -> bytes:
    return b"\xda\xbb" + bytes([flags, status]) + id8 + len(body).to_bytes(4, "big") + body


def hessian(
    descriptor: str = STRING,
    arguments: bytes = b"\x03bob",
    attachments: bytes = b"HZ",
    path: str = "com.x.Demo",
    version: str = "1.0.0",
    method: str = "hi",
) -> bytes:
    texts = ("2.0.2", path, version, method, descriptor)
    return make_frame(b"".join(map(write_string, texts)) + arguments + attachments)


def document(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def fastjson2(
    descriptor: str = STRING,
    arguments: tuple[bytes, ...] = (b"\x4cbob",),
    attachments: bytes = b"\xa6\xa5",
    method: str = "hi",
) -> bytes:
    texts = ("2.0.2", "com.x.Demo", "1.0.0", method, descriptor)
    parts = [*map(jsonb.write_string, texts), *arguments, attachments]
    return make_frame(b"".join(map(document, parts)), flags=0xD7)


def test_a_plain_request() -> None:
    head = read(FRAMES["hi"])
    assert head.service == "com.x.Demo:1.0.0"
    assert head.method == "hi"
    assert head.descriptor == STRING
    assert head.path == "com.x.Demo"
    assert head.timeout_ms == 1000
    assert head.tag == ""
    assert head.is_readable


def test_a_request_with_a_tag() -> None:
    assert read(FRAMES["hi-with-tag"]).tag == "gray"


def test_a_request_with_every_key() -> None:
    head = read(FRAMES["add-with-every-key"])
    assert head.service == "g1/com.x.Demo:1.0.0"
    assert head.method == "add"
    assert (head.group, head.tag, head.force_tag) == ("g1", "gray", True)
    assert (head.application, head.timeout_ms) == ("shop", 1000)


@pytest.mark.parametrize("name", ["ping-with-empty-attachments", "ping-one-way", "fastjson2-ping"])
def test_a_request_without_arguments(name: str) -> None:
    head = read(FRAMES[name])
    assert head.service == "com.x.Demo:1.0.0"
    assert head.method == "ping"
    assert head.tag == ("gray" if name == "fastjson2-ping" else "")


def test_an_echo_without_a_version() -> None:
    head = read(FRAMES["echo-without-version"])
    assert head.service == "com.x.Demo"
    assert head.method == "$echo"


def test_a_body_of_no_bytes_is_malformed() -> None:
    for flags in (0xC2, 0xD7):
        with pytest.raises(CodecError):
            read(make_frame(b"", flags))


def test_an_oversize_request_is_not_read() -> None:
    (frame,) = FrameReader(10).feed(FRAMES["hi"])
    with pytest.raises(CodecError):
        RequestReader().read(frame)


def test_fc_34_a_generic_call_shows_its_method() -> None:
    assert read(FRAMES["generic-hi"]).method == "hi"
    assert read(FRAMES["generic-hi"]).service == "com.x.Demo"
    arguments = write_string("findCart") + b"N" + b"\x71\x07[object\x03bob"
    reader = RequestReader()
    for method in ("$invoke", "$invokeAsync"):
        raw = hessian(GENERIC, arguments, write_map([("generic", "true")]), method=method)
        assert reader.read(frame_of(raw)).method == "findCart"
        assert reader.read(frame_of(raw)).method == "findCart"
        raw = hessian(GENERIC, b"\x05other" + arguments[9:], b"HZ", method=method)
        assert reader.read(frame_of(raw)).method == "other"
    # Only the exact descriptor makes a call generic.
    assert read(hessian(STRING, b"\x03bob", method="$invoke")).method == "$invoke"
    assert read(hessian(GENERIC, b"NNN", method="$invoke")).method == "$invoke"


def test_fc_34_a_generic_fastjson2_call_shows_its_method() -> None:
    reader = RequestReader()
    for name in ("findCart", "other", "findCart"):
        raw = fastjson2(GENERIC, (jsonb.write_string(name), b"\xaf", b"\xaf"), method="$invoke")
        assert reader.read(frame_of(raw)).method == name
    assert read(fastjson2(GENERIC, (b"\xaf",) * 3, method="$invoke")).method == "$invoke"
    with pytest.raises(CodecError):
        read(fastjson2(GENERIC, (b"\x4aaa", b"\xaf", b"\xaf"), method="$invoke"))


def test_fc_53_a_request_of_a_simple_client() -> None:
    raw = hessian(STRING, write_string("x" * 70), b"HZ", "t.Echo", "1.0", "say")
    for id8 in (bytes.fromhex("000000000000002a"), bytes(8), b"\xff" * 8, b"\x7f" + b"\xff" * 7):
        frame = frame_of(raw[:4] + id8 + raw[12:])
        assert frame.id8 == id8
        assert RequestReader().read(frame).service == "t.Echo:1.0"


def test_fc_57_text_outside_the_basic_plane() -> None:
    argument = bytes.fromhex("046869eda0bdedb880")
    head = read(hessian(STRING, argument, write_map([("dubbo.tag", "灰😀")])))
    assert head.tag == "灰😀"
    chinese = hessian(path="com.例.Demo", method="你好")
    reader = RequestReader()
    for _ in range(2):
        head = reader.read(frame_of(chinese))
        assert (head.service, head.method) == ("com.例.Demo:1.0.0", "你好")


ODD_ENTRIES = {
    "number": "01 6e 91",
    "boolean": "01 62 54",
    "null": "01 7a 4e",
    "list": "01 6c 7a 91 92",
    "object": "01 6f 43 07 636f6d2e782e41 92 01 61 01 62 60 91 4e",
    "map": "01 6d 48 01 6b 01 76 5a",
    "reference": "01 72 51 90",
    "integer-key": "91 01 76",
    "typed-list": "01 6c 56 04 5b696e74 91 91",
}


@pytest.mark.parametrize("name", sorted(ODD_ENTRIES))
def test_fc_58_attachments_that_are_not_strings(name: str) -> None:
    entry = bytes.fromhex(ODD_ENTRIES[name])
    tag = write_string("dubbo.tag") + write_string("gray")
    for attachments in (b"H" + entry + tag + b"Z", b"H" + tag + entry + b"Z"):
        raw = hessian(attachments=attachments)
        assert read(raw).tag == "gray"
        longer = append_attachments(raw, HESSIAN2, [("token", "x")])
        assert longer[16:-1].startswith(raw[16:-1])
        assert read(longer).tag == "gray"


def test_fc_58_no_attachments() -> None:
    assert read(hessian(attachments=b"N")).service == "com.x.Demo:1.0.0"
    assert read(fastjson2(attachments=b"\xaf")).service == "com.x.Demo:1.0.0"
    for raw in (hessian(attachments=b""), hessian("", b"", b""), hessian(attachments=b"\x91")):
        with pytest.raises(CodecError):
            read(raw)
    with pytest.raises(CodecError):
        read(make_frame(fastjson2()[16:-6], 0xD7))


def test_fc_58_nesting_is_capped() -> None:
    with pytest.raises(CodecError, match="nested"):
        read(hessian(arguments=b"\x79" * 10_000 + b"N"))
    attachments = b"H\x01a" + b"\x79" * 10_000 + b"NZ"
    with pytest.raises(CodecError, match="nested"):
        read(hessian(attachments=attachments))


def test_bytes_behind_the_attachments_are_refused() -> None:
    for raw in (hessian(attachments=b"HZN"), hessian(attachments=b"NN")):
        with pytest.raises(CodecError, match="behind"):
            read(raw)
    with pytest.raises(CodecError, match="behind"):
        read(make_frame(fastjson2()[16:] + document(b"\xaf"), 0xD7))


def test_a_missing_argument_is_noticed() -> None:
    with pytest.raises(CodecError):
        read(hessian("II", b"\x91"))


@pytest.mark.parametrize("form", [b"S", b"\x30"])
def test_a_key_inside_an_argument_does_not_count(form: bytes) -> None:
    inside = b"H\x09dubbo.tag\x04gray\x05group\x02g1Z"
    size = len(inside)
    text = b"S\0" + bytes([size]) + inside if form == b"S" else b"\x30" + bytes([size]) + inside
    for attachments in (b"HZ", write_map([("timeout", "5")])):
        head = read(hessian(arguments=text, attachments=attachments))
        assert (head.tag, head.group) == ("", "")


def test_an_argument_that_reaches_for_the_end_does_not_count() -> None:
    # Read from the last "H", the body would end with the attachments {dubbo.tag: gray, x: H}.
    argument = b"\x13H\x09dubbo.tag\x04gray\x01x\x01"
    assert read(hessian(arguments=argument)).tag == ""


def test_a_class_defined_by_an_earlier_argument() -> None:
    arguments = b"C\x07com.x.A\x92\x01a\x01b\x60\x91\x03foo" + b"\x60\x92\x03bar"
    attachments = write_map([("dubbo.tag", "gray")])
    raw = hessian("Lcom/x/A;Lcom/x/A;", arguments, attachments)
    assert read(raw).tag == "gray"
    with_object = b"H\x01o\x60\x91\x92" + attachments[1:]
    assert read(hessian("Lcom/x/A;Lcom/x/A;", arguments, with_object)).tag == "gray"


def test_equal_attachments_behind_other_classes() -> None:
    """The object in the attachments has one field behind one argument, three behind the other."""
    one, three = b"C\x01A\x91\x01a\x60N", b"C\x01A\x93\x01a\x01b\x01c\x60NNN"
    attachments = b"H\x01o\x60\x01x\x09dubbo.tag\x04gray\x01k\x01vZ"
    reader = RequestReader()
    for _ in range(2):
        assert reader.read(frame_of(hessian("LA;", one, attachments))).tag == "gray"
        assert reader.read(frame_of(hessian("LA;", three, attachments))).tag == ""


def test_a_number_as_timeout() -> None:
    for value, expected in ((b"\xd4\x0b\xb8", 3000), (b"\xe1", 1), (b"Y\0\0\x03\xe8", 1000)):
        assert read(hessian(attachments=b"H\x07timeout" + value + b"Z")).timeout_ms == expected
        countdown = b"H\x03_TO" + value + b"\x07timeout\x049999Z"
        assert read(hessian(attachments=countdown)).timeout_ms == expected


@pytest.mark.parametrize("serialization", [0, 3, 8, 21, 29, 31])
def test_fc_60_an_unknown_serialization(serialization: int) -> None:
    raw = make_frame(b'{"a":1}', 0xC0 | serialization, id8=b"\0" * 7 + b"\x2b")
    head = read(raw)
    assert not head.is_readable
    assert (head.service, head.method, head.timeout_ms) == ("", "", -1)
    assert append_attachments(raw, serialization, [("a", "b")]) is raw
    beat = frame_of(make_frame(b"\xaa\xbb", 0xE0 | serialization))
    assert event_kind(beat) == HEARTBEAT


def test_fc_60_a_fastjson2_request() -> None:
    head = read(FRAMES["fastjson2-ping"])
    assert head.is_readable
    assert (head.path, head.tag) == ("com.x.Demo", "gray")


def test_fc_61_a_one_way_request_is_read_like_another() -> None:
    one_way = frame_of(FRAMES["ping-one-way"])
    assert not one_way.is_two_way
    assert RequestReader().read(one_way).method == "ping"


def test_a_callback_parameter() -> None:
    attachments = write_map([("sys_callback_arg-1", "12345")])
    assert read(hessian(attachments=attachments)).has_callback
    assert not read(hessian()).has_callback


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_java_sent(path: Path) -> None:
    raw = message(path)
    frame = frame_of(raw)
    if frame.is_event:
        assert event_kind(frame) == (READONLY if "shutdown" in path.name else HEARTBEAT)
    elif frame.is_request:
        check_java_request(path, frame)
    else:
        check_java_reply(path, frame)


def check_java_request(path: Path, frame: Frame) -> None:
    head = RequestReader().read(frame)
    assert head.service == head.path == "org.example.peer.Greeter"
    assert head.application == "order-web"
    has_tag = "no-arguments" in path.name or "forced-tag" in path.name
    assert head.tag == ("gray" if has_tag else "")
    assert head.force_tag == ("forced-tag" in path.name)
    assert not head.method.startswith("$") or "echo" in path.name
    if b"_TO" in frame.raw or "-timeout" in path.name:
        assert head.timeout_ms == 2345
    pairs = [("dubbo.tag", "blue"), ("token", "t")]
    longer = frame_of(append_attachments(frame.raw, frame.serialization, pairs))
    assert RequestReader().read(longer).tag == "blue"


def check_java_reply(path: Path, frame: Frame) -> None:
    if "fastjson2-generic-object" in path.name:
        assert reply_outcome(frame) == outcome.PROVIDER_ERROR
    elif "exception" in path.name:
        assert reply_outcome(frame) == outcome.BUSINESS_ERROR
    else:
        assert reply_outcome(frame) == outcome.OK


def test_appending_makes_the_known_bytes() -> None:
    assert (
        append_attachments(FRAMES["hi"], HESSIAN2, [("dubbo.tag", "gray")])
        == (FRAMES["hi-with-tag"])
    )


def test_appending_overrides() -> None:
    for raw, serialization in ((FRAMES["add-with-every-key"], HESSIAN2), (fastjson2(), FASTJSON2)):
        pairs = [("group", "g2"), ("version", "9"), ("path", "p"), ("dubbo.tag", "中😀")]
        head = read(append_attachments(raw, serialization, pairs))
        assert (head.group, head.version, head.path, head.tag) == ("g2", "9", "p", "中😀")


def test_appending_to_null() -> None:
    longer = append_attachments(hessian(attachments=b"N"), HESSIAN2, [("group", "g")])
    assert longer == hessian(attachments=write_map([("group", "g")]))
    longer = append_attachments(fastjson2(attachments=b"\xaf"), FASTJSON2, [("group", "g")])
    assert longer == fastjson2(attachments=b"\xa6\x4egroup\x4ag\xa5")


def test_appending_to_an_object_with_a_type() -> None:
    raw = fastjson2(attachments=b"\x92\x4aM\x00\xa6\xa5")
    longer = append_attachments(raw, FASTJSON2, [("group", "g")])
    assert longer == fastjson2(attachments=b"\x92\x4aM\x00\xa6\x4egroup\x4ag\xa5")


@pytest.mark.parametrize("body", [b"", b"Z", b"\x01a", b"\x91"])
def test_appending_to_what_has_no_attachments(body: bytes) -> None:
    with pytest.raises(CodecError):
        append_attachments(make_frame(body), HESSIAN2, [("a", "b")])


@pytest.mark.parametrize(
    "body", [b"", b"\0\0", document(b"\x4aa"), document(b"\xaf\xaf"), document(b"\xaf") + b"\xa5"]
)
def test_appending_to_what_has_no_fastjson2_attachments(body: bytes) -> None:
    with pytest.raises(CodecError):
        append_attachments(make_frame(body, 0xD7), FASTJSON2, [("a", "b")])


def test_heads_are_remembered() -> None:
    reader = RequestReader()
    first = reader.read(frame_of(FRAMES["hi"]))
    other = FRAMES["hi"].replace(b"\x03bob", b"\x03ann")
    assert reader.read(frame_of(other)) is first
    trace = FRAMES["hi"].replace(b"1000Z", b"1000\x02id\x03123Z")
    trace = make_frame(trace[16:])
    assert reader.read(frame_of(trace)) is first
    assert reader.read(frame_of(FRAMES["hi-with-tag"])) is not first
    raw = fastjson2()
    head = reader.read(frame_of(raw))
    assert reader.read(frame_of(raw)) is head
    trace = fastjson2(attachments=b"\xa6\x4bid\x4b12\xa5")
    assert reader.read(frame_of(trace)) is head


def test_a_generic_call_without_a_name_is_not_taken_for_one_with_a_name() -> None:
    """Behind its arguments the second request has the bytes that give the first one's head."""
    name, attachments = write_string("findCart"), write_map([("dubbo.tag", "gray")])
    reader = RequestReader()
    reader.read(frame_of(hessian(GENERIC, name + b"NN", attachments, method="$invoke")))
    with pytest.raises(CodecError, match="no attachments"):
        reader.read(frame_of(hessian(GENERIC, b"NNN", name + attachments, method="$invoke")))
    null, encoded = b"\xaf", jsonb.write_string("findCart")
    good = fastjson2(GENERIC, (encoded, null, null), method="$invoke")
    bad = fastjson2(GENERIC, (null, null, null, encoded), method="$invoke")
    assert reader.read(frame_of(good)).method == "findCart"
    with pytest.raises(CodecError, match="behind"):
        reader.read(frame_of(bad))


def test_large_attachments_are_read_each_time() -> None:
    reader = RequestReader()
    tag = "t" * MAX_KEY_SIZE
    for raw in (
        hessian(attachments=write_map([("dubbo.tag", tag)])),
        fastjson2(attachments=b"\xa6" + jsonb.write_entries([("dubbo.tag", tag)]) + b"\xa5"),
    ):
        head = reader.read(frame_of(raw))
        again = reader.read(frame_of(raw))
        assert head.tag == again.tag == tag
        assert again is not head


def test_long_preludes_are_read_each_time() -> None:
    reader = RequestReader()
    count = MAX_PRELUDE_SIZE // len(STRING) + 1
    raw = hessian(STRING * count, b"\x01a" * count)
    head = reader.read(frame_of(raw))
    assert reader.read(frame_of(raw)) is not head


@pytest.mark.parametrize("make", [hessian, fastjson2])
def test_remembering_is_bounded(make: type) -> None:
    reader = RequestReader()
    first = reader.read(frame_of(make(method="m0")))
    for number in range(1, MAX_PRELUDES):
        reader.read(frame_of(make(method=f"m{number}")))
    assert reader.read(frame_of(make(method="m0"))) is first
    reader.read(frame_of(make(method="one-too-many")))
    assert reader.read(frame_of(make(method="m0"))) is not first


def test_remembering_heads_is_bounded() -> None:
    reader = RequestReader()
    frames = [
        frame_of(hessian(attachments=write_map([("dubbo.tag", f"t{number}")])))
        for number in range(MAX_HEADS + 1)
    ]
    first = reader.read(frames[0])
    for frame in frames[1:-1]:
        reader.read(frame)
    assert reader.read(frames[0]) is first
    reader.read(frames[-1])
    assert reader.read(frames[0]) is not first
    assert [reader.read(frame).tag for frame in frames] == [
        f"t{number}" for number in range(MAX_HEADS + 1)
    ]


@pytest.mark.parametrize(
    "texts",
    [
        (b"\x052.0.2", b"\x0acom.x.Demo", b"\x00", b"\x02hi", b"\x00"),
        (b"N", b"\x0acom.x.Demo", b"N", b"\x02hi", b"N"),
        (b"N", b"\x30\x0acom.x.Demo", b"\x050.0.0", b"S\x00\x02hi", b"\x00"),
        (b"\x00", b"R\x00\x04com.\x06x.Demo", b"\x00", b"\x02hi", b"\x00"),
    ],
)
def test_the_forms_of_the_first_strings(texts: tuple[bytes, ...]) -> None:
    reader = RequestReader()
    for _ in range(2):
        head = reader.read(frame_of(make_frame(b"".join(texts) + b"HZ")))
        assert (head.service, head.method) == ("com.x.Demo", "hi")


def test_a_guess_at_the_first_strings_that_is_wrong() -> None:
    """Counted in bytes, the path of the second request ends where the first one's does."""
    reader = RequestReader()
    reader.read(frame_of(hessian()))
    for path in ("com.é.Demo", "é" * 12, "中" * 31):
        assert reader.read(frame_of(hessian(path=path))).path == path


@pytest.mark.parametrize("texts", [b"", b"\x05", b"\x052.0.2", b"\x052.0.2\x91", b"\x30", b"A\0\0"])
def test_first_strings_that_are_malformed(texts: bytes) -> None:
    with pytest.raises(CodecError):
        read(make_frame(texts))


def test_a_request_that_is_cut_short() -> None:
    for name in ("add-with-every-key", "generic-hi", "fastjson2-ping"):
        body = FRAMES[name][16:]
        flags = FRAMES[name][2]
        for end in range(len(body)):
            with pytest.raises(CodecError):
                read(make_frame(body[:end], flags))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reply-value-attachments", outcome.OK),
        ("reply-null-attachments", outcome.OK),
        ("reply-value", outcome.OK),
        ("reply-null", outcome.OK),
        ("reply-null-stray-byte", outcome.OK),
        ("reply-exception", outcome.BUSINESS_ERROR),
        ("reply-exception-attachments", outcome.BUSINESS_ERROR),
        ("reply-limited", outcome.BUSINESS_ERROR),
        ("error-31", outcome.TIMEOUT),
        ("error-40", outcome.PROVIDER_ERROR),
        ("error-80", outcome.PROVIDER_ERROR),
        ("error-80-fastjson2", outcome.PROVIDER_ERROR),
        ("error-100", outcome.PROVIDER_ERROR),
    ],
)
def test_outcomes(name: str, expected: int) -> None:
    assert reply_outcome(frame_of(FRAMES[name])) == expected


@pytest.mark.parametrize(
    ("flags", "status", "body", "expected"),
    [
        (0x02, 30, b"\x01a", outcome.TIMEOUT),
        (0x02, 20, b"", outcome.CODEC_ERROR),
        (0x02, 20, b"\x96", outcome.CODEC_ERROR),
        (0x02, 20, b"\x8f", outcome.CODEC_ERROR),
        (0x02, 20, b"\x01a", outcome.CODEC_ERROR),
        (0x02, 20, b"L\0", outcome.CODEC_ERROR),
        (0x02, 20, b"I\0\0\0\x01N", outcome.OK),
        (0x17, 20, document(b"\xbd\x04") + document(b"\x4aa"), outcome.OK),
        (0x17, 20, document(b"\xbd\x03"), outcome.BUSINESS_ERROR),
        (0x17, 20, document(b"\x02"), outcome.OK),
        (0x17, 20, document(b"\xaf"), outcome.CODEC_ERROR),
        (0x17, 20, b"\0\0\0", outcome.CODEC_ERROR),
        (0x17, 20, document(b"\xbd"), outcome.CODEC_ERROR),
        (0x1D, 20, b"anything", outcome.OK),
        (0x1D, 80, b"anything", outcome.PROVIDER_ERROR),
    ],
)
def test_outcomes_of_odd_replies(flags: int, status: int, body: bytes, expected: int) -> None:
    assert reply_outcome(frame_of(make_frame(body, flags, status))) == expected


def test_the_outcome_of_an_oversize_reply() -> None:
    (frame,) = FrameReader(5).feed(FRAMES["reply-value"])
    assert reply_outcome(frame) == outcome.REJECTED


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("heartbeat-request", HEARTBEAT),
        ("heartbeat-reply", HEARTBEAT),
        ("fastjson2-heartbeat-request", HEARTBEAT),
        ("readonly", READONLY),
        ("writeable", WRITEABLE),
    ],
)
def test_event_kinds(name: str, expected: int) -> None:
    assert event_kind(frame_of(FRAMES[name])) == expected


@pytest.mark.parametrize(
    ("flags", "body", "expected"),
    [
        (0xB7, document(b"\x4aR"), READONLY),
        (0xB7, document(b"\x4aW"), WRITEABLE),
        (0xE2, b"", HEARTBEAT),
        (0xA2, b"N", HEARTBEAT),
        (0xE2, b"\x01X", OTHER),
        (0xA2, b"\x01X", OTHER),
        (0xF7, b"N!", OTHER),
        (0xFD, b"null", HEARTBEAT),
        (0xBD, b"null", OTHER),
    ],
)
def test_fc_51_variants_of_events(flags: int, body: bytes, expected: int) -> None:
    assert event_kind(frame_of(make_frame(body, flags))) == expected


def test_an_oversize_event() -> None:
    (frame,) = FrameReader(3).feed(make_frame(b"\x031234", 0xE2))
    assert event_kind(frame) == OTHER
