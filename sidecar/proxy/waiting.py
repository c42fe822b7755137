"""Calls that wait for the first list of a service that was not watched before."""

from __future__ import annotations

from typing import Final, Generic, TypeVar, final

from sidecar.proxy.call import Call

# What calls hold that wait for a registry; with the cap on their number it bounds the memory that
# calls to services nobody provides can take.
MAX_WAITING_BYTES: Final = 32 * 1024 * 1024

C = TypeVar("C", bound=Call)


@final
class WaitingCalls(Generic[C]):
    """Waiting calls by service, capped by number and by bytes over all services."""

    def __init__(self, max_calls: int, max_bytes: int = MAX_WAITING_BYTES) -> None:
        self._max_calls: Final = max_calls
        self._max_bytes: Final = max_bytes
        self._calls: Final[dict[str, dict[C, int]]] = {}  # with the size of each, oldest first
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._count

    def add(self, service: str, call: C) -> bool:
        """Let a call wait; False when too many wait already."""
        size = call.held_bytes
        if self._count >= self._max_calls or self._bytes + size > self._max_bytes:
            return False
        self._calls.setdefault(service, {})[call] = size
        self._count += 1
        self._bytes += size
        return True

    def remove(self, service: str, call: C) -> bool:
        """Forget a call; False when it does not wait."""
        calls = self._calls.get(service)
        if calls is None or call not in calls:
            return False
        self._count -= 1
        self._bytes -= calls.pop(call)
        if not calls:
            del self._calls[service]
        return True

    def take(self, service: str) -> list[C]:
        """Hand out and forget the calls that wait for a service, oldest first."""
        calls = self._calls.pop(service, None)
        if calls is None:
            return []
        self._count -= len(calls)
        self._bytes -= sum(calls.values())
        return list(calls)
