"""What kind of build is running."""

from __future__ import annotations

from sidecar.model import service


def build_kind() -> str:
    """Return ``compiled`` when the hot path runs as C, else ``pure``."""
    return "pure" if str(service.__file__).endswith(".py") else "compiled"
