"""Calls that wait for a stream of a provider that allows few of them."""

from __future__ import annotations

import pytest

from tests.fixtures.http2_ends import ConsumerEnd, ProviderEnd
from tests.fixtures.triple_rig import Rig


@pytest.fixture
def narrow() -> tuple[Rig, ConsumerEnd, ProviderEnd]:
    """A provider that allows one stream, which a call has."""
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    consumer.ask()
    rig.settle()
    return rig, consumer, rig.open(max_streams=1)


def test_a_further_connection_that_fails_costs_no_call(narrow):
    rig, consumer, provider = narrow
    asked = consumer.ask()
    rig.settle()
    rig.refuse()
    assert rig.connects == []
    for _ in range(2):
        provider.answer(provider.request())
        rig.settle()
    assert asked.status == 0
    rig.assert_empty()


def test_further_connections_are_not_dialled_in_haste(narrow):
    rig, consumer, _ = narrow
    for _ in range(5):
        consumer.ask()
        rig.settle()
        if rig.connects:
            rig.refuse()
    assert rig.connects == []
    rig.advance(1.0)
    consumer.ask()
    rig.settle()
    assert len(rig.connects) == 1


def test_the_last_connection_is_dialled_at_once_although_further_ones_failed(narrow):
    rig, consumer, provider = narrow
    asked = consumer.ask()
    rig.settle()
    rig.refuse()
    provider.lose()
    rig.settle()
    provider = rig.open()
    provider.answer(provider.request())
    rig.settle()
    assert asked.status == 0


def test_calls_that_are_given_up_leave_their_place(narrow):
    rig, consumer, provider = narrow
    late = consumer.ask(grpc_timeout="100m")
    cancelled = consumer.ask(body=b"x" * 1000)
    waiting = consumer.ask()
    rig.settle()
    rig.advance(0.5)
    consumer.reset(cancelled)
    rig.settle()
    assert late.status == 4
    (endpoint,) = rig.pool.endpoints.values()
    assert endpoint.parked == 1
    for _ in range(2):
        provider.answer(provider.request())
        rig.settle()
    assert waiting.status == 0
    rig.assert_empty()
