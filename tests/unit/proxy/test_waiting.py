"""Calls that wait for the first list of their service."""

from __future__ import annotations

from sidecar.protocol.dubbo.frame import FrameReader
from sidecar.protocol.dubbo.message import RequestReader
from sidecar.proxy.dubbo.downstream import DubboCall
from sidecar.proxy.waiting import WaitingCalls
from tests.fixtures import dubbo_frames
from tests.fixtures.proxy_rig import Rig


def call(number=1, argument="bob"):
    (frame,) = FrameReader(10**6).feed(dubbo_frames.request(number, argument=argument))
    return DubboCall(Rig().consumer().protocol, frame, RequestReader().read(frame), 1000.0)


def test_hands_out_by_service_oldest_first():
    waiting = WaitingCalls(10)
    a1, b1, a2 = call(), call(), call()
    for service, each in (("a", a1), ("b", b1), ("a", a2)):
        assert waiting.add(service, each)
    assert len(waiting) == 3
    assert waiting.take("a") == [a1, a2]
    assert waiting.take("a") == []
    assert waiting.take("b") == [b1]
    assert len(waiting) == 0


def test_is_capped_by_number_over_all_services():
    waiting = WaitingCalls(2)
    first = call()
    assert waiting.add("a", first)
    assert waiting.add("b", call())
    assert not waiting.add("c", call())
    assert waiting.take("c") == []
    assert waiting.remove("a", first)
    assert waiting.add("c", call())


def test_is_capped_by_bytes():
    waiting = WaitingCalls(10, max_bytes=1000)
    big = call(argument="x" * 600)
    assert waiting.add("a", big)
    assert not waiting.add("a", call(argument="x" * 600))
    assert waiting.take("a") == [big]
    assert waiting.add("a", call(argument="x" * 600))


def test_removing_twice_or_what_never_waited():
    waiting = WaitingCalls(10)
    one, other = call(), call()
    waiting.add("a", one)
    assert not waiting.remove("a", other)
    assert not waiting.remove("b", one)
    assert waiting.remove("a", one)
    assert not waiting.remove("a", one)
    assert waiting.take("a") == []


def test_a_call_without_its_frame_weighs_nothing():
    waiting = WaitingCalls(10, max_bytes=0)
    each = call()
    each.frame = None
    assert waiting.add("a", each)
