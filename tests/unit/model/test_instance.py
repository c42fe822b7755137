"""Instances as values."""

from __future__ import annotations

import pytest

from sidecar.model.instance import UNASSIGNED, Instance
from tests.fixtures.fleet import provider


def test_addresses() -> None:
    assert provider("192.0.2.1", 20880).address == "192.0.2.1:20880"
    assert provider("2001:db8::1", 1).address == "[2001:db8::1]:1"
    text = "Instance(-1 dubbo://192.0.2.1:20880 org.example.Cart)"
    assert repr(provider("192.0.2.1")) == text


def test_an_id_is_given_to_a_copy() -> None:
    draft = provider(weight=7, methods={"find": 1}, zone="bj")
    instance = draft.with_id(3)
    assert (draft.id, instance.id) == (UNASSIGNED, 3)
    assert instance.is_same(draft)


def test_protocols_are_given_to_a_copy() -> None:
    instance = provider(weight=7, methods={"find": 1}, zone="bj").with_id(3)
    both = instance.with_protocols(3)
    assert (both.id, both.protocols, both.protocol) == (3, 3, "dubbo")
    assert both.with_protocols(1).is_same(instance)


def _draft(**fields: object) -> Instance:
    values: dict[str, object] = {
        "id": 1, "protocol": "dubbo", "host": "h", "port": 1, "path": "p", "interface": "i",
        "version": "1", "group": "g", "application": "a", "tag": "t", "token": "k", "weight": 1,
        "started_ms": 1, "warmup_ms": 1, "timeout_ms": 1, "parameters": {"a": "b"},
        "method_weights": {"m": 1}, "method_timeouts": {"m": 1}, "protocols": 1, **fields,
    }  # fmt: skip
    return Instance(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "field",
    [
        "protocol", "host", "port", "path", "interface", "version", "group", "application", "tag",
        "token", "weight", "started_ms", "warmup_ms", "timeout_ms", "parameters",
        "method_weights", "method_timeouts", "protocols",
    ],
)  # fmt: skip
def test_every_field_but_the_id_makes_a_difference(field: str) -> None:
    value = getattr(_draft(), field)
    other: object = {"x": "y"} if isinstance(value, dict) else value * 2
    assert not _draft().is_same(_draft(**{field: other}))
    assert _draft().is_same(_draft(id=2))
