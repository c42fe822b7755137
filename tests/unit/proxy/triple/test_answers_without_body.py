"""Answers, or parts of them, that have no body: refusals of HEAD, heads of status 1xx."""

from __future__ import annotations

from sidecar.proxy.triple.exchange import MAX_INFORMED
from tests.fixtures.triple_rig import Rig, connected

EARLY_HINTS = [(b":status", b"103"), (b"link", b"</style.css>")]


def test_a_head_request_is_refused_without_a_body():
    rig = Rig()
    consumer = rig.consumer()
    asked = consumer.ask("/x", method="HEAD", kind="application/json", version="")
    rig.settle()
    assert asked.http_status == 404
    assert asked.is_ended
    assert asked.body == b""
    assert asked.reset is None
    rig.assert_empty()


def test_a_provider_cannot_fill_the_memory_with_informational_heads():
    rig, consumer, (provider,) = connected(20880)
    asked = consumer.ask()
    rig.settle()
    stream = provider.request()
    consumer.transport.is_stuck = True
    for _ in range(10 * MAX_INFORMED):
        provider.inform(stream, EARLY_HINTS)
        provider.push()
    consumer.transport.is_stuck = False
    provider.answer(stream)
    rig.settle()
    assert len(asked.informational) == MAX_INFORMED
    assert asked.status == 0
    rig.assert_empty()
