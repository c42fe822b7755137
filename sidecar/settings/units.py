"""Durations and sizes as the configuration writes them: ``250ms``, ``1s``, ``10m``; ``8MiB``."""

from __future__ import annotations


class Duration(float):
    """A length of time in seconds."""

    __slots__ = ()


class Size(int):
    """A number of bytes."""
