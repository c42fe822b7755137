"""One scalar of the document to one typed value.

YAML guesses types, and its versions guess differently (``no``, ``0777``, ``12:30``). Here the type
comes from the schema, and a text that YAML could read as something else is refused with a hint, so
that the file means the same to every tool.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, Final

import yaml
from msgspec import inspect
from yaml.resolver import Resolver

from sidecar.settings.forms import FORMS
from sidecar.settings.later import is_later_value
from sidecar.settings.units import Duration, parse_duration, parse_size

_RESOLVER: Final = Resolver()
_YAML_KINDS: Final = {
    "bool": "a boolean", "int": "a number", "float": "a number", "null": "nothing",
    "timestamp": "a date", "merge": "a merge key", "value": "a default value",
}  # fmt: skip
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_LOOSE_INTEGER: Final = re.compile(r"[-+]?[0-9][0-9_]*")
_BOOLEAN_SPELLINGS: Final = {
    "y": "true", "yes": "true", "on": "true", "n": "false", "no": "false", "off": "false",
    "true": "true", "false": "false",
}  # fmt: skip


def yaml_kind(text: str) -> str:
    """Return what YAML 1.1 takes an unquoted text for; empty for a plain string."""
    tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return _YAML_KINDS.get(str(tag).rpartition(":")[2], "")


def read_scalar(text: str, is_plain: bool, kind: inspect.Type, rules: dict[str, Any]) -> object:
    """Return the value; raises ValueError with a plain sentence.

    ``rules`` may hold ``form``, ``may_be_empty``, ``is_positive`` and ``path`` (for texts that name
    a planned value). ``is_plain`` is False for quoted texts and for texts from the environment.
    """
    if is_plain and yaml_kind(text) == "nothing":
        raise ValueError("no value; give one or remove the key")
    if isinstance(kind, inspect.BoolType):
        return _read_boolean(text)
    if isinstance(kind, inspect.IntType):
        return _read_integer(text, kind)
    if isinstance(kind, inspect.CustomType):
        value = parse_duration(text) if kind.cls is Duration else parse_size(text)
        if rules.get("is_positive") and value <= 0:
            raise ValueError(f"{text!r} must be more than nothing")
        return value
    if isinstance(kind, inspect.LiteralType):
        return _read_word(text, [str(value) for value in kind.values], rules.get("path", ""))
    if isinstance(kind, inspect.StrType):
        return _read_text(text, is_plain, kind, rules)
    raise TypeError(f"the schema has a type the reader does not know: {kind}")


def closest(word: str, known: Iterable[str]) -> str:
    """Return the known word that was most likely meant, or an empty string."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else ""


def _read_boolean(text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    meant = _BOOLEAN_SPELLINGS.get(text.lower())
    if meant is not None:
        raise ValueError(f"{text!r}: YAML readers disagree about this spelling; write {meant}")
    raise ValueError(f"{text!r} is not a boolean; write true or false")


def _read_integer(text: str, kind: inspect.IntType) -> int:
    if _INTEGER.fullmatch(text) is None:
        if _LOOSE_INTEGER.fullmatch(text):
            plain = int(text.replace("_", ""))
            raise ValueError(f"{text!r}: YAML readers disagree about this number; write {plain}")
        raise ValueError(f"{text!r} is not a whole number")
    value = int(text)
    if kind.ge is not None and value < kind.ge:
        raise ValueError(f"{value} is too small; the least is {kind.ge}")
    if kind.le is not None and value > kind.le:
        raise ValueError(f"{value} is too large; the most is {kind.le}")
    return value


def _read_word(text: str, known: list[str], path: str) -> str:
    if text in known:
        return text
    if is_later_value(path, text):
        raise ValueError(f"{text!r} is not in this version; it has {', '.join(known)}")
    near = closest(text, known)
    hint = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
    raise ValueError(f"unknown value {text!r}; {hint}")


def _read_text(text: str, is_plain: bool, kind: inspect.StrType, rules: dict[str, Any]) -> str:
    taken_for = yaml_kind(text) if is_plain else ""
    if taken_for:
        raise ValueError(f'YAML takes {text} for {taken_for}; put it in quotes: "{text}"')
    if kind.min_length is not None and len(text) < kind.min_length:
        raise ValueError("must not be empty")
    if kind.max_length is not None and len(text) > kind.max_length:
        raise ValueError(f"longer than {kind.max_length} characters")
    form = rules.get("form")
    if form is not None and not (rules.get("may_be_empty") and not text):
        FORMS[form](text)
    return text
