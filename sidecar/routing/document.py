"""Rule documents: YAML 1.1 text to plain values, with guards against hostile or broken text.

Whoever can write to the registry writes rules, so the text is not trusted. The guards are those of
configuration files (one document, no anchors, aliases, tags or duplicate keys, capped depth) plus a
size cap; any breach refuses the whole text. Scalars follow YAML 1.1 as Dubbo's SnakeYAML does
(``yes`` and ``on`` are true), but dates and merge keys stay text: no rule means them.
So do long numbers: those of base 60 take quadratic time, and Python prints no long integer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from sidecar.settings.document import Mapping, Node, Scalar, parse_document

MAX_RULE_SIZE: Final = 256 * 1024  # the default; about 10,000 addresses fit in one rule
MAX_NUMBER: Final = 64  # characters; numbers in rules have a few digits
MAX_ERROR: Final = 300  # characters of an error text, which may quote a key of any length
_TAG: Final = "tag:yaml.org,2002:"
_RESOLVER: Final[Any] = Resolver()
_CONSTRUCTOR: Final = SafeConstructor()
# Called one by one: ``construct_object`` would remember every node for as long as the program runs.
_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    _TAG + "null": _CONSTRUCTOR.construct_yaml_null,
    _TAG + "bool": _CONSTRUCTOR.construct_yaml_bool,
    _TAG + "int": _CONSTRUCTOR.construct_yaml_int,
    _TAG + "float": _CONSTRUCTOR.construct_yaml_float,
}


class DocumentError(ValueError):
    """The text is not one plain YAML document within the caps; the message says what and where."""


def load_document(text: str, max_size: int = MAX_RULE_SIZE) -> Any:
    """Return the value of the only document in ``text``; None when there is none.

    ``max_size`` is in bytes of UTF-8. Raises DocumentError.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise DocumentError("a character that YAML does not allow") from None
    if size > max_size:
        raise DocumentError(f"{size} bytes are more than the {max_size} allowed")
    root, problems = parse_document(text, max_size)
    if problems:
        first = problems[0]
        raise DocumentError(f"line {first.line}, column {first.column}: {first.text}"[:MAX_ERROR])
    return None if root is None else _value(root)


def _value(node: Node) -> Any:
    if isinstance(node, Scalar):
        return _scalar(node)
    if isinstance(node, Mapping):
        return {name: _value(value) for name, (_, value) in node.entries.items()}
    return [_value(item) for item in node.items]


def _scalar(node: Scalar) -> Any:
    if not node.is_plain or len(node.text) > MAX_NUMBER:
        return node.text
    tag = _RESOLVER.resolve(yaml.ScalarNode, node.text, (True, False))
    convert = _CONVERTERS.get(tag)
    if convert is None:
        return node.text
    try:
        return convert(yaml.ScalarNode(tag, node.text))
    except ValueError:  # a base and no digits
        place = f"line {node.line}, column {node.column}"
        raise DocumentError(f"{place}: a number that cannot be read") from None
