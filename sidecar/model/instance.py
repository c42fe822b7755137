"""One provider instance: an address together with what its registration says about it."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import mypyc_attr

from sidecar.model.protocol import DUBBO

DEFAULT_WEIGHT: Final = 100
DEFAULT_WARMUP_MS: Final = 600_000
UNASSIGNED: Final = -1  # the id of an instance that no table has taken yet


@final
@mypyc_attr(acyclic=True)  # a full collection would visit 100,000 of them for 20 ms
class Instance:
    """One address that serves one service; immutable, replaced as a whole when it changes.

    ``id`` is dense and stable: the index of this instance in its interface's table, kept while the
    identity (address, group, version) stays registered. ``protocol`` is the scheme of the URL,
    ``protocols`` the set (``model.protocol``) of those that its port speaks. ``address`` is
    ``host:port`` with IPv6 hosts in brackets. ``parameters`` holds the registration's parameters
    without ``timestamp`` and ``pid``; equal parameter sets are one shared dict that nobody changes.
    Times are in milliseconds; ``started_ms`` is 0 when the start time is unknown.
    """

    def __init__(
        self,
        id: int,  # noqa: A002 - the word of the domain
        protocol: str,
        host: str,
        port: int,
        path: str,
        interface: str,
        version: str,
        group: str,
        application: str,
        tag: str,
        token: str,
        weight: int,
        started_ms: int,
        warmup_ms: int,
        timeout_ms: int,
        parameters: dict[str, str],
        method_weights: dict[str, int] | None = None,
        method_timeouts: dict[str, int] | None = None,
        protocols: int = DUBBO,
    ) -> None:
        self.id: Final = id
        self.protocol: Final = protocol
        self.host: Final = host
        self.port: Final = port
        self.address: Final = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.path: Final = path
        self.interface: Final = interface
        self.version: Final = version
        self.group: Final = group
        self.application: Final = application
        self.tag: Final = tag
        self.token: Final = token
        self.weight: Final = weight
        self.started_ms: Final = started_ms
        self.warmup_ms: Final = warmup_ms
        self.timeout_ms: Final = timeout_ms
        self.parameters: Final = parameters
        self.method_weights: Final = method_weights
        self.method_timeouts: Final = method_timeouts
        self.protocols: Final = protocols

    def with_id(self, id: int) -> Instance:  # noqa: A002
        """Return the same registration under another id."""
        return self._copy(id, self.protocols)

    def with_protocols(self, protocols: int) -> Instance:
        """Return the same registration for a port that speaks these protocols."""
        return self._copy(self.id, protocols)

    def _copy(self, id: int, protocols: int) -> Instance:  # noqa: A002
        return Instance(
            id, self.protocol, self.host, self.port, self.path, self.interface, self.version,
            self.group, self.application, self.tag, self.token, self.weight, self.started_ms,
            self.warmup_ms, self.timeout_ms, self.parameters, self.method_weights,
            self.method_timeouts, protocols,
        )  # fmt: skip

    def is_same(self, other: Instance) -> bool:
        """Tell whether both say the same in every field but the id."""
        return (
            self.protocol == other.protocol
            and self.protocols == other.protocols
            and self.address == other.address
            and self.path == other.path
            and self.interface == other.interface
            and self.version == other.version
            and self.group == other.group
            and self.application == other.application
            and self.tag == other.tag
            and self.token == other.token
            and self.weight == other.weight
            and self.started_ms == other.started_ms
            and self.warmup_ms == other.warmup_ms
            and self.timeout_ms == other.timeout_ms
            and self.parameters == other.parameters
            and self.method_weights == other.method_weights
            and self.method_timeouts == other.method_timeouts
        )

    def __repr__(self) -> str:
        return f"Instance({self.id} {self.protocol}://{self.address} {self.interface})"
