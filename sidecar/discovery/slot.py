"""What discovery asks a registry to watch."""

from __future__ import annotations

from typing import Final, NamedTuple

PROVIDERS: Final = "providers"
CONFIGURATORS: Final = "configurators"
ROUTERS: Final = "routers"
RULE: Final = "rule"
CATEGORIES: Final = (PROVIDERS, CONFIGURATORS, ROUTERS)  # Dubbo's categories of an interface


class Slot(NamedTuple):
    """One list or one text of a registry.

    ``kind`` is a category and ``name`` an interface, or ``kind`` is RULE and ``name`` is that of a
    rule node, such as ``greeter.tag-router``.
    """

    kind: str
    name: str
