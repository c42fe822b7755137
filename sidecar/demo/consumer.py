"""The sample consumers: one connection to the sidecar each, calls in flight together."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from typing import Final, NamedTuple, final

from sidecar.demo.streams import GreeterClient
from sidecar.demo.wire import MAX_PAYLOAD, greet_request, reply_text
from sidecar.protocol.dubbo.frame import FrameReader

CALL_LIMIT: Final = 5.0  # seconds for one batch of calls
CHUNK: Final = 64 * 1024


class Tally(NamedTuple):
    """How a number of calls ended."""

    answered: Counter[str]  # by the name of the instance
    failures: list[str]


class Consumer(ABC):
    """Calls ``greet`` through one address, over whatever protocol."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._tally = Tally(Counter(), [])

    async def call(self, count: int, tag: str = "") -> Tally:
        """Make calls, 20 in flight at a time, and count who answered."""
        self._tally = Tally(Counter(), [])
        while count > 0:
            batch = min(count, 20)
            count -= batch
            try:
                async with asyncio.timeout(CALL_LIMIT):
                    await self._call_together(batch, tag)
            except (TimeoutError, OSError) as error:
                self._tally.failures.append(f"no answer: {error or 'time is up'}")
                await self.close()
        return self._tally

    @abstractmethod
    def _restart(self) -> None:
        """Begin anew on a fresh connection."""

    @abstractmethod
    def _requests(self, count: int, tag: str) -> bytes:
        """Return the bytes of calls."""

    @abstractmethod
    def _answers(self, data: bytes) -> bytes:
        """Note answers among what was read, and return what is to be written."""

    async def _call_together(self, count: int, tag: str) -> None:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
            self._restart()
        self._writer.write(self._requests(count, tag))
        awaited = self._counted + count
        while self._counted < awaited:
            data = await self._reader.read(CHUNK)
            if not data:
                raise ConnectionResetError("the sidecar closed the connection")
            self._writer.write(self._answers(data))

    @property
    def _counted(self) -> int:
        return self._tally.answered.total() + len(self._tally.failures)

    def _count(self, is_greeting: bool, text: str) -> None:
        if is_greeting:
            self._tally.answered[text.rpartition(" ")[2]] += 1
        else:
            self._tally.failures.append(text)

    async def close(self) -> None:
        """Leave."""
        writer, self._reader, self._writer = self._writer, None, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):  # the sidecar was quicker
                await writer.wait_closed()


@final
class DubboConsumer(Consumer):
    """Calls over Dubbo TCP."""

    def _restart(self) -> None:
        self._frames = FrameReader(MAX_PAYLOAD)
        self._next = 1

    def _requests(self, count: int, tag: str) -> bytes:
        first = self._next
        self._next += count
        return b"".join(greet_request(number, "demo", tag) for number in range(first, self._next))

    def _answers(self, data: bytes) -> bytes:
        for frame in self._frames.feed(data):
            self._count(*reply_text(frame))
        return b""


@final
class TripleConsumer(Consumer):
    """Calls as a gRPC client does."""

    def _restart(self) -> None:
        self._client = GreeterClient("greeter.example", self._count)

    def _requests(self, count: int, tag: str) -> bytes:
        for _ in range(count):
            self._client.call("demo", tag)
        return self._client.take()

    def _answers(self, data: bytes) -> bytes:
        self._client.feed(data)
        return self._client.take()
