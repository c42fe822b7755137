"""Time limit and idempotency of a call: what consumer, provider and configuration say of it."""

from __future__ import annotations

from typing import Final, final

from sidecar.model.instance import Instance
from sidecar.model.service import ServiceKey
from sidecar.settings.schema import Settings


@final
class CallPolicy:
    """What the configuration says of the calls of one service; 0 ms is no limit."""

    def __init__(self, timeout_ms: int, idempotent: list[str]) -> None:
        self.timeout_ms: Final = timeout_ms
        self.idempotent: Final = frozenset(idempotent)


@final
class CallPolicies:
    """Policies by service key, and the one of all other services."""

    def __init__(self, settings: Settings) -> None:
        general_ms = int(settings.timeouts.call * 1000)
        self._general: Final = CallPolicy(general_ms, [])
        self._of_services: Final[dict[str, CallPolicy]] = {}
        for text, override in settings.services.overrides.items():
            timeout = override.timeout
            timeout_ms = general_ms if timeout is None else int(timeout * 1000)
            policy = CallPolicy(timeout_ms, override.idempotent)
            self._of_services[ServiceKey.parse(text).text] = policy

    def is_idempotent(self, service: str, method: str) -> bool:
        """Whether a method may be sent again after a lost connection."""
        policy = self._of_services.get(service) if self._of_services else None
        return policy is not None and method in policy.idempotent

    def limit_ms(self, service: str, method: str, instance: Instance) -> int:
        """Return the time limit in ms of a call whose consumer has set none; 0 is no limit.

        What the provider has registered for the method or the service counts before what is
        configured.
        """
        of_methods = instance.method_timeouts
        if of_methods is not None:
            of_method = of_methods.get(method, 0)
            if of_method > 0:
                return of_method
        return instance.timeout_ms if instance.timeout_ms > 0 else self.configured_ms(service)

    def configured_ms(self, service: str) -> int:
        """Return the configured time limit of a service in ms; 0 is no limit."""
        policy = self._general
        if self._of_services:
            policy = self._of_services.get(service, policy)
        return policy.timeout_ms
