"""What is held of requests that were sent, and for how long."""

from __future__ import annotations

import pytest

from sidecar.proxy.triple.exchange import JOINED, MAX_KEPT, keepable
from tests.fixtures.triple_rig import Rig, connected

KIB = 1024
REPLAY = 64 * KIB


@pytest.mark.parametrize(
    ("calls", "most"),
    [(0, REPLAY), (1, REPLAY), (256, REPLAY), (512, REPLAY // 2), (4096, 4 * KIB)],
)
def test_the_more_calls_there_are_the_less_is_kept_of_each(calls, most):
    assert keepable(REPLAY, calls) == most


def test_many_calls_together_keep_little():
    rig, consumer, _ = connected(20880)
    (downstream,) = rig.engine.consumers
    for _ in range(600):
        consumer.ask(body=b"x" * 16 * KIB, end=False)
        rig.settle()
    for stream in list(consumer.streams.values()):
        consumer.data(stream, b"x" * 16 * KIB)
        rig.settle()
    kept = sum(call.kept_bytes for call in downstream.calls.values())
    assert kept <= MAX_KEPT


def test_a_body_in_tiny_pieces_is_kept_in_larger_ones():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    asked = consumer.ask(end=False)
    rig.settle()
    body = b""
    for number in range(3000):
        piece = bytes([number % 256, 0])
        body += piece
        consumer.data(asked, piece)
        consumer.push()
    (downstream,) = rig.engine.consumers
    assert len(downstream.calls[asked.id].kept) <= 2 * len(body) // JOINED + 1
    provider = rig.open()
    stream = provider.request()
    assert stream.body == body
    consumer.data(asked, b"", end=True)
    rig.settle()
    provider.answer(stream)
    rig.settle()
    assert asked.status == 0
    rig.assert_empty()


def test_headers_are_forgotten_with_the_body():
    rig, consumer, (provider,) = connected(20880)
    consumer.ask()
    rig.settle()
    (downstream,) = rig.engine.consumers
    (call,) = downstream.calls.values()
    assert call.headers
    stream = provider.request()
    provider.head(stream)
    rig.settle()
    assert not call.headers
