"""Reason tokens: first word of every local error text, label of a counter, last word of explain."""

from __future__ import annotations

from typing import Final

# Why no instance was eligible (the label of sidecar_no_eligible_total).
EMPTY_REGISTRY: Final = "EMPTY_REGISTRY"
UNKNOWN_SERVICE: Final = "UNKNOWN_SERVICE"
REGISTRY_UNAVAILABLE: Final = "REGISTRY_UNAVAILABLE"
REGISTRY_NOAUTH: Final = "REGISTRY_NOAUTH"
VERSION_MISMATCH: Final = "VERSION_MISMATCH"
GROUP_MISMATCH: Final = "GROUP_MISMATCH"
PROTOCOL_MISMATCH: Final = "PROTOCOL_MISMATCH"
TAG_FORCED_EMPTY: Final = "TAG_FORCED_EMPTY"
TAG_EMPTY: Final = "TAG_EMPTY"
NEARBY_FORCED_EMPTY: Final = "NEARBY_FORCED_EMPTY"
DISABLED: Final = "DISABLED"
ALL_DRAINED: Final = "ALL_DRAINED"
READONLY: Final = "READONLY"

# Why a call failed although an instance was eligible, or was not routed at all.
TIMEOUT: Final = "TIMEOUT"
CONNECT_FAILED: Final = "CONNECT_FAILED"
CONNECTION_LOST: Final = "CONNECTION_LOST"
OVERLOADED: Final = "OVERLOADED"
PAYLOAD_TOO_LARGE: Final = "PAYLOAD_TOO_LARGE"
BAD_REQUEST: Final = "BAD_REQUEST"
UNSUPPORTED: Final = "UNSUPPORTED"
SHUTTING_DOWN: Final = "SHUTTING_DOWN"
HEADERS_TOO_LARGE: Final = "HEADERS_TOO_LARGE"
BAD_RESPONSE: Final = "BAD_RESPONSE"
STREAM_RESET: Final = "STREAM_RESET"
UNKNOWN_PATH: Final = "UNKNOWN_PATH"
