"""What happened at one registry, in plain integers."""

from __future__ import annotations

from typing import Final, final


@final
class RegistryStats:
    """Counters of one registry since the start; ``connected`` is a state, 0 or 1.

    ``events`` are watch events that counted, ``reads`` answered requests, ``rows`` names received,
    ``parsed`` names that were new, ``refused`` names without an instance by reason, ``errors``
    failed requests by kind, ``resyncs`` connections after which everything was read again.
    """

    def __init__(self) -> None:
        self.connected = 0
        self.events = 0
        self.reads = 0
        self.rows = 0
        self.parsed = 0
        self.resyncs = 0
        self.refused: Final[dict[str, int]] = {}
        self.errors: Final[dict[str, int]] = {}

    def refuse(self, reason: str) -> None:
        """Count a name that gives no instance."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def fail(self, kind: str) -> None:
        """Count a request that failed."""
        self.errors[kind] = self.errors.get(kind, 0) + 1
