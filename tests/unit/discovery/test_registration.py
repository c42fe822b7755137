from __future__ import annotations

import pytest

from sidecar.discovery.registration import (
    MAX_PARAMETERS,
    Interner,
    Registration,
    decode,
    parse_query,
    read_int,
)
from sidecar.model.protocol import TRIPLE


def registration(query):
    found = Interner().registration(query, False)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("0", 0),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
        ("2147483648", 100),
        ("99999999999999999999999", 100),
        ("1.5", 100),
        ("", 100),
        ("-", 100),
        ("٣", 100),
        ("1_0", 100),
        (" 1", 100),
    ],
)
def test_read_int_follows_java(text, value):
    assert read_int(text, 100) == value


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a%3Db%26c", "a=b&c"),
        ("a%3db%26c", "a=b&c"),
        ("x+y", "x y"),
        ("x%2By", "x+y"),
        ("%2A%7E*~", "*~*~"),
        ("%24Inner", "$Inner"),
        ("%E4%BD%A0", "你"),
        ("%253D", "%3D"),
        ("%2%3D", "%2="),
        ("%", "%"),
        ("100%25", "100%"),
        ("plain", "plain"),
        ("%FF", "�"),
    ],
)
def test_decode_undoes_form_encoding_once(text, plain):
    assert decode(text) == plain


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("", {}),
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("a=1;b=2", {"a": "1", "b": "2"}),
        ("a=b=c", {"a": "b=c"}),
        ("=a=1", {"a": "1"}),
        ("a=", {"a": ""}),
        ("a", {"a": ""}),
        ("a=1&a=2", {"a": "2"}),
        ("&&a=1&", {"a": "1"}),
        ("default.a=1", {"default.a": "1", "a": "1"}),
        ("default.a=1&a=2", {"default.a": "1", "a": "2"}),
        ("a=2&default.a=1", {"default.a": "1", "a": "2"}),
        ("a=x%26y%3Dz", {"a": "x&y=z"}),
        ("a=100%", {"a": "100%"}),
    ],
)
def test_parse_query(query, parameters):
    assert parse_query(query, {}) == parameters


def test_a_query_of_absurd_length_is_no_registration():
    query = "&".join(f"k{i}=v" for i in range(MAX_PARAMETERS + 1))
    assert parse_query(query, {}) is None
    assert Interner().registration(query, False) is None


def test_defaults():
    empty = registration("")
    assert (empty.weight, empty.warmup_ms, empty.timeout_ms) == (100, 600_000, 0)
    assert (empty.version, empty.group, empty.tag, empty.token) == ("", "", "", "")
    assert empty.method_weights is None
    assert empty.method_timeouts is None


def test_values():
    found = registration(
        "application=a&interface=i&version=1.0&group=g&dubbo.tag=gray&token=t&weight=7&warmup=5"
        "&timeout=9&category=providers&ext.protocol=tri,rest&preferred.protocol=tri"
    )
    assert (found.application, found.interface) == ("a", "i")
    assert (found.version, found.group, found.tag, found.token) == ("1.0", "g", "gray", "t")
    assert (found.weight, found.warmup_ms, found.timeout_ms) == (7, 5, 9)
    assert found.category == "providers"
    assert found.protocols == TRIPLE


@pytest.mark.parametrize("key", ["weight", "warmup", "timeout"])
def test_negative_numbers_are_zero(key):
    found = registration(f"{key}=-5")
    assert {"weight": found.weight, "warmup": found.warmup_ms, "timeout": found.timeout_ms}[
        key
    ] == 0


def test_version_zero_means_none():
    assert registration("version=0.0.0").version == ""


def test_method_numbers_count_for_listed_methods_only():
    found = registration("methods=get,put&get.weight=7&put.timeout=30&other.weight=9&weight=1")
    assert found.method_weights == {"get": 7}
    assert found.method_timeouts == {"put": 30}


def test_method_numbers_of_a_generic_service():
    assert registration("methods=*&get.weight=7").method_weights == {"get": 7}
    assert registration("methods=*&default.weight=7").method_weights is None
    assert registration("get.weight=7").method_weights is None


def test_method_numbers_as_dubbo_go_writes_them():
    found = registration("methods=Get&methods.Get.weight=7&methods.Get.timeout=-1")
    assert found.method_weights == {"Get": 7}
    assert found.method_timeouts == {"Get": 0}


def test_default_method_numbers():
    assert registration("methods=get&default.get.weight=3").method_weights == {"get": 3}


def test_equal_texts_share_one_registration():
    interner = Interner()
    first = interner.registration("a=1&b=2", False)
    assert interner.registration("a=1&b=2", False) is first
    assert interner.registration("a=1&b=3", False) is not first
    assert interner.parsed == 2
    assert len(interner) == 2


def test_different_registrations_share_key_texts():
    interner = Interner()
    one = interner.registration("some.key=1", False)
    two = interner.registration("some.key=2", False)
    assert next(iter(one.parameters)) is next(iter(two.parameters))


def test_start_time_and_process_id_never_stay_in_the_parameters():
    found = registration("pid=1;timestamp=17;a=1")
    assert found.parameters == {"a": "1"}
    assert found.started == "17"


def test_a_registration_with_its_own_start_time_is_not_kept():
    interner = Interner()
    interner.registration("timestamp=17;a=1", False)
    assert len(interner) == 0


def test_the_table_is_bounded_and_starts_again():
    interner = Interner(limit=3)
    kept = [interner.registration(f"a={i}", False) for i in range(10)]
    assert len(interner) <= 3
    assert [each.parameters["a"] for each in kept] == [str(i) for i in range(10)]


def test_reset_forgets():
    interner = Interner()
    first = interner.registration("a=1", False)
    interner.reset()
    again = interner.registration("a=1", False)
    assert again is not first
    assert isinstance(again, Registration)
