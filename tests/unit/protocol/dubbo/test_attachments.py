"""Collecting and decoding attachments."""

from __future__ import annotations

import pytest

from sidecar.model.errors import CodecError
from sidecar.protocol.dubbo.attachments import (
    Attachments,
    collect_hessian,
    collect_jsonb,
    decode_hessian,
    decode_jsonb,
)
from sidecar.protocol.dubbo.jsonb import write_entries as jsonb_entries
from sidecar.protocol.dubbo.jsonb import write_string as jsonb_string
from sidecar.protocol.hessian.write import write_map, write_string
from tests.vectors.loader import messages

HESSIAN = messages("hessian/java.txt")
JSONB = messages("jsonb/java.txt")

EVERY_KEY = {
    "group": "g", "interface": "i", "path": "p", "version": "v", "dubbo.tag": "t",
    "dubbo.force.tag": "true", "dubbo.tag.service": "s", "timeout": "1", "_TO": "2", "_to": "3",
    "remote.application": "a",
}  # fmt: skip


def hessian(data: bytes, definitions: list[int] | None = None) -> Attachments:
    return decode_hessian(collect_hessian(data, 0, definitions or []).entries)


def jsonb(body: bytes) -> Attachments:
    return decode_jsonb(collect_jsonb(len(body).to_bytes(4, "big") + body, 0).entries)


def test_every_key() -> None:
    pairs = [*EVERY_KEY.items(), ("other", "x"), ("id", "1"), ("Group", "x")]
    assert hessian(write_map(pairs)).found == EVERY_KEY
    assert jsonb(b"\xa6" + jsonb_entries(pairs) + b"\xa5").found == EVERY_KEY


def test_typed_maps_and_null() -> None:
    typed = b"M" + write_string("java.util.LinkedHashMap") + write_map([("group", "g")])[1:]
    assert hessian(typed).found == {"group": "g"}
    assert hessian(b"N").found == {}
    assert hessian(b"HZ").found == {}
    assert jsonb(bytes.fromhex("92 4a4d 00 a6") + jsonb_entries([("path", "p")]) + b"\xa5").found
    assert jsonb(b"\xaf").found == {}
    assert jsonb(b"\xa6\xa5").found == {}


@pytest.mark.parametrize("name", sorted(HESSIAN.keys() - {"no-map", "empty-map"}))
def test_fc_58_hessian_values_of_any_kind_are_stepped_over(name: str) -> None:
    entry = HESSIAN[name][1:-1]
    tag = write_string("dubbo.tag") + write_string("gray")
    assert hessian(b"H" + entry + tag + b"Z").found == {"dubbo.tag": "gray"}
    assert hessian(b"H" + tag + entry + b"Z").found == {"dubbo.tag": "gray"}


@pytest.mark.parametrize("name", sorted(JSONB.keys() - {"no-map", "empty-map"}))
def test_fc_58_jsonb_values_of_any_kind_are_stepped_over(name: str) -> None:
    entry = JSONB[name][5:-1]
    tag = jsonb_entries([("dubbo.tag", "gray")])
    assert jsonb(b"\xa6" + entry + tag + b"\xa5").found == {"dubbo.tag": "gray"}
    assert jsonb(b"\xa6" + tag + entry + b"\xa5").found == {"dubbo.tag": "gray"}


@pytest.mark.parametrize(
    "value", ["4e", "54", "5f000005dc", "23010203", "7a9192", "485a", "5190", "4301419060"]
)
def test_a_later_value_that_cannot_be_used_hides_an_earlier_one(value: str) -> None:
    body = write_map([("group", "g")])[:-1]
    data = body + write_string("group") + bytes.fromhex(value) + b"Z"
    assert hessian(data).found == {}


@pytest.mark.parametrize("value", ["af", "b1", "94", "a6a5", "9200a6a5", "b5" + "00" * 8])
def test_a_later_jsonb_value_that_cannot_be_used_hides_an_earlier_one(value: str) -> None:
    body = b"\xa6" + jsonb_entries([("group", "g")]) + jsonb_string("group")
    assert jsonb(body + bytes.fromhex(value) + b"\xa5").found == {}


def test_the_last_of_equal_keys_wins() -> None:
    assert hessian(write_map([("group", "a"), ("group", "b")])).found == {"group": "b"}
    entries = jsonb_entries([("group", "a"), ("group", "b")])
    assert jsonb(b"\xa6" + entries + b"\xa5").found == {"group": "b"}


