"""Protocols as bits."""

from __future__ import annotations

import pytest

from sidecar.model.protocol import DUBBO, EVERY, NAMES, TRIPLE, names_of, of_scheme


@pytest.mark.parametrize(
    ("scheme", "protocol"),
    [("dubbo", DUBBO), ("tri", TRIPLE), ("grpc", TRIPLE), ("rest", 0), ("triple", 0), ("", 0)],
)
def test_schemes(scheme: str, protocol: int) -> None:
    assert of_scheme(scheme) == protocol


def test_sets_and_their_names() -> None:
    assert sum(NAMES) == EVERY
    assert names_of(0) == []
    assert names_of(DUBBO) == ["dubbo"]
    assert names_of(TRIPLE) == ["triple"]
    assert names_of(EVERY) == ["dubbo", "triple"]
