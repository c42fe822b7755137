"""Protocols that consumers and instances speak, as bits of a set."""

from __future__ import annotations

from typing import Final

DUBBO: Final = 1  # Dubbo TCP
TRIPLE: Final = 2  # Triple and gRPC: HTTP/2
