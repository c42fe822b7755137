"""Configuration text to `Settings`, or every problem at once.

The tree of the document and the tree of types are walked together, so each problem is found where
it stands. A section with an unreadable field is still checked: the field stands in with its
default, and findings that looked at it are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping as Environ
from typing import Any, Final, cast, final

from msgspec import inspect

from sidecar.model.errors import ConfigError
from sidecar.settings.checks import CHECKS
from sidecar.settings.document import Mapping, Node, Problem, Scalar, Sequence, parse_document
from sidecar.settings.expand import expand
from sidecar.settings.later import later_key
from sidecar.settings.scalar import closest, read_scalar, yaml_kind
from sidecar.settings.schema import Settings

MAX_PROBLEM_TEXT: Final = 300  # a problem may quote a value; one line per problem must stay one

_UNREADABLE: Final[Any] = object()


def read_settings(text: str, file_name: str, environ: Environ[str, str]) -> Settings:
    """Read the configuration; raises ConfigError with one line per problem, in file order."""
    root, problems = parse_document(text)
    settings: Any = _UNREADABLE
    if root is not None:
        settings = _Reader(environ, problems).read(root, inspect.type_info(Settings), "")
    elif not problems:
        problems.append(Problem(1, 1, "nothing is configured; the key 'registries' is needed"))
    if problems:
        raise ConfigError([_line(file_name, problem) for problem in sorted(set(problems))])
    return cast("Settings", settings)


def _line(file_name: str, problem: Problem) -> str:
    text = problem.text
    if len(text) > MAX_PROBLEM_TEXT:
        text = text[: MAX_PROBLEM_TEXT - 3] + "..."
    return f"{file_name}:{problem.line}:{problem.column}: {text}"


@final
class _Reader:
    """Reads one document; `problems` grows as it goes."""

    def __init__(self, environ: Environ[str, str], problems: list[Problem]) -> None:
        self._environ = environ
        self._problems = problems
        self._broken = {(problem.line, problem.column) for problem in problems}

    def read(self, node: Node, kind: inspect.Type, path: str) -> Any:
        """Return the value of a node, or _UNREADABLE after recording why.

        ``path`` names the field for planned keys and values, with ``*`` for list items and names
        that users choose.
        """
        rules: dict[str, Any] = {"path": path}
        while isinstance(kind, inspect.Metadata | inspect.UnionType):
            if isinstance(kind, inspect.Metadata):
                rules.update(kind.extra or {})
                kind = kind.type
            else:  # "a value or none"; absent is how none is written
                kind = next(t for t in kind.types if not isinstance(t, inspect.NoneType))
        if isinstance(kind, inspect.StructType):
            return self._read_struct(node, kind, path)
        if isinstance(kind, inspect.DictType):
            return self._read_dict(node, kind, path)
        if isinstance(kind, inspect.ListType):
            return self._read_list(node, kind, rules, path)
        return self._read_scalar(node, kind, rules)

    def _read_scalar(self, node: Node, kind: inspect.Type, rules: dict[str, Any]) -> Any:
        if not isinstance(node, Scalar):
            return self._refuse(node, "a single value is expected here")
        if (node.line, node.column) in self._broken:
            return _UNREADABLE
        try:
            text = expand(node.text, self._environ)
            return read_scalar(text, node.is_plain and text == node.text, kind, rules)
        except ValueError as error:
            return self._refuse(node, str(error))

    def _read_struct(self, node: Node, kind: inspect.StructType, path: str) -> Any:
        if not isinstance(node, Mapping):
            return self._refuse_shape(node, "keys and values are expected here")
        fields = {field.encode_name: field for field in kind.fields}
        values: dict[str, Any] = {}
        failed: set[str] = set()
        for name, (key, child) in node.entries.items():
            here = f"{path}.{name}" if path else name
            if name not in fields:
                self._refuse(key, _unknown_key(name, list(fields), here))
                continue
            value = self.read(child, fields[name].type, here)
            if value is _UNREADABLE:
                failed.add(name)
            else:
                values[name] = value
        if self._is_incomplete(node, kind, values, failed):
            return _UNREADABLE
        section = kind.cls(**values)
        self._check(node, section, failed)
        return _UNREADABLE if failed else section

    def _is_incomplete(
        self, node: Mapping, kind: inspect.StructType, values: dict[str, Any], failed: set[str]
    ) -> bool:
        incomplete = False
        for field in kind.fields:
            name = field.encode_name
            is_needed = field.required or _has_rule(field.type, "is_required")
            if not is_needed or name in values:
                continue
            if name not in failed:
                self._refuse(node, f"missing key {name!r}")
                failed.add(name)
            incomplete = incomplete or field.required
        return incomplete

    def _check(self, node: Mapping, section: object, failed: set[str]) -> None:
        check = CHECKS.get(type(section))
        for finding in check(section) if check is not None else ():
            if failed.isdisjoint(finding.fields):
                entry = node.entries.get(finding.fields[0])
                self._refuse(entry[1] if entry else node, finding.text)

    def _read_dict(self, node: Node, kind: inspect.DictType, path: str) -> Any:
        if not isinstance(node, Mapping):
            return self._refuse_shape(node, "keys and values are expected here")
        result: dict[str, Any] = {}
        readable = True
        for key, child in node.entries.values():
            name = self._read_key(key, kind.key_type)
            value = self.read(child, kind.value_type, f"{path}.*")
            if name is _UNREADABLE or value is _UNREADABLE:
                readable = False
            else:
                result[name] = value
        return result if readable else _UNREADABLE

    def _read_key(self, key: Scalar, kind: inspect.Type) -> Any:
        if not key.text:
            return self._refuse(key, "an empty key")
        rules: dict[str, Any] = {}
        if isinstance(kind, inspect.Metadata):
            rules.update(kind.extra or {})
            kind = kind.type
        try:
            return read_scalar(key.text, key.is_plain, kind, rules)
        except ValueError as error:
            return self._refuse(key, str(error))

    def _read_list(
        self, node: Node, kind: inspect.ListType, rules: dict[str, Any], path: str
    ) -> Any:
        if not isinstance(node, Sequence):
            return self._refuse_shape(node, "a list is expected here")
        if len(node.items) < (kind.min_length or 0):
            return self._refuse(node, "at least one item is needed")
        result = [self.read(item, kind.item_type, f"{path}.*") for item in node.items]
        is_unique = self._check_unique(node, rules.get("unique", ""))
        readable = is_unique and all(value is not _UNREADABLE for value in result)
        return result if readable else _UNREADABLE

    def _check_unique(self, node: Sequence, key: str) -> bool:
        """Compare the texts of the items, or of one key of them, before anything is built."""
        if not key:
            return True
        first_lines: dict[str, int] = {}
        is_unique = True
        for item in node.items:
            value = (
                item.entries[key][1] if isinstance(item, Mapping) and key in item.entries else None
            )
            if not isinstance(value, Scalar):
                continue
            if value.text in first_lines:
                line = first_lines[value.text]
                self._refuse(value, f"{key} {value.text!r} is already used on line {line}")
                is_unique = False
            first_lines.setdefault(value.text, value.line)
        return is_unique

    def _refuse_shape(self, node: Node, text: str) -> Any:
        if isinstance(node, Scalar) and node.is_plain and yaml_kind(node.text) == "nothing":
            text = "no value; give one or remove the key"
        return self._refuse(node, text)

    def _refuse(self, node: Node, text: str) -> Any:
        self._problems.append(Problem(node.line, node.column, text))
        return _UNREADABLE


def _has_rule(kind: inspect.Type, rule: str) -> bool:
    return isinstance(kind, inspect.Metadata) and bool((kind.extra or {}).get(rule))


def _unknown_key(name: str, known: list[str], path: str) -> str:
    planned = later_key(path)
    if planned:
        return f"unknown key {name!r}: this version does not have {planned}"
    near = closest(name, known)
    hint = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
    return f"unknown key {name!r}; {hint}"
