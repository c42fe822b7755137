import pytest
from msgspec import inspect

from sidecar.settings.scalar import closest, read_scalar, yaml_kind
from sidecar.settings.units import Duration

TEXT = inspect.StrType()
FLAG = inspect.BoolType()
NUMBER = inspect.IntType(ge=1, le=64)
FREE_NUMBER = inspect.IntType()
LENGTH = inspect.CustomType(Duration)
WORD = inspect.LiteralType(("info", "warning"))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("true", FLAG, True),
        ("false", FLAG, False),
        ("64", NUMBER, 64),
        ("-3", FREE_NUMBER, -3),
        ("5s", LENGTH, 5.0),
        ("info", WORD, "info"),
        ("words", TEXT, "words"),
    ],
)
def test_values(text, kind, value):
    assert read_scalar(text, True, kind, {}) == value


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("yes", FLAG, "write true"),
        ("Off", FLAG, "write false"),
        ("True", FLAG, "write true"),
        ("maybe", FLAG, "is not a boolean"),
        ("0777", NUMBER, "write 777"),
        ("1_0", NUMBER, "write 10"),
        ("+1", NUMBER, "write 1"),
        ("0x1f", NUMBER, "not a whole number"),
        ("0", NUMBER, "the least is 1"),
        ("65", NUMBER, "the most is 64"),
        ("warn", WORD, "did you mean 'warning'"),
        ("x", WORD, "known are info, warning"),
        ("~", TEXT, "no value"),
        ("", NUMBER, "no value"),
    ],
)
def test_refusals_say_what_to_write(text, kind, words):
    with pytest.raises(ValueError, match=words):
        read_scalar(text, True, kind, {})


@pytest.mark.parametrize("text", ["no", "0777", "1.10", "12:30", "2026-11-30", "null", "=", "<<"])
def test_texts_that_yaml_could_take_for_something_else_need_quotes(text):
    with pytest.raises(ValueError, match=r"in quotes|no value"):
        read_scalar(text, True, TEXT, {})
    assert read_scalar(text, False, TEXT, {}) == text


def test_rules():
    with pytest.raises(ValueError, match="more than nothing"):
        read_scalar("0s", True, LENGTH, {"is_positive": True})
    with pytest.raises(ValueError, match="has no port"):
        read_scalar("x", True, TEXT, {"form": "address"})
    assert read_scalar("", False, TEXT, {"form": "service", "may_be_empty": True}) == ""
    with pytest.raises(ValueError, match="is not in this version"):
        read_scalar("p2c", True, WORD, {"path": "balancer"})
    with pytest.raises(ValueError, match="must not be empty"):
        read_scalar("", False, inspect.StrType(min_length=1), {})
    with pytest.raises(ValueError, match="longer than 2"):
        read_scalar("abc", False, inspect.StrType(max_length=2), {})


def test_an_unknown_type_is_a_fault_of_the_schema():
    with pytest.raises(TypeError):
        read_scalar("1.5", True, inspect.FloatType(), {})


def test_closest_and_kind():
    assert closest("adress", ["address", "protocol"]) == "address"
    assert closest("zzz", ["address"]) == ""
    assert (yaml_kind("no"), yaml_kind("word")) == ("a boolean", "")
