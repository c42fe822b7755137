"""From the threads of a client library into the event loop: one wake-up per batch."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, final

T = TypeVar("T")


@final
class Bridge(Generic[T]):
    """Hands items to ``take`` in the loop, in the order in which they were put.

    A burst of items costs one wake-up of the loop, not one for each: the first one schedules the
    delivery, and those that come before it happens are delivered with it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[list[T]], Any]) -> None:
        self._loop: Final = loop
        self._take: Final = take
        self._items: Final[deque[T]] = deque()
        self._is_scheduled = False
        self._is_closed = False

    def put(self, item: T) -> None:
        """Pass an item on; may be called in any thread and never blocks."""
        self._items.append(item)
        # Safe without a lock: the delivery clears the mark before it looks for items, so an item
        # that is put when the mark is still seen is there when the delivery looks.
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._deliver)

    def close(self) -> None:
        """Deliver nothing more."""
        self._is_closed = True
        self._items.clear()

    def _deliver(self) -> None:
        self._is_scheduled = False
        items: list[T] = []
        while self._items:
            items.append(self._items.popleft())
        if items and not self._is_closed:
            self._take(items)
