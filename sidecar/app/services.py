"""What discovery found out, handed to those who need it: the directory and the data plane."""

from __future__ import annotations

import logging
from typing import Final, final

from sidecar.dispatch.directory import Directory
from sidecar.model.instance import Instance
from sidecar.model.service import ServiceKey
from sidecar.proxy.plane import DataPlane
from sidecar.routing.snapshot import ServiceSnapshot

_log: Final = logging.getLogger(__name__)


@final
class WatchedServices:
    """Implements the registry driver's `Services`.

    ``plane`` is set once it is made: it needs the driver, and the driver needs this.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory: Final = directory
        self.plane: DataPlane | None = None

    def admit(self, key: ServiceKey, named: bool) -> bool:
        """Make room for a service; False when there are too many."""
        return self._directory.add(key, named) is not None

    def publish(self, key: ServiceKey, snapshot: ServiceSnapshot) -> None:
        """Make a snapshot current and let waiting calls go on."""
        service = self._directory.find(key.text)
        # Only what has instances: names without any may come from the wire, by the thousand.
        if service is not None and service.plan is None and snapshot.members:
            _log.info("service %s: %d instances known", key.text, len(snapshot.members))
        self._directory.publish(key, snapshot)
        self._wake(key)

    def fail(self, key: ServiceKey, reason: str) -> None:
        """Say why a service has no list and let waiting calls end with it."""
        self._directory.fail(key, reason)
        self._wake(key)

    def addresses_changed(self, protocol: int, gone: list[str], added: list[Instance]) -> None:
        """Let connections to addresses that left end, and wanted ones begin."""
        if self.plane is not None:
            self.plane.addresses_changed(gone, added, protocol)

    def remove(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._directory.remove(key)

    def last_used_ms(self, key: ServiceKey) -> int:
        """Return when the service was called last, in ms since the epoch; 0 is never."""
        service = self._directory.find(key.text)
        return service.last_used if service is not None else 0

    def _wake(self, key: ServiceKey) -> None:
        if self.plane is not None:
            self.plane.wake(key.text)
