"""What routing sees of a request."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.errors import CodecError
from sidecar.model.service import ServiceKey
from sidecar.protocol.dubbo.attachments import Attachments
from sidecar.protocol.dubbo.head import (
    MAX_HEADS,
    MAX_KEY_SIZE,
    MAX_NAME,
    UNREADABLE,
    Prelude,
    RequestHead,
    count_arguments,
    keep_head,
    parse_timeout,
)


def make_head(
    found: dict[str, str] | None = None,
    path: str = "org.example.Greeter",
    version: str = "",
    method: str = "hi",
) -> RequestHead:
    attachments = Attachments()
    for key, value in (found or {}).items():
        attachments.put(key, value)
    return Prelude(path, version, method, "", 16).make_head(method, attachments)


def test_without_attachments_the_strings_count() -> None:
    head = make_head(version="1.0.0")
    assert head.service == "org.example.Greeter:1.0.0"
    assert head.interface == "org.example.Greeter"
    assert head.path == "org.example.Greeter"
    assert head.version == "1.0.0"
    assert head.method == "hi"
    assert head.timeout_ms == -1
    assert head.is_readable
    assert not head.has_callback
    assert not head.force_tag
    assert (head.group, head.tag, head.service_tag, head.application) == ("", "", "", "")


def test_attachments_win_over_the_strings() -> None:
    found = {"path": "custom/path", "interface": "org.example.New", "version": "2", "group": "g"}
    head = make_head(found, "old", "1")
    assert head.service == "g/org.example.New:2"
    assert head.path == "custom/path"


def test_every_other_attachment() -> None:
    head = make_head(
        {
            "dubbo.tag": "gray",
            "dubbo.tag.service": "blue",
            "dubbo.force.tag": "TRUE",
            "remote.application": "shop",
        }
    )
    assert (head.tag, head.service_tag, head.application) == ("gray", "blue", "shop")
    assert head.force_tag


@pytest.mark.parametrize("text", ["", "1", "yes", "false", "true "])
def test_only_true_forces_the_tag(text: str) -> None:
    assert not make_head({"dubbo.force.tag": text}).force_tag


@pytest.mark.parametrize("version", ["", "0.0.0"])
def test_no_version(version: str) -> None:
    assert make_head(version=version).service == "org.example.Greeter"
    assert make_head({"version": version}, version="9").version == ""


def test_a_callback_parameter() -> None:
    assert make_head({"sys_callback_arg-1": "export"}).has_callback


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, -1),
        ({"timeout": "1000"}, 1000),
        ({"timeout": "1000", "_TO": "700"}, 700),
        ({"timeout": "700", "_TO": "1000"}, 1000),
        ({"timeout": "1000", "_to": "800"}, 800),
        ({"_to": "800", "_TO": "900"}, 900),
        ({"timeout": "1000", "_TO": "soon"}, 1000),
        ({"timeout": "1000", "_TO": "0"}, 1000),
        ({"timeout": "-5"}, -1),
    ],
)
def test_the_budget(found: dict[str, str], expected: int) -> None:
    assert make_head(found).timeout_ms == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1), ("0", -1), ("-1", -1), ("", -1), ("1s", -1), ("1.5", -1), (" 1", -1), ("²", -1),
        ("٣", -1), ("2147483647", 2147483647), ("2147483648", 2147483647),
        ("9223372036854775807", 2147483647), ("9" * 20, -1), ("9" * 10_000, -1),
    ],
)  # fmt: skip
def test_timeouts(text: str, expected: int) -> None:
    assert parse_timeout(text) == expected


@pytest.mark.parametrize(
    ("descriptor", "expected"),
    [
        ("", 0), ("I", 1), ("VZBCDFIJS", 9), ("ILjava/lang/Long;[I", 3), ("[[[J", 1),
        ("[Ljava/lang/String;", 1), ("LI;LI;", 2), ("I" * 255, 255), ("[" * 65_534 + "I", 1),
    ],
)  # fmt: skip
def test_argument_counts(descriptor: str, expected: int) -> None:
    assert count_arguments(descriptor) == expected


@pytest.mark.parametrize("descriptor", ["X", "L", "Ljava", "[", "I[", "I;", "()V", "I I", "中"])
def test_bad_descriptors(descriptor: str) -> None:
    with pytest.raises(CodecError, match="descriptor"):
        count_arguments(descriptor)


@pytest.mark.parametrize("descriptor", ["I" * 256, "I" * 1_000_000, "[" * 65_535 + "I"])
def test_descriptors_beyond_what_a_jvm_can_call(descriptor: str) -> None:
    started = time.process_time()
    with pytest.raises(CodecError, match=r"too long|more than 255 arguments"):
        count_arguments(descriptor)
    assert time.process_time() - started < 0.1


@pytest.mark.parametrize(
    "names",
    [
        {"path": ""},
        {"method": ""},
        {"path": "a/b"},
        {"path": "a:b"},
        {"path": "a b"},
        {"path": "a\n"},
        {"path": "\ud800"},
        {"path": "x" * (MAX_NAME + 1)},
        {"version": "x" * (MAX_NAME + 1)},
        {"version": "1/2"},
        {"version": "1\0"},
        {"method": "x" * (MAX_NAME + 1)},
        {"method": "a\r\n"},
    ],
)
def test_names_that_are_refused(names: dict[str, str]) -> None:
    with pytest.raises(CodecError):
        make_head({}, **names)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("group", "x" * (MAX_NAME + 1)),
        ("group", "\x1b[2J"),
        ("interface", ""),
        ("interface", "../x"),
        ("version", "\n"),
    ],
)
def test_names_in_attachments_that_are_refused(key: str, name: str) -> None:
    with pytest.raises(CodecError):
        make_head({key: name})


def test_the_longest_name() -> None:
    assert make_head(path="x" * MAX_NAME).interface == "x" * MAX_NAME


NAME = st.text(st.characters(codec="utf-8"), max_size=12) | st.text("ab/:. 0", max_size=8)


@given(NAME, NAME, NAME)
def test_a_service_text_is_read_back(interface: str, version: str, group: str) -> None:
    try:
        head = make_head({"group": group}, interface, version)
    except CodecError:
        return
    key = ServiceKey.parse(head.service)
    assert (key.interface, key.version, key.group) == (interface, head.version, group)
    assert key.text == head.service


def test_a_generic_call_is_known_by_name_and_descriptor() -> None:
    descriptor = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;"
    assert Prelude("i", "", "$invoke", descriptor, 16).is_generic
    assert Prelude("i", "", "$invokeAsync", descriptor, 16).is_generic
    assert not Prelude("i", "", "$invoke", "Ljava/lang/String;", 16).is_generic
    assert not Prelude("i", "", "invoke", descriptor, 16).is_generic


def test_a_generic_method_name_is_checked() -> None:
    prelude = Prelude("i", "", "$invoke", "", 16)
    assert prelude.make_head("real", Attachments()).method == "real"
    with pytest.raises(CodecError):
        prelude.make_head("re\nal", Attachments())


def test_remembered_heads_are_capped() -> None:
    heads: dict[bytes, RequestHead] = {}
    for number in range(10 * MAX_HEADS):
        keep_head(heads, b"%d" % number, UNREADABLE)
        assert len(heads) <= MAX_HEADS
    assert b"%d" % (10 * MAX_HEADS - 1) in heads
    keep_head(heads, b"x" * (MAX_KEY_SIZE + 1), UNREADABLE)
    assert b"x" * (MAX_KEY_SIZE + 1) not in heads
