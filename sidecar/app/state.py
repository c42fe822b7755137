"""What the admin server shows: the state of every ring in the words of the admin interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from sidecar.admin.metrics import Exposition
from sidecar.app.facts import facts
from sidecar.balance.pool import DRAINING
from sidecar.dispatch.directory import Directory, Service
from sidecar.dispatch.explain import explain
from sidecar.model.instance import Instance
from sidecar.model.protocol import DUBBO, NAMES, TRIPLE, names_of
from sidecar.model.service import ServiceKey
from sidecar.protocol.dubbo.attachments import FORCE_TAG, SERVICE_TAG, TAG
from sidecar.proxy.plane import DataPlane
from sidecar.registry.driver import RegistryDriver
from sidecar.routing.router import Call
from sidecar.settings.schema import Settings
from sidecar.telemetry.counters import Counters
from sidecar.telemetry.log import timestamp


@final
class ProgramState:
    """Implements the admin server's `AdminState`."""

    def __init__(
        self,
        settings: Settings,
        directory: Directory,
        driver: RegistryDriver,
        plane: DataPlane,
        counters: Counters,
        drain: Callable[[], None],
    ) -> None:
        self._settings: Final = settings
        self._directory: Final = directory
        self._driver: Final = driver
        self._plane: Final = plane
        self._drain: Final = drain
        self._exposition: Final = Exposition(
            counters,
            lambda: facts(directory, plane, driver.stats, driver.unresolved(), self.is_draining),
        )
        self.is_listening = False
        self.is_draining = False

    def readiness(self) -> dict[str, Any]:
        """Return ``ready`` and what it depends on; registries by whether they are connected.

        Preloaded services without a list count only when a registry is required; else their first
        calls wait for it.
        """
        missing = self._driver.unready()
        return {
            "ready": self.is_listening and not self.is_draining and not missing,
            "listening": self.is_listening,
            "draining": self.is_draining,
            "services_without_list": missing,
            "registries": {name: bool(each.connected) for name, each in self._driver.stats.items()},
        }

    def services(self) -> list[dict[str, Any]]:
        """Return one summary per watched service."""
        return [_summary(service) for service in self._directory.services()]

    def service(self, key: str, limit: int) -> dict[str, Any] | None:
        """Return a service with up to ``limit`` of its instances; None when it is not watched."""
        service = self._find(key)
        if service is None:
            return None
        shown: list[dict[str, Any]] = []
        if service.plan is not None:
            snapshot = service.plan.snapshot
            for number, _ in zip(snapshot.members, range(limit), strict=False):
                instance = snapshot.instances[number]
                if instance is not None:
                    shown.append(self._instance(instance))
        view = self._driver.service(service.key)
        return {**_summary(service), "discovery": view, "instances_shown": shown}

    def registries(self) -> list[dict[str, Any]]:
        """Return the state of each registry."""
        return self._driver.registries()

    def rules(self) -> list[dict[str, Any]]:
        """Return the rules that exist, and why one is not used."""
        return self._driver.rules()

    def explain(
        self, key: str, method: str, attachments: dict[str, str], protocol: str
    ) -> dict[str, Any] | None:
        """Return the walk of a call that is not sent; None when the service is not watched."""
        service = self._find(key)
        if service is None:
            return None
        call = Call(
            attachments.get(TAG, "") or self._settings.consumer.tag,
            attachments.get(FORCE_TAG, "").lower() == "true",
            attachments.get(SERVICE_TAG, ""),
        )
        bit = _protocol(service, protocol)
        return explain(service, call, method, self._plane.unavailable(bit), bit)

    def drain(self) -> None:
        """Begin the end of the process."""
        self._drain()

    async def metrics(self) -> bytes:
        """Return the metrics page."""
        return await self._exposition.render()

    def _find(self, text: str) -> Service | None:
        try:
            return self._directory.find(ServiceKey.parse(text).text)
        except ValueError:
            return None

    def _instance(self, instance: Instance) -> dict[str, Any]:
        state = max(
            self._plane.unavailable(protocol).get(instance.address, 0)
            for protocol in NAMES
            if instance.protocols & protocol
        )
        words = {0: "available", DRAINING: "draining"}
        started = timestamp(instance.started_ms / 1000) if instance.started_ms else None
        return {
            "address": instance.address,
            "protocols": names_of(instance.protocols),
            "application": instance.application,
            "group": instance.group,
            "version": instance.version,
            "tag": instance.tag,
            "weight": instance.weight,
            "location": instance.parameters.get(self._settings.routing.nearby.key, ""),
            "started": started,
            "state": words.get(state, "backing off"),
        }


def _protocol(service: Service, name: str) -> int:
    """Return the protocol of this name; of none, Dubbo unless only the other one is spoken."""
    if name:
        return TRIPLE if name == NAMES[TRIPLE] else DUBBO
    snapshot = service.plan.snapshot if service.plan is not None else None
    only_triple = snapshot is not None and snapshot.members and not snapshot.dubbo.members
    return TRIPLE if only_triple else DUBBO


def _summary(service: Service) -> dict[str, Any]:
    snapshot = service.plan.snapshot if service.plan is not None else None
    return {
        "service": service.key.text,
        "epoch": snapshot.epoch if snapshot is not None else 0,
        "instances": len(snapshot.members) if snapshot is not None else 0,
        "reason": service.failure or (snapshot.empty_reason if snapshot is not None else ""),
        "last_used": timestamp(service.last_used / 1000) if service.last_used else None,
    }
