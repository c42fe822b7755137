"""Session tables of Dubbo connections: which call waits for which id.

Ids of different consumers collide (dubbo-go counts from 0 in every process, Java from a random
number), so each connection towards a provider numbers its calls itself and the consumer's eight
bytes are put back into the reply. A reply for an id nobody waits for is legal: providers answer
late, and Java providers answer even one-way calls they cannot decode.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar, final

T = TypeVar("T")

# Calls without a deadline to a provider that never answers would pile up for ever: this is the end.
MAX_PENDING: Final = 65_536


@final
class ClientSession(Generic[T]):
    """Calls on one connection to a provider, by the eight id bytes given to each."""

    def __init__(self, limit: int = MAX_PENDING) -> None:
        self._limit: Final = limit
        self._pending: Final[dict[bytes, T]] = {}
        self._issued = 0

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def is_full(self) -> bool:
        """Whether no further call may be admitted."""
        return len(self._pending) >= self._limit

    def next_id(self) -> bytes:
        """Return a new id of eight bytes that no call waits for."""
        self._issued += 1
        return self._issued.to_bytes(8, "big")

    def admit(self, call: T) -> bytes:
        """Remember a call under a new id and return the id."""
        id8 = self.next_id()
        self._pending[id8] = call
        return id8

    def take(self, id8: bytes) -> T | None:
        """Hand out and forget the call that waits for an id."""
        call = self._pending.get(id8)
        if call is not None:
            del self._pending[id8]
        return call

    def has_issued(self, id8: bytes) -> bool:
        """Tell a late reply (its call is over) from one that was never asked for."""
        return 0 < int.from_bytes(id8, "big") <= self._issued

    def take_all(self) -> list[T]:
        """Hand out and forget every call, oldest first."""
        calls = list(self._pending.values())
        self._pending.clear()
        return calls


@final
class ServerSession(Generic[T]):
    """Two-way calls in flight for one consumer."""

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self.calls: Final[set[T]] = set()

    def __len__(self) -> int:
        return len(self.calls)

    def admit(self, call: T) -> bool:
        """Remember a call; False when the consumer has too many in flight already."""
        if len(self.calls) >= self._limit:
            return False
        self.calls.add(call)
        return True

    def release(self, call: T) -> None:
        """Forget a finished call; nothing happens when it was never admitted."""
        self.calls.discard(call)

    def take_all(self) -> list[T]:
        """Hand out and forget every call."""
        calls = list(self.calls)
        self.calls.clear()
        return calls
