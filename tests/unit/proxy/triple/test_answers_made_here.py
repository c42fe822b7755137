"""Answers of the sidecar in place of a provider's, and the windows they must not touch."""

from __future__ import annotations

from tests.fixtures.triple_rig import connected

JSON = "application/json"


def test_a_body_made_here_is_not_returned_to_the_providers_window():
    rig, consumer, (provider,) = connected(20880)
    other = consumer.ask(kind=JSON)
    asked = consumer.ask(kind=JSON)
    rig.settle()
    first, second = provider.requests()
    consumer.reads = False
    provider.head(first)
    provider.data(first, b"x" * 50_000)
    provider.reset(second, 2)
    rig.settle()
    assert asked.http_status == 500
    assert b"STREAM_RESET" in asked.body
    (link,) = rig.links
    assert link.unread == 50_000 - len(other.body)
    consumer.reads = True
    consumer.read_all()
    provider.data(first, b"", end=True)
    rig.settle()
    assert len(other.body) == 50_000
    rig.assert_empty()
