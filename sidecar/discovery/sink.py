"""Who is told what discovery found out."""

from __future__ import annotations

from typing import Protocol

from sidecar.model.instance import Instance
from sidecar.model.service import ServiceKey
from sidecar.routing.snapshot import ServiceSnapshot


class Sink(Protocol):
    """Receives the results. Each call is complete: nothing has to be asked back."""

    def publish(self, key: ServiceKey, snapshot: ServiceSnapshot) -> None:
        """The service has this list from now on, be it an empty one."""

    def fail(self, key: ServiceKey, reason: str) -> None:
        """The service has no list, and this reason token says why; a list may come later."""

    def addresses_changed(self, protocol: int, gone: list[str], added: list[Instance]) -> None:
        """Nobody speaks the protocol at ``gone`` any more; ``added`` were registered (again).

        Told for each protocol apart: an instance that speaks both is in both.
        """
