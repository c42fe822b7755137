"""What every call has, whatever its protocol: from its arrival until it is answered or given up."""

from __future__ import annotations

from typing import Final

from sidecar.dispatch.directory import Service
from sidecar.model.instance import Instance
from sidecar.resilience.deadlines import Timed
from sidecar.telemetry.counters import MethodStats


class Call(Timed):
    """One request of a consumer.

    ``service_name`` is the text of a ServiceKey. ``started`` is in seconds of a monotonic clock,
    ``due_ms`` in milliseconds of the same clock. ``asked_ms`` is how long the consumer
    waits, -1 when it does not say.
    """

    def __init__(self, service_name: str, method: str, asked_ms: int, started: float) -> None:
        super().__init__()
        self.service_name = service_name
        self.method: Final = method
        self.asked_ms: Final = asked_ms
        self.started: Final = started
        self.service: Service | None = None
        self.stats: MethodStats | None = None
        self.instance: Instance | None = None  # the choice of the attempt under way
        self.tried: list[str] | None = None  # addresses that failed this call
        self.has_overflowed = False
        self.is_done = False

    @property
    def is_awaited(self) -> bool:
        """Whether the consumer waits for an answer."""
        return True

    @property
    def held_bytes(self) -> int:
        """The bytes that are kept while the call cannot leave; 0 when there is nothing to send."""
        raise NotImplementedError

    def leave(self, address: str) -> None:
        """Note an address this call must not be given to again."""
        if self.tried is None:
            self.tried = [address]
        else:
            self.tried.append(address)
