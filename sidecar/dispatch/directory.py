"""The services that calls can be sent to, each with the plan that is current.

One writer, the discovery engine, on the thread that also decides calls: a publish is one
assignment, and a call holds the plan that it started with.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.dispatch.plan import Plan
from sidecar.model.service import ServiceKey
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.telemetry.counters import UNKNOWN_SERVICE_LABEL, Counters


@final
class Service:
    """One service that a consumer or the configuration named.

    ``plan`` is None before the first publish; then ``failure`` says why, and ``""`` means that the
    answer is still awaited. ``last_used`` is the time of the last decision in milliseconds.
    ``stats_label`` names the service in metrics; it is ``_unknown`` until the service had an
    instance, because consumers choose the names that they ask for.
    """

    def __init__(self, key: ServiceKey, counters: Counters, is_named: bool) -> None:
        self.key: Final = key
        self.counters: Final = counters
        self.plan: Plan | None = None
        self.failure = ""
        self.last_used = 0
        self.stats_label = key.text if is_named else UNKNOWN_SERVICE_LABEL


@final
class Directory:
    """Service text to Service, for at most ``max_services``."""

    def __init__(self, counters: Counters, max_services: int) -> None:
        self._counters: Final = counters
        self._max_services: Final = max_services
        self._services: Final[dict[str, Service]] = {}

    def find(self, service_text: str) -> Service | None:
        """Return the service of the text of a ``ServiceKey``."""
        return self._services.get(service_text)

    def services(self) -> list[Service]:
        """Return all services, in the order in which they were added."""
        return list(self._services.values())

    def add(self, key: ServiceKey, is_named: bool = False) -> Service | None:
        """Return the service of a key, made if need be; None when the directory is full.

        ``is_named`` is for services that the configuration names: they have their own label.
        """
        service = self._services.get(key.text)
        if service is None:
            if len(self._services) >= self._max_services:
                return None
            service = Service(key, self._counters, is_named)
            self._services[key.text] = service
        elif is_named:
            service.stats_label = key.text
        return service

    def publish(self, key: ServiceKey, snapshot: ServiceSnapshot) -> None:
        """Make a snapshot current; a service that was removed meanwhile stays removed.

        A snapshot of the same epoch and chain routes as the one before, so its pools are kept.
        """
        service = self._services.get(key.text)
        if service is None:
            return
        service.failure = ""
        if snapshot.members:
            service.stats_label = key.text
        plan = service.plan
        if plan is None or not plan.adopt(snapshot):
            service.plan = Plan(snapshot, self._counters)

    def fail(self, key: ServiceKey, reason: str) -> None:
        """Say why a service has no plan; a plan that it has stays in use."""
        service = self._services.get(key.text)
        if service is not None:
            service.failure = reason

    def remove(self, key: ServiceKey) -> None:
        """Forget a service; decisions that are under way keep what they hold."""
        self._services.pop(key.text, None)
