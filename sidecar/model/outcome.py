"""How a call ended: the `outcome` label of the request metrics as small integers."""

from __future__ import annotations

from typing import Final

OK: Final = 0
BUSINESS_ERROR: Final = 1  # the provider's method threw; the instance is fine
PROVIDER_ERROR: Final = 2  # the provider answered with a status other than 20
TIMEOUT: Final = 3
NO_PROVIDER: Final = 4
REJECTED: Final = 5  # refused locally: overload, payload limit, shutting down
CODEC_ERROR: Final = 6
CONNECT_ERROR: Final = 7
CONNECTION_LOST: Final = 8
CANCELLED: Final = 9  # the consumer went away first

NAMES: Final = (
    "ok", "business_error", "provider_error", "timeout", "no_provider", "rejected",
    "codec_error", "connect_error", "connection_lost", "cancelled",
)  # fmt: skip
COUNT: Final = len(NAMES)
