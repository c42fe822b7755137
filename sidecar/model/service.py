"""Service identity: ``[group/]interface[:version]``, as Dubbo writes it.

On the wire and in the registry an absent version is written as nothing, as null, or as ``0.0.0``;
all three mean the same service here (Dubbo providers strip ``0.0.0`` when they build their key).
"""

from __future__ import annotations

from typing import Final, final

NO_VERSION: Final = "0.0.0"


@final
class ServiceKey:
    """One service as a consumer names it; an empty version or group means "none"."""

    def __init__(self, interface: str, version: str = "", group: str = "") -> None:
        self.interface: Final = interface
        self.version: Final = "" if version == NO_VERSION else version
        self.group: Final = group
        text = interface
        if self.version:
            text = text + ":" + self.version
        if group:
            text = group + "/" + text
        self.text: Final = text

    @staticmethod
    def parse(text: str) -> ServiceKey:
        """Read ``[group/]interface[:version]``; raises ValueError when there is no interface."""
        group, _, rest = text.rpartition("/")
        interface, _, version = rest.partition(":")
        if not interface or interface != interface.strip():
            raise ValueError(f"no interface name in {text!r}")
        return ServiceKey(interface, version, group)

    def rule_key(self) -> str:
        """Return ``interface:version:group`` with both colons, the form of rule node names."""
        return f"{self.interface}:{self.version}:{self.group}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServiceKey) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"ServiceKey({self.text})"
