"""Where ZooKeeper keeps what discovery asks for."""

from __future__ import annotations

from typing import Final, final
from urllib.parse import quote_plus

from sidecar.discovery.slot import RULE, Slot

_CONFIG: Final = "config/dubbo"  # Dubbo's configuration centre: <namespace>/config/<group>


@final
class Paths:
    """The nodes below one root.

    Interfaces are at ``<root>/<interface>/<category>`` with the interface form-encoded, which
    matters for ``$`` only. Rules are at ``<root>/config/dubbo/<name>``: Dubbo uses a registry's
    root as the namespace of its configuration centre unless told otherwise.
    """

    def __init__(self, root: str) -> None:
        self._root: Final = root.rstrip("/")

    def path_of(self, slot: Slot) -> str:
        """Return the node of a slot."""
        if slot.kind == RULE:
            return f"{self._root}/{_CONFIG}/{slot.name}"
        interface = quote_plus(slot.name, safe="*").replace("~", "%7E")
        return f"{self._root}/{interface}/{slot.kind}"
