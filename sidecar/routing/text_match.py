"""String matchers of rules: ``{exact|prefix|regex|wildcard|empty|noempty: ...}``.

The first field in that order decides; the first four need a value to compare (Dubbo's StringMatch).

Regular expressions are matched by a backtracking engine, so a rule could make it run for ever.
Therefore repeated groups, references, assertions and flags are refused, values longer than
``MAX_INPUT`` do not match, and the number of ways in which the expression can try to match a value
of that length is bounded. The values of a fleet are few, so each is matched once and remembered.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from typing import Any, Final, final

MAX_REGEX: Final = 200
MAX_INPUT: Final = 128
MAX_WAYS: Final = MAX_INPUT**3  # three free repetitions; some milliseconds at worst
OPTION_WAYS: Final = 4  # of "?": two, squared, since a branch costs more than one more character
MAX_KNOWN: Final = 1024  # values remembered by one matcher; at the cap it starts again
MATCHER_FIELDS: Final = ("exact", "prefix", "regex", "wildcard", "empty", "noempty")
_REPETITIONS: Final = ("*", "+", "?", "{")
# A character class, an escaped character, the opening of a group, or one other character.
_PIECE: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|\((?:\?:)?|.", re.DOTALL)


class MatcherError(ValueError):
    """The matcher cannot be used; the message says why."""


@final
class TextMatcher:
    """One compiled matcher."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        """Compile the fields of a rule; raises MatcherError."""
        self._exact: Final = _text(fields, "exact")
        self._prefix: Final = _text(fields, "prefix")
        regex = _text(fields, "regex")
        self._regex: Final = None if regex is None else compile_regex(regex)
        self._wildcard: Final = _text(fields, "wildcard")
        self._empty: Final = _text(fields, "empty")
        self._noempty: Final = _text(fields, "noempty")
        self._known: Final[dict[str, bool]] = {}

    def matches(self, value: str | None) -> bool:
        """Tell whether a parameter has a fitting value; None is an absent parameter."""
        if value is not None:
            if self._exact is not None:
                return value == self._exact
            if self._prefix is not None:
                return value.startswith(self._prefix)
            if self._regex is not None:
                return len(value) <= MAX_INPUT and self._fits(self._regex, value)
            if self._wildcard is not None:
                return self._wildcard in ("*", value)
        if self._empty is not None:
            return not value
        return self._noempty is not None and bool(value)

    def _fits(self, regex: re.Pattern[str], value: str) -> bool:
        fits = self._known.get(value)
        if fits is None:
            fits = regex.fullmatch(value) is not None
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[value] = fits
        return fits


def compile_regex(pattern: str) -> re.Pattern[str]:
    """Compile a rule's expression; raises MatcherError for what could run too long."""
    if len(pattern) > MAX_REGEX:
        raise MatcherError(f"regex longer than {MAX_REGEX} characters")
    if _ways(pattern) > MAX_WAYS:
        raise MatcherError("regex with too many repetitions or alternatives")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what will mean something else in a later Python
            return re.compile(pattern)
    except (re.error, OverflowError, Warning) as error:
        raise MatcherError(f"regex: {error}") from None


def _ways(pattern: str) -> int:
    """Bound the ways to try a match, by what they cost.

    A repetition has one per character, a group one per branch; those of branches count squared.
    """
    ways = 1
    branches = [1]
    previous = ""
    for piece in _PIECE.findall(pattern):
        if piece in _REPETITIONS:
            _refuse_repetition(previous, piece)
            if previous not in _REPETITIONS:  # else it only makes the one before lazy or possessive
                ways *= OPTION_WAYS if piece == "?" else MAX_INPUT
        elif piece.startswith("("):
            branches.append(1)
        elif piece == "|":
            branches[-1] += 1
        elif piece == ")":
            ways *= branches.pop() ** 2
            branches = branches or [1]
        elif piece[0] == "\\" and piece[1:].isdigit():
            raise MatcherError("regex with a reference")
        previous = piece
    return ways * math.prod(branches) ** 2


def _refuse_repetition(previous: str, piece: str) -> None:
    if previous == "(":
        raise MatcherError("regex with an assertion or a flag")
    if previous == ")" and piece != "?":
        raise MatcherError("regex with a repeated group")


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list)):
        raise MatcherError(f"{name} is not a text")
    return str(value)
