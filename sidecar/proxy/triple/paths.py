"""Services of paths that do not name them, or not wholly: REST methods, names without version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from sidecar.model.service import ServiceKey

# Providers look a service up under this version when the call names none (Dubbo's
# TriplePathResolver), so consumers may leave it out.
USUAL_VERSION: Final = "1.0.0"


def usual_name(key: ServiceKey) -> str:
    """Return the text of a service that was named without a version, under the usual one."""
    return ServiceKey(key.interface, USUAL_VERSION, key.group).text


@final
class Paths:
    """What a listener knows of paths that do not name their service.

    ``by_prefix`` maps prefixes to service texts, of which the longest that fits counts. A service
    without group and version is looked for under those of the request.
    """

    def __init__(self, by_prefix: Mapping[str, str], default_service: str) -> None:
        self._by_prefix: Final = sorted(
            [(prefix, ServiceKey.parse(service)) for prefix, service in by_prefix.items()],
            key=_length,
            reverse=True,
        )
        self.default_service: Final = (
            ServiceKey.parse(default_service).text if default_service else ""
        )

    def find(self, path: str, version: str, group: str) -> str:
        """Return the service of a path, "" when none is configured for it."""
        for prefix, service in self._by_prefix:
            if path.startswith(prefix):
                if service.version or service.group or not (version or group):
                    return service.text
                return ServiceKey(service.interface, version, group).text
        return ""


def _length(pair: tuple[str, ServiceKey]) -> int:
    return len(pair[0])
