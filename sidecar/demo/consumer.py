"""The sample consumer: one connection to the sidecar, calls in flight together."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Final, NamedTuple, final

from sidecar.demo.wire import MAX_PAYLOAD, greet_request, reply_text
from sidecar.protocol.dubbo.frame import FrameReader

CALL_LIMIT: Final = 5.0  # seconds for one batch of calls
CHUNK: Final = 64 * 1024


class Tally(NamedTuple):
    """How a number of calls ended."""

    answered: Counter[str]  # by the name of the instance
    failures: list[str]


@final
class Consumer:
    """Calls ``greet`` through one address."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._frames = FrameReader(MAX_PAYLOAD)
        self._next = 1
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def call(self, count: int, tag: str = "") -> Tally:
        """Make calls, 20 in flight at a time, and count who answered."""
        tally = Tally(Counter(), [])
        while count > 0:
            batch = min(count, 20)
            count -= batch
            try:
                async with asyncio.timeout(CALL_LIMIT):
                    await self._call_together(batch, tag, tally)
            except (TimeoutError, OSError) as error:
                tally.failures.append(f"no answer: {error or 'time is up'}")
                await self.close()
        return tally

    async def _call_together(self, count: int, tag: str, tally: Tally) -> None:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
        for _ in range(count):
            self._writer.write(greet_request(self._next, "demo", tag))
            self._next += 1
        while count > 0:
            data = await self._reader.read(CHUNK)
            if not data:
                raise ConnectionResetError("the sidecar closed the connection")
            for frame in self._frames.feed(data):
                count -= 1
                is_greeting, text = reply_text(frame)
                if is_greeting:
                    tally.answered[text.rpartition(" ")[2]] += 1
                else:
                    tally.failures.append(text)

    async def close(self) -> None:
        """Leave."""
        writer, self._reader, self._writer = self._writer, None, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):  # the sidecar was quicker
                await writer.wait_closed()
        self._frames = FrameReader(MAX_PAYLOAD)
