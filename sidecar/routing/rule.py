"""Tag rules: the text of a rule node to a compiled rule, and the slot that keeps the last good one.

The schema is that of Dubbo's tag router (``enabled``, ``force``, ``tags`` with ``name`` and either
``addresses`` or ``match``; ``match`` needs ``configVersion: v3.0``). Unlike Dubbo, one bad entry
never costs the rest of the rule: it is left out, and the reading carries one warning for it.
"""

from __future__ import annotations

from typing import Any, Final, final

from sidecar.model.instance import Instance
from sidecar.model.service import ServiceKey
from sidecar.routing.address import AddressMatcher, AddressPattern, PatternError
from sidecar.routing.document import MAX_RULE_SIZE, DocumentError, load_document
from sidecar.routing.text_match import MATCHER_FIELDS, MatcherError, TextMatcher

LEVEL_SEPARATOR: Final = "|"
MATCH_VERSION: Final = "v3.0"
MAX_WARNINGS: Final = 50  # the rest of a broken rule is only counted
MAX_WARNING: Final = 300  # characters; a warning may quote a word of any length
MAX_TAG: Final = 128  # characters of a name; a call's tag is tried against it level by level
MAX_TAGS: Final = 1000  # of one rule, each of which may name every instance
_RULE_FIELDS: Final = frozenset((
    "configVersion", "scope", "key", "enabled", "force", "tags",
    "runtime", "priority", "dynamic", "valid",  # Dubbo parses these and uses them nowhere
))  # fmt: skip


def application_rule_name(application: str) -> str:
    """Return the name of the rule node of a provider application."""
    return f"{application}.tag-router"


def service_rule_name(key: ServiceKey) -> str:
    """Return the name of the rule node of one service."""
    return f"{key.rule_key()}.tag-router"


@final
class TagRule:
    """A compiled rule. Compare by identity: a new text is a new rule.

    ``names`` are the tags it defines by addresses, whether or not one is alive; a tag defined by
    ``match`` exists only while an instance matches. No name of either kind has more than
    ``longest`` characters.
    """

    def __init__(
        self,
        is_enabled: bool,
        force: bool,
        names: frozenset[str],
        addresses: AddressMatcher,
        matches: list[tuple[str, list[tuple[str, TextMatcher]]]],
    ) -> None:
        self.is_enabled: Final = is_enabled
        self.force: Final = force
        self.names: Final = names
        self.longest: Final = max(map(len, [*names, *(name for name, _ in matches)]), default=0)
        self._addresses: Final = addresses
        self._matches: Final = matches

    def tags_of(self, instance: Instance) -> set[str]:
        """Return the tags that the rule gives to an instance."""
        tags = self._addresses.names_of(instance)
        parameters = instance.parameters
        for name, conditions in self._matches:
            if all(matcher.matches(parameters.get(key)) for key, matcher in conditions):
                tags.add(name)
        return tags


@final
class RuleReading:
    """What one text says: a rule, or nothing (deleted), or an error; warnings either way."""

    def __init__(self, rule: TagRule | None, error: str, warnings: list[str]) -> None:
        self.rule: Final = rule
        self.error: Final = error
        self.warnings: Final = warnings


def parse_tag_rule(text: str, key: str, max_size: int = MAX_RULE_SIZE) -> RuleReading:
    """Compile the text of the rule node of ``key`` (an application, or a service's rule key).

    A blank text is a deleted rule. Nothing is raised: a text that is no rule is an error text.
    """
    if not text.strip():
        return RuleReading(None, "", [])
    try:
        document = load_document(text, max_size)
    except DocumentError as error:
        return RuleReading(None, str(error), [])
    if document is None:  # only comments
        return RuleReading(None, "", [])
    fault = _fault_of(document)
    if fault:
        return RuleReading(None, fault, [])
    reader = _Reader(document)
    return RuleReading(reader.rule(key), "", reader.warnings)


def _fault_of(document: Any) -> str:
    """Say why the document as a whole is no rule, ``""`` when it is one."""
    if not isinstance(document, dict):
        return "the rule is not a mapping"
    tags = document.get("tags")
    if not isinstance(tags, (list, type(None))):
        return "tags is not a list"
    if tags is not None and len(tags) > MAX_TAGS:
        return f"{len(tags)} tags are more than the {MAX_TAGS} allowed"
    return ""


