"""Time limit and idempotency of a call: what consumer, provider and configuration say of it."""

from __future__ import annotations

from typing import Final, final

from sidecar.model.instance import Instance
from sidecar.model.service import ServiceKey
from sidecar.proxy.downstream import Call
from sidecar.settings.schema import Settings

# The end of a call that nobody limits. Consumers of Dubbo 2.7 send no limit, stop waiting after one
# of their own and do not say so: the calls to a provider that hangs would count against what their
# consumer may have in flight until it restarts.
LONGEST_MS: Final = 10 * 60 * 1000


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

    def apply(self, call: Call, service: str, instance: Instance) -> int:
        """Mark the call if it may be sent twice; return its time limit in ms, never 0.

        The consumer's own limit counts first, since it stops waiting then; next the one the
        provider has registered for the method or the service; last the configured one.
        """
        policy = self._general
        if self._of_services:
            policy = self._of_services.get(service, policy)
            call.is_idempotent = call.head.method in policy.idempotent
        if call.head.timeout_ms > 0:
            return call.head.timeout_ms
        of_methods = instance.method_timeouts
        if of_methods is not None:
            of_method = of_methods.get(call.head.method, 0)
            if of_method > 0:
                return of_method
        if instance.timeout_ms > 0:
            return instance.timeout_ms
        return policy.timeout_ms if policy.timeout_ms > 0 else LONGEST_MS
