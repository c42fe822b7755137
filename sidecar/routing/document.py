"""Rule documents: YAML 1.1 text to plain values, with guards against hostile or broken text.

Whoever can write to the registry writes rules, so the text is not trusted. Refused are: texts above
the size cap, nesting above the depth cap, anchors and aliases (cheap to load, endless to walk),
duplicate keys, more than one document, and every type outside the plain YAML ones. The values are
built from libyaml's events in one pass, because PyYAML's own builder tells none of this.
Scalars follow YAML 1.1 as Dubbo's SnakeYAML does (``yes`` and ``on`` are true).
"""

from __future__ import annotations

from typing import Any, Final

import yaml
from yaml.constructor import SafeConstructor
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.resolver import Resolver

MAX_RULE_SIZE: Final = 256 * 1024  # the default; 5,000 instances fit in one rule
MAX_DEPTH: Final = 32  # a tag rule needs 6
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TYPE: Final = "tag:yaml.org,2002:"
_PLAIN_COLLECTIONS: Final = (None, "!", _TYPE + "seq", _TYPE + "map")
_PLAIN_SCALARS: Final = (None, "!", _TYPE + "str")
# Dates and merge keys stay text: no rule means them.
_CONVERTED: Final = frozenset(_TYPE + name for name in ("null", "bool", "int", "float"))


class DocumentError(ValueError):
    """The text is not one plain YAML document within the caps; the message says what and where."""


def load_document(text: str, max_size: int = MAX_RULE_SIZE) -> Any:
    """Return the value of the only document in ``text``; None when there is none.

    ``max_size`` is in bytes of UTF-8. Raises DocumentError.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > max_size:
        raise DocumentError(f"{size} bytes are more than the {max_size} allowed")
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentError(_one_line(error)) from None
    return builder.value


class _Builder:
    """Builds values from events; ``value`` is the finished document."""

    def __init__(self) -> None:
        self.value: Any = None
        self._documents = 0
        self._open: list[_Collection] = []
        self._constructor: Final = SafeConstructor()
        self._resolve: Final[Any] = Resolver().resolve

    def take(self, event: Event) -> None:
        if isinstance(event, ScalarEvent):
            self._refuse_anchor(event)
            self._put(self._scalar(event), event)
        elif isinstance(event, SequenceStartEvent):
            self._enter(event, _Collection([]))
        elif isinstance(event, MappingStartEvent):
            self._enter(event, _Collection({}))
        elif isinstance(event, (SequenceEndEvent, MappingEndEvent)):
            self._put(self._open.pop().value, event)
        elif isinstance(event, AliasEvent):
            raise DocumentError(f"aliases are not allowed{_place(event)}")
        elif isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise DocumentError(f"more than one document{_place(event)}")

    def _enter(
        self, event: SequenceStartEvent | MappingStartEvent, collection: _Collection
    ) -> None:
        self._refuse_anchor(event)
        if len(self._open) >= MAX_DEPTH:
            raise DocumentError(f"nested deeper than {MAX_DEPTH}{_place(event)}")
        if event.tag not in _PLAIN_COLLECTIONS:
            raise DocumentError(f"type {event.tag} is not allowed{_place(event)}")
        self._open.append(collection)

    def _refuse_anchor(self, event: Any) -> None:
        if event.anchor is not None:
            raise DocumentError(f"anchors are not allowed{_place(event)}")

    def _scalar(self, event: ScalarEvent) -> Any:
        if event.tag not in _PLAIN_SCALARS:
            raise DocumentError(f"type {event.tag} is not allowed{_place(event)}")
        if event.tag is not None or not event.implicit[0]:  # forced to be text, or quoted
            return event.value
        tag = self._resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag not in _CONVERTED:
            return event.value
        return self._constructor.construct_object(yaml.ScalarNode(tag, event.value))

    def _put(self, value: Any, event: Event) -> None:
        if not self._open:
            self.value = value
        elif not self._open[-1].put(value):
            raise DocumentError(f"duplicate or unusable key {value!r}{_place(event)}")


class _Collection:
    """A sequence or a mapping that is being filled; a mapping takes keys and values in turn."""

    def __init__(self, value: list[Any] | dict[str, Any]) -> None:
        self.value: Final = value
        self._has_key = False
        self._key = ""

    def put(self, item: Any) -> bool:
        """Add an item; False when it is a key that is there already or is no scalar."""
        if isinstance(self.value, list):
            self.value.append(item)
        elif self._has_key:
            self.value[self._key] = item
            self._has_key = False
        else:
            key = "null" if item is None else str(item)
            if isinstance(item, (list, dict)) or key in self.value:
                return False
            self._key = key
            self._has_key = True
        return True


def _place(event: Any) -> str:
    mark = event.start_mark
    return f" (line {mark.line + 1}, column {mark.column + 1})"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
