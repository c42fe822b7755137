"""All call deadlines behind one timer: a wheel of time slots, each a doubly linked list.

Filing and removing a call are a few pointer assignments, so a call that is answered leaves nothing
behind: at 100,000 calls a second with a patient deadline, lists that are cleaned lazily would keep
as many finished calls in memory. A deadline beyond the horizon waits in the last slot and is filed
again when that slot comes round. Nothing fires early; firing is late by at most one slot.

Time is an argument: whole milliseconds of any monotonic clock.
"""

from __future__ import annotations

from typing import Final, final

# Below what a caller notices in a time-out, above what would wake the loop all the time.
SLOT_MS: Final = 16
SLOTS: Final = 64  # a horizon of about one second, the usual Dubbo time-out
NEVER: Final = -1


class Timed:
    """Something with a deadline; ``due_ms`` is read when it is filed and must not change after."""

    def __init__(self) -> None:
        self.due_ms: int = 0
        self._next: Timed | None = None
        self._previous: Timed | None = None

    @property
    def is_filed(self) -> bool:
        """Whether a wheel holds it."""
        return self._next is not None


def _empty_slots() -> list[Timed]:
    slots: list[Timed] = []
    for _ in range(SLOTS):
        sentinel = Timed()
        sentinel._next = sentinel
        sentinel._previous = sentinel
        slots.append(sentinel)
    return slots


@final
class DeadlineWheel:
    """Filed deadlines. ``wake_ms`` is when ``expire`` has to be called next, or NEVER."""

    def __init__(self) -> None:
        self._slots: Final[list[Timed]] = _empty_slots()
        self._tick = 0  # everything due in this slot or before has fired
        self._count = 0
        self.wake_ms = NEVER

    def __len__(self) -> int:
        return self._count

    def add(self, item: Timed, now_ms: int) -> None:
        """File an item that is not filed; one that is due already fires with the next slot."""
        if self._count == 0:
            self._tick = now_ms // SLOT_MS
            self.wake_ms = NEVER
        self._count += 1
        self._file(item)

    def _file(self, item: Timed) -> None:
        tick = item.due_ms // SLOT_MS + 1
        if tick <= self._tick:
            tick = self._tick + 1
        elif tick >= self._tick + SLOTS:
            tick = self._tick + SLOTS - 1
        sentinel = self._slots[tick % SLOTS]
        last = sentinel._previous
        assert last is not None  # noqa: S101 - lists are circular; mypyc needs to know
        item._previous = last
        item._next = sentinel
        last._next = item
        sentinel._previous = item
        wake_ms = tick * SLOT_MS
        if self.wake_ms == NEVER or wake_ms < self.wake_ms:
            self.wake_ms = wake_ms

    def remove(self, item: Timed) -> None:
        """Forget an item; nothing happens when it is not filed."""
        following = item._next
        previous = item._previous
        if following is None or previous is None:
            return
        previous._next = following
        following._previous = previous
        item._next = None
        item._previous = None
        self._count -= 1

    def expire(self, now_ms: int) -> list[Timed]:
        """Take out and return what is due, oldest slot first, and set ``wake_ms`` anew."""
        expired: list[Timed] = []
        waiting: list[Timed] = []
        target = now_ms // SLOT_MS
        first = max(self._tick + 1, target - SLOTS + 1)  # a stalled loop visits each slot once
        for tick in range(first, target + 1):
            self._empty_slot(self._slots[tick % SLOTS], now_ms, expired, waiting)
        if target > self._tick:
            self._tick = target
        self.wake_ms = NEVER
        for item in waiting:
            self._count += 1
            self._file(item)
        self._find_wake()
        return expired

    def _empty_slot(
        self, sentinel: Timed, now_ms: int, expired: list[Timed], waiting: list[Timed]
    ) -> None:
        item = sentinel._next
        while item is not None and item is not sentinel:
            following = item._next
            self.remove(item)
            if item.due_ms <= now_ms:
                expired.append(item)
            else:
                waiting.append(item)
            item = following

    def _find_wake(self) -> None:
        if self._count == 0:
            return
        tick = self._tick + 1
        sentinel = self._slots[tick % SLOTS]
        while sentinel._next is sentinel:  # ends: what is counted is in one of the slots
            tick += 1
            sentinel = self._slots[tick % SLOTS]
        self.wake_ms = tick * SLOT_MS
