"""The composition root: the only ring that knows every other one, and the life of the process."""

from sidecar.app.program import serve

__all__ = ["serve"]
