"""The limits of a connection."""

from __future__ import annotations

from tests.fixtures.http2_peers import limits


def test_each_limit_has_its_place() -> None:
    names = (
        "header_size", "header_count", "continuations", "resets", "control_frames",
        "stream_window", "connection_window", "max_streams",
    )  # fmt: skip
    made = limits(**{name: number for number, name in enumerate(names)})
    assert [getattr(made, name) for name in names] == list(range(len(names)))
