"""Words and bytes of local replies."""

from __future__ import annotations

import pytest

from sidecar.proxy.dubbo.local_reply import (
    no_provider_reply,
    overload_reply,
    status_reply,
)
from tests.fixtures.dubbo_frames import Received

ID = bytes(range(8))


def test_a_status_reply_carries_one_hessian2_string():
    frame = Received(status_reply(ID, 31, "TIMEOUT", "s", "why"))
    assert (frame.status, frame.raw[4:12], frame.message) == (31, ID, "TIMEOUT s: why")


@pytest.mark.parametrize("serialization", [2, 23, 29])
def test_nothing_eligible_is_status_60(serialization):
    frame = Received(no_provider_reply(ID, serialization, "EMPTY_REGISTRY", "s", False))
    assert frame.status == 60
    assert frame.message == "EMPTY_REGISTRY s: the registry lists no instance that can be used"


def test_as_an_exception_for_hessian2_requests_only():
    frame = Received(no_provider_reply(ID, 2, "EMPTY_REGISTRY", "s", True))
    assert (frame.flags, frame.status, frame.raw[4:12]) == (2, 20, ID)
    assert frame.body[0] == 0x93
    assert b"EMPTY_REGISTRY s" in frame.body
    assert Received(no_provider_reply(ID, 23, "EMPTY_REGISTRY", "s", True)).status == 60


def test_an_overload_is_not_an_invitation_to_try_again():
    frame = Received(overload_reply(ID, 2, "s", "too many"))
    assert (frame.flags, frame.raw[4:12]) == (2, ID)
    assert frame.overload == "OVERLOADED s: too many"
    other = Received(overload_reply(ID, 23, "s", "too many"))
    assert (other.status, other.message) == (100, "OVERLOADED s: too many")


def test_a_reason_without_words_is_told_all_the_same():
    assert Received(no_provider_reply(ID, 2, "NEW_TOKEN", "s", False)).message.startswith("NEW_")
