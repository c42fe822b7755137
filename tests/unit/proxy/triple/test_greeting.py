"""A provider's connection is used when the provider's settings have come."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fixtures.triple_rig import Rig


def attempt() -> Any:
    """A connection that was just made, and the wait for its greeting."""
    rig = Rig()
    rig.publish(20880)
    rig.consumer().ask()
    rig.settle()
    end = rig.open(greets=False)
    wait = asyncio.get_running_loop().create_task(end.protocol.greeted())
    return rig, end, wait


async def test_settings_are_a_greeting() -> None:
    rig, end, wait = attempt()
    await asyncio.sleep(0)
    assert not wait.done()
    rig.settle()
    assert await wait == ""
    assert await end.protocol.greeted() == ""


async def test_settings_that_came_before() -> None:
    rig, _, wait = attempt()
    rig.settle()
    assert await wait == ""


@pytest.mark.parametrize(
    ("word", "data"),
    [("no HTTP/2 is spoken there", b"HTTP/1.1 400 Bad Request\r\n\r\n"), ("closed at once", b"")],
)
async def test_no_greeting(word: str, data: bytes) -> None:
    rig, end, wait = attempt()
    await asyncio.sleep(0)
    if data:
        end.protocol.data_received(data)
        rig.loop.turn()
    else:
        end.protocol.connection_lost(None)
    assert await wait == word
    assert await end.protocol.greeted() == word
