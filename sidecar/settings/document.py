"""YAML text to a tree of nodes that know their place, under rules stricter than YAML's own.

Built on the parser's events, not on its composer: the composer hides anchors and recurses. What is
refused here is what makes YAML dangerous or ambiguous in a configuration file: anchors and aliases
(a few bytes that mean gigabytes), tags, duplicate keys, several documents, deep nesting. Problems
do not stop the walk, except a syntax error, after which the text has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias, final

import yaml

MAX_TEXT: Final = 256 * 1024  # a hand-written file is a few KiB; bounds the time of one read
# A text may have one key or value per so many characters, since each takes about 10 us. In a long
# rule they are addresses, of about 25 characters with what belongs to their line.
VALUE_SIZE: Final = 12
MIN_VALUES: Final = 1000  # allowed in any text
MAX_DEPTH: Final = 32  # the schema needs 5; bounds what later walks recurse into

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Problem(NamedTuple):
    """One thing that is wrong, with its place; lines and columns count from 1."""

    line: int
    column: int
    text: str


@final
class Scalar:
    """A single value; ``is_plain`` when it stands there without quotes."""

    __slots__ = ("column", "is_plain", "line", "text")

    def __init__(self, text: str, is_plain: bool, line: int, column: int) -> None:
        self.text = text
        self.is_plain = is_plain
        self.line = line
        self.column = column


@final
class Mapping:
    """Keys and values in the order of the text, duplicates left out."""

    __slots__ = ("column", "entries", "line")

    def __init__(self, line: int, column: int) -> None:
        self.entries: dict[str, tuple[Scalar, Node]] = {}
        self.line = line
        self.column = column


@final
class Sequence:
    """A list of values."""

    __slots__ = ("column", "items", "line")

    def __init__(self, line: int, column: int) -> None:
        self.items: list[Node] = []
        self.line = line
        self.column = column


Node: TypeAlias = Scalar | Mapping | Sequence


def parse_document(text: str, max_text: int = MAX_TEXT) -> tuple[Node | None, list[Problem]]:
    """Read YAML text; the root is None for an empty text or when the text cannot be followed.

    ``max_text`` is in characters.
    """
    if len(text) > max_text:
        return None, [Problem(1, 1, f"larger than {max_text // 1024} KiB")]
    builder = _Builder(max(MIN_VALUES, max_text // VALUE_SIZE))
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if not builder.accept(event):
                return None, builder.problems
    except yaml.YAMLError as error:
        return None, [*builder.problems, _syntax_problem(error, text)]
    return builder.root, builder.problems


def locate(root: Node | None, path: Iterable[str | int]) -> tuple[int, int]:
    """Return line and column of the node that keys and indexes lead to, as far as they lead."""
    node = root
    place = (1, 1)
    for step in path:
        if isinstance(node, Mapping) and step in node.entries:
            node = node.entries[str(step)][1]
        elif isinstance(node, Sequence) and isinstance(step, int):
            node = node.items[step]
        else:
            break
        place = (node.line, node.column)
    return place


def _syntax_problem(error: yaml.YAMLError, text: str) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        start = error.context_mark
        if start is not None and start.line != mark.line:
            what += f" (it begins on line {start.line + 1})"
        if "${" in "".join(text.splitlines()[mark.line : mark.line + 1]):  # none at the text's end
            what += "; a ${...} inside {...} or [...] must be in quotes"
        return Problem(mark.line + 1, mark.column + 1, f"not valid YAML: {what}")
    position = getattr(error, "position", 0)  # ReaderError: a character YAML does not allow
    before = text[:position]
    column = position - (before.rfind("\n") + 1) + 1
    return Problem(before.count("\n") + 1, column, "a character that YAML does not allow")


@final
class _Builder:
    """Builds the tree from events with an explicit stack, so depth is a number we can check."""

    def __init__(self, max_values: int) -> None:
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self._documents = 0
        self._values = 0
        self._max_values: Final = max_values
        self._stack: list[tuple[Mapping | Sequence, Scalar | None]] = []

    def accept(self, event: yaml.Event) -> bool:
        """Take one event; False when going on makes no sense."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._complain(event, "a second YAML document; put everything into one")
                return False
        elif isinstance(event, yaml.AliasEvent):
            self._complain(event, f"alias *{event.anchor}: anchors and aliases are not allowed")
            self._place(Scalar("", False, *_at(event)))
        elif isinstance(event, yaml.ScalarEvent):
            self._values += 1
            if self._values > self._max_values:
                self._complain(event, f"more than {self._max_values} values")
                return False
            self._check_node(event)
            self._place(Scalar(event.value, event.implicit[0], *_at(event)))
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            return self._open(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._place(self._stack.pop()[0])
        return True

    def _open(self, event: yaml.CollectionStartEvent) -> bool:
        self._check_node(event)
        if len(self._stack) >= MAX_DEPTH:
            self._complain(event, f"nested deeper than {MAX_DEPTH} levels")
            return False
        kind = Mapping if isinstance(event, yaml.MappingStartEvent) else Sequence
        self._stack.append((kind(*_at(event)), None))
        return True

    def _place(self, node: Node) -> None:
        """Put a finished node where the innermost open collection expects it."""
        if not self._stack:
            self.root = node
            return
        parent, key = self._stack[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif key is None:
            self._stack[-1] = (parent, self._key_of(node))
        else:
            self._stack[-1] = (parent, None)
            self._add_entry(parent, key, node)

    def _key_of(self, node: Node) -> Scalar:
        if isinstance(node, Scalar):
            return node
        self.problems.append(Problem(node.line, node.column, "a key must be a single word"))
        return Scalar("", False, node.line, node.column)

    def _add_entry(self, parent: Mapping, key: Scalar, node: Node) -> None:
        first = parent.entries.get(key.text)
        if first is None:
            parent.entries[key.text] = (key, node)
            return
        text = f"duplicate key {key.text!r}; first on line {first[0].line}"
        self.problems.append(Problem(key.line, key.column, text))

    def _check_node(self, event: yaml.NodeEvent) -> None:
        if event.anchor is not None:
            self._complain(event, f"anchor &{event.anchor}: anchors and aliases are not allowed")
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._complain(event, f"tag {tag}: tags are not allowed")

    def _complain(self, event: yaml.Event, text: str) -> None:
        self.problems.append(Problem(*_at(event), text))


def _at(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
