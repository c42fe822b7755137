"""Answers that are complete before the provider has read the request."""

from __future__ import annotations

from tests.fixtures.http2_ends import WINDOW
from tests.fixtures.triple_rig import connected


def test_what_waits_for_the_providers_window_is_given_up_with_the_answer():
    rig, consumer, (provider,) = connected(20880)
    provider.reads = False
    asked = consumer.ask(body=b"x" * 3 * WINDOW)
    rig.settle()
    stream = provider.request()
    assert len(stream.body) == WINDOW
    provider.answer(stream)
    rig.settle()
    assert asked.status == 0
    assert stream.reset == 0
    rig.assert_empty()


def test_an_answer_to_a_request_that_was_taken_resets_nothing():
    rig, consumer, (provider,) = connected(20880)
    asked = consumer.ask(body=b"hi")
    rig.settle()
    stream = provider.request()
    provider.answer(stream)
    rig.settle()
    assert asked.status == 0
    assert stream.reset is None
    rig.assert_empty()
