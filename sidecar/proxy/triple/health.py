"""gRPC's health service, answered here for the services that the sidecar knows.

A provider that is asked would speak for itself alone; what a consumer wants to know is whether its
calls can be answered. ``Check`` is answered once, ``Watch`` now and after each change. A service
that is asked about is watched like one that is called.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.dispatch.directory import Directory
from sidecar.protocol.triple import health
from sidecar.proxy.triple.exchange import ProviderSide, TripleCall
from sidecar.proxy.triple.settlement import TripleSettlement

WATCH: Final = "Watch"
METHODS: Final = ("Check", WATCH)


@final
class HealthDesk(ProviderSide):
    """Answers health calls as a provider would; ``watchers`` are the open ones by service."""

    def __init__(self, directory: Directory, settlement: TripleSettlement) -> None:
        self._directory: Final = directory
        self._settlement: Final = settlement
        self._readers: Final[dict[TripleCall, health.MessageReader]] = {}
        self._watchers: Final[dict[str, dict[TripleCall, int]]] = {}  # with what was said last

    def __len__(self) -> int:
        return len(self._readers) + sum(len(calls) for calls in self._watchers.values())