def test_numbers_become_text() -> None:
    data = b"H" + write_string("_TO") + b"\xd4\x0b\xb8" + write_string("timeout") + b"\xe1Z"
    assert hessian(data).found == {"_TO": "3000", "timeout": "1"}
    body = b"\xa6" + jsonb_string("_TO") + bytes.fromhex("440bb8") + b"\xa5"
    assert jsonb(body).found == {"_TO": "3000"}


def test_keys_that_are_not_strings() -> None:
    tag = write_string("dubbo.tag") + write_string("gray")
    for key in (b"\x91", b"N", b"\x21a", b"HZ", b"\x5c"):
        assert hessian(b"H" + key + b"\x91" + tag + b"Z").found == {"dubbo.tag": "gray"}
    body = b"\xa6\x01" + jsonb_string("v") + jsonb_entries([("dubbo.tag", "gray")]) + b"\xa5"
    assert jsonb(body).found == {"dubbo.tag": "gray"}


def test_keys_in_longer_forms_of_strings() -> None:
    for key in (b"\x30\x05group", b"S\x00\x05group", b"R\x00\x02gr\x03oup"):
        assert hessian(b"H" + key + b"\x01gZ").found == {"group": "g"}
    assert hessian(b"H\x30\x12sys_callback_arg-0\x01xZ").has_callback
    assert jsonb(b"\xa6\x79\x05group\x4ag\xa5").found == {"group": "g"}


def test_callback_keys() -> None:
    for key in ("sys_callback_arg-0", "sys_callback_arg-12"):
        assert hessian(write_map([(key, "x")])).has_callback
        assert hessian(b"H" + write_string(key) + b"NZ").has_callback
        assert jsonb(b"\xa6" + jsonb_entries([(key, "x")]) + b"\xa5").has_callback
    for key in ("sys_callback_arg", "xsys_callback_arg-0", "s", ""):
        assert not hessian(write_map([(key, "x")])).has_callback
        assert not jsonb(b"\xa6" + jsonb_entries([(key, "x")]) + b"\xa5").has_callback


def test_maps_of_strings_and_numbers_are_plain() -> None:
    plain = b"H" + write_string("a") + b"\x91\x91N\x01b\x21xZ"
    assert collect_hessian(plain, 0, []).is_plain
    for entry in (b"\x01a\x60", b"\x60\x01a", b"\x01aC\x01A\x90\x60", b"\x01a\x78", b"\x01aQ\x90"):
        assert not collect_hessian(b"H" + entry + b"Z", 0, [0]).is_plain


def test_classes_of_the_arguments_are_known() -> None:
    assert hessian(b"H\x01a\x60\x91\x05group\x01gZ", [1]).found == {"group": "g"}
    with pytest.raises(CodecError):
        hessian(b"H\x01a\x60\x91\x05group\x01gZ")


@pytest.mark.parametrize(
    "data", ["", "91", "03626f62", "60", "5a", "4e4e", "485a4e", "485a5a", "4801615a", "7a9192"]
)
def test_what_is_no_map_or_not_the_end_is_refused(data: str) -> None:
    with pytest.raises(CodecError):
        collect_hessian(bytes.fromhex(data), 0, [])


@pytest.mark.parametrize("data", ["48", "480161", "48016101", "4d", "4d0154"])
def test_maps_that_are_cut_short(data: str) -> None:
    with pytest.raises(IndexError):
        collect_hessian(bytes.fromhex(data), 0, [])


@pytest.mark.parametrize(
    "data", ["", "0000000101", "00000001af01", "00000002afaf", "00000003a6a501", "0000000194"]
)
def test_what_is_no_document_or_not_the_end_is_refused(data: str) -> None:
    with pytest.raises(CodecError):
        collect_jsonb(bytes.fromhex(data), 0)


@pytest.mark.parametrize("data", ["00000001a6", "00000003a64a61", "00000001 92"])
def test_documents_that_are_cut_short(data: str) -> None:
    with pytest.raises(IndexError):
        collect_jsonb(bytes.fromhex(data), 0)


def test_bad_text_in_a_wanted_value_is_refused() -> None:
    with pytest.raises(CodecError, match="UTF-8"):
        hessian(b"H\x05group\x02\xf0\x9f\x98\x80Z")
    assert hessian(b"H\x05other\x02\xf0\x9f\x98\x80Z").found == {}