class _Reader:
    """Reads one rule document; collects a warning for everything it leaves out."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.warnings: Final[list[str]] = []
        self._document: Final = document
        self._addresses: Final = AddressMatcher()
        self._defined: Final[set[str]] = set()
        self._matches: Final[list[tuple[str, list[tuple[str, TextMatcher]]]]] = []

    def rule(self, key: str) -> TagRule:
        document = self._document
        for name in document:
            if name not in _RULE_FIELDS:
                self._warn(f"unknown field {name!r} is ignored")
        named = document.get("key")
        # People write the key of a service's rule without the colons; Dubbo does not look at it.
        if named is not None and str(named) not in (key, key.partition(":")[0]):
            self._warn(f"key {named!r} is not {key!r}, under which the rule is stored")
        tags = document.get("tags")
        if tags is None:
            self._warn("no tags: only static tags apply")
        named_tags: dict[str, dict[str, Any]] = {}
        for place, tag in enumerate(tags or [], 1):
            name = self._name(tag, f"tag {place}")
            if name in named_tags:
                self._warn(f"tag {name!r} is there twice: the last one counts")
            if name:
                named_tags[name] = tag
        for name, tag in named_tags.items():
            self._read_tag(name, tag)
        return TagRule(
            _flag(document, "enabled", True),
            _flag(document, "force", False),
            frozenset(self._defined),
            self._addresses,
            self._matches,
        )

    def _name(self, tag: Any, place: str) -> str:
        name = tag.get("name") if isinstance(tag, dict) else None
        if isinstance(name, int) and not isinstance(name, bool):
            return str(name)
        if not isinstance(name, str) or not name:
            self._warn(f"{place} has no name and is left out")
            return ""
        if len(name) > MAX_TAG:
            self._warn(f"{place} has a name longer than {MAX_TAG} characters and is left out")
            return ""
        return name

    def _read_tag(self, name: str, tag: dict[str, Any]) -> None:
        for field in tag:
            if field not in ("name", "addresses", "match"):
                self._warn(f"tag {name!r}: unknown field {field!r} is ignored")
        addresses = tag.get("addresses")
        if isinstance(addresses, list) and addresses:
            if tag.get("match"):
                self._warn(f"tag {name!r}: match is ignored beside addresses")
            self._defined.add(name)
            for entry in addresses:
                self._read_address(name, entry)
        elif tag.get("match"):
            self._read_match(name, tag["match"])
        else:
            self._warn(f"tag {name!r} has neither addresses nor match and is left out")

    def _read_address(self, name: str, entry: Any) -> None:
        try:
            if not isinstance(entry, str):
                raise PatternError("not a text")
            pattern = AddressPattern.parse(entry.strip())
        except PatternError as error:
            self._warn(f"tag {name!r}: address {str(entry)[:100]!r} is left out: {error}")
            return
        if pattern.note:
            self._warn(f"tag {name!r}: address {entry[:100]!r}: {pattern.note}")
        self._addresses.add(pattern, name)

    def _read_match(self, name: str, match: Any) -> None:
        if not str(self._document.get("configVersion")).startswith(MATCH_VERSION):
            self._warn(f"tag {name!r} is left out: match needs configVersion {MATCH_VERSION}")
            return
        try:
            self._matches.append((name, _conditions(match)))
        except MatcherError as error:
            self._warn(f"tag {name!r} is left out: {error}")

    def _warn(self, text: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(text[:MAX_WARNING])
        elif len(self.warnings) == MAX_WARNINGS:
            self.warnings.append("more warnings are not shown")


def _conditions(match: Any) -> list[tuple[str, TextMatcher]]:
    if not isinstance(match, list):
        raise MatcherError("match is not a list")
    conditions: list[tuple[str, TextMatcher]] = []
    for entry in match:
        key = entry.get("key") if isinstance(entry, dict) else None
        value = entry.get("value") if isinstance(entry, dict) else None
        if not isinstance(key, str) or not isinstance(value, dict):
            raise MatcherError("a match entry needs a key and a value with a matcher")
        if not any(field in value for field in MATCHER_FIELDS):
            raise MatcherError(f"key {key!r} has no matcher that is known")
        conditions.append((key, TextMatcher(value)))
    return conditions


def _flag(document: dict[str, Any], name: str, default: bool) -> bool:
    """Read a flag as Java's parseBoolean does: anything but "true" is false; null is unset."""
    value = document.get(name)
    return default if value is None else str(value).lower() == "true"


@final
class RuleSlot:
    """The state of one rule node: the last good rule, and what is wrong with the current text.

    ``rule`` is the active rule (None: no rule), ``version`` the mzxid of the text it came from,
    ``error`` the fault of a newer text ("" when the newest is in use), ``invalid_count`` how many
    faulty texts were offered. Times are in milliseconds.
    """

    def __init__(self, key: str, max_size: int = MAX_RULE_SIZE) -> None:
        self.key: Final = key
        self.rule: TagRule | None = None
        self.version = 0
        self.error = ""
        self.error_version = 0
        self.warnings: list[str] = []
        self.invalid_count = 0
        self._max_size: Final = max_size
        self._since_ms = 0
        self._error_since_ms = 0

    def offer(self, text: str, version: int, now_ms: int) -> bool:
        """Take the text of the node, "" when it is gone; True when the active rule changed.

        ``version`` is the node's mzxid (0 for a missing node). A version that was seen is ignored.
        """
        if version and version in (self.version, self.error_version):
            return False
        reading = parse_tag_rule(text, self.key, self._max_size)
        self.error = reading.error
        if reading.error:
            self.error_version = version
            self.invalid_count += 1
            self._error_since_ms = now_ms
            return False
        changed = reading.rule is not None or self.rule is not None
        self.rule = reading.rule
        self.version = version
        self.error_version = 0
        self.warnings = reading.warnings
        self._since_ms = now_ms
        return changed

    def view(self, now_ms: int) -> dict[str, Any]:
        """Return the state for people: ages in seconds, the fault and the warnings."""
        return {
            "key": self.key,
            "active": self.rule is not None and self.rule.is_enabled,
            "version": self.version,
            "age_s": (now_ms - self._since_ms) / 1000,
            "error": self.error,
            "error_version": self.error_version,
            "error_age_s": (now_ms - self._error_since_ms) / 1000 if self.error else 0.0,
            "warnings": self.warnings,
        }
