"""What a consumer can do too much of on one HTTP/2 connection: it is ended, and nobody else hurt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sidecar.protocol.http2 import codes
from sidecar.settings.schema import Http2, Limits
from sidecar.telemetry import names
from tests.fixtures import http2_peers as frames
from tests.fixtures.h2_peer import REPLY, Consumer, Provider
from tests.fixtures.http2_peers import frame, open_stream

BUDGET = 200


async def pairs(consumer: Consumer, count: int) -> int:
    """Open and reset so many streams as fast as the other end takes it; return how many went."""
    cancel = codes.CANCEL.to_bytes(4, "big")
    sent = 0
    while sent < count and not consumer.is_closed:
        batch = b"".join(
            open_stream(stream_id, frames.END_HEADERS)
            + frame(frames.RST_STREAM, 0, stream_id, cancel)
            for stream_id in range(2 * sent + 1, 2 * (sent + 200) + 1, 2)
        )
        consumer.send(batch)
        sent += 200
        await asyncio.sleep(0)
    return sent


async def test_fc_65_a_reset_storm(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    provider.is_mute = True
    consumer = await h2_world.h2_serve(provider)
    await pairs(consumer, 20_000)
    await consumer.gone()
    assert consumer.goaways[-1][1] == codes.ENHANCE_YOUR_CALM
    await h2_world.at_rest()
    assert h2_world.count(names.CONSUMERS_CLOSED.name, "resets") == 1
    assert len(provider.calls) <= BUDGET + 10
    assert all(each.reset == codes.CANCEL for each in provider.calls)
