"""``${NAME}`` and ``${NAME:-default}`` in values; ``$$`` stands for one ``$``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_REFERENCE: Final = re.compile(r"\$(?:\$|\{([^}]*)\}|(\{))")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return the text with its references replaced; raises ValueError when one cannot be."""

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        if match[2]:
            raise ValueError("'${' without a closing '}'")
        name, has_default, default = match[1].partition(":-")
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{match[0]!r} is not a reference; write ${{NAME}} or ${{NAME:-text}}")
        value = environ.get(name, "")
        if value or has_default:
            return value or default
        if name in environ:
            return ""
        raise ValueError(
            f"the environment variable {name} is not set and {match[0]} has no default"
        )

    return _REFERENCE.sub(replace, text)
