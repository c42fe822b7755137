"""Service keys."""

from __future__ import annotations

import pytest

from sidecar.model.service import ServiceKey


@pytest.mark.parametrize(
    ("text", "parts", "rule_key"),
    [
        ("a.B", ("a.B", "", ""), "a.B::"),
        ("a.B:1.0.0", ("a.B", "1.0.0", ""), "a.B:1.0.0:"),
        ("g/a.B", ("a.B", "", "g"), "a.B::g"),
        ("g/a.B:1.0.0", ("a.B", "1.0.0", "g"), "a.B:1.0.0:g"),
    ],
)
def test_parts_and_text(text: str, parts: tuple[str, str, str], rule_key: str) -> None:
    key = ServiceKey.parse(text)
    assert (key.interface, key.version, key.group) == parts
    assert (key.text, str(key), key.rule_key()) == (text, text, rule_key)
    assert key == ServiceKey(*parts)
    assert hash(key) == hash(ServiceKey(*parts))
    assert repr(key) == f"ServiceKey({text})"


def test_version_zero_is_no_version() -> None:
    assert ServiceKey("a.B", "0.0.0") == ServiceKey("a.B")
    assert ServiceKey("a.B") != ServiceKey("a.B", "1")
    assert ServiceKey("a.B") != "a.B"


@pytest.mark.parametrize("text", ["", "g/", ":1.0.0", " a.B", "a.B :1"])
def test_texts_without_an_interface(text: str) -> None:
    with pytest.raises(ValueError, match="no interface name"):
        ServiceKey.parse(text)
