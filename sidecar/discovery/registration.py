"""What a provider's registration says besides its address, parsed once per distinct text.

Thousands of instances of a service differ in address, start time and process id only. The rest of
their parameters is one text, so it is parsed once and shared: the interner maps that text to its
``Registration``. One interner belongs to one service's listing and goes away with it.
"""

from __future__ import annotations

from typing import Final, final
from urllib.parse import unquote

from sidecar.model import protocol
from sidecar.model.instance import DEFAULT_WARMUP_MS, DEFAULT_WEIGHT
from sidecar.model.service import NO_VERSION

# Distinct parameter texts of one service. Providers that put something unique into each
# registration gain nothing from sharing; at the cap the table starts again, and what instances
# already refer to stays theirs.
MAX_REGISTRATIONS: Final = 1024
MAX_INT: Final = 2**31 - 1  # Dubbo reads these numbers as Java ints
MAX_PARAMETERS: Final = 512  # a real registration has about 25

_DEFAULT_PREFIX: Final = "default."
_GO_METHOD_PREFIX: Final = "methods."  # dubbo-go writes methods.<method>.<key>


def read_int(text: str, default: int) -> int:
    """Read a Java int; anything else, and an absent value, gives ``default``."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isdigit() or not digits.isascii() or len(digits) > 10:
        return default
    value = int(text)
    return value if -MAX_INT - 1 <= value <= MAX_INT else default


@final
class Registration:
    """The shared part of a registration: its parameters and what is read from them.

    ``parameters`` has neither ``timestamp`` nor ``pid``. ``interface`` is empty when the
    registration leaves it to the path. ``protocols`` are those that the port speaks besides the one
    of the URL. ``started`` is the text of a start time that could not be cut from the text
    beforehand, which makes the registration one instance's own.
    """

    def __init__(self, parameters: dict[str, str], started: str) -> None:
        get = parameters.get
        version = get("version", "")
        self.parameters: Final = parameters
        self.started: Final = started
        self.interface: Final = get("interface", "")
        self.version: Final = "" if version == NO_VERSION else version
        self.group: Final = get("group", "")
        self.category: Final = get("category", "")
        self.application: Final = get("application", "")
        self.tag: Final = get("dubbo.tag", "")
        self.token: Final = get("token", "")
        self.weight: Final = max(0, read_int(get("weight", ""), DEFAULT_WEIGHT))
        self.warmup_ms: Final = max(0, read_int(get("warmup", ""), DEFAULT_WARMUP_MS))
        self.timeout_ms: Final = max(0, read_int(get("timeout", ""), 0))
        self.protocols: Final = _protocols(get("ext.protocol", ""), get("preferred.protocol", ""))
        self.method_weights: Final = _method_numbers(parameters, ".weight", DEFAULT_WEIGHT)
        self.method_timeouts: Final = _method_numbers(parameters, ".timeout", 0)


def _protocols(extra: str, preferred: str) -> int:
    """Return the protocols that two lists name; Dubbo's RegistryDirectory compares without case."""
    protocols = 0
    for name in f"{extra},{preferred}".split(","):
        protocols |= protocol.of_scheme(name.strip().lower())
    return protocols


def _method_numbers(parameters: dict[str, str], suffix: str, default: int) -> dict[str, int] | None:
    """Collect ``<method>.<key>`` for the methods the provider lists, or None when there are none.

    Dubbo honours method-level keys of listed methods only; ``*`` lists them all.
    """
    numbers: dict[str, int] = {}
    methods: list[str] = []
    for key, value in parameters.items():
        if not key.endswith(suffix):
            continue
        if not methods:
            methods = parameters.get("methods", "").split(",")
        method = key[: -len(suffix)].removeprefix(_GO_METHOD_PREFIX)
        if method in methods or (methods[0] == "*" and method != "default"):
            numbers[method] = max(0, read_int(value, default))
    return numbers or None


def parse_query(query: str, words: dict[str, str]) -> dict[str, str] | None:
    """Split a decoded query into parameters; None when there are more than any provider writes.

    ``&`` and ``;`` separate alike, the first ``=`` splits, the last of two equal keys wins, and
    ``default.X`` also defines an absent ``X`` (Dubbo's URLStrParser). A value that was escaped on
    its own before the URL was encoded is decoded once more. ``words`` shares equal key texts.
    """
    if ";" in query:
        query = query.replace(";", "&")
    items = query.split("&")
    if len(items) > MAX_PARAMETERS:
        return None
    parameters: dict[str, str] = {}
    for item in items:
        key, _, value = item.lstrip("=").partition("=")
        if "%" in value:
            value = unquote(value)
        if key:
            parameters[words.setdefault(key, key)] = value
    if _DEFAULT_PREFIX in query:
        for key in [each for each in parameters if each.startswith(_DEFAULT_PREFIX)]:
            parameters.setdefault(key[len(_DEFAULT_PREFIX) :], parameters[key])
    return parameters


def decode(text: str) -> str:
    """Undo the form encoding of a node name: ``+`` is a space, escapes are UTF-8.

    The escapes that make up nearly all of a name are replaced first: none of them yields a
    character that could complete another escape, and it is three times faster.
    """
    if "+" in text:
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    text = text.replace("%3D", "=").replace("%26", "&").replace("%2C", ",").replace("%2F", "/")
    text = text.replace("%3A", ":")
    return unquote(text) if "%" in text else text


@final
class Interner:
    """Registrations of one service by their text. ``parsed`` counts the texts that were parsed."""

    def __init__(self, limit: int = MAX_REGISTRATIONS) -> None:
        self._limit: Final = limit
        self._registrations: dict[str, Registration] = {}
        self._words: dict[str, str] = {}
        self.parsed = 0

    def __len__(self) -> int:
        return len(self._registrations)

    def registration(self, query: str, is_encoded: bool) -> Registration | None:
        """Return the registration of a query without ``timestamp`` and ``pid``.

        None when the text cannot be a registration.
        """
        found = self._registrations.get(query)
        if found is None:
            found = self._parse(decode(query) if is_encoded else query)
            if found is not None and not found.started:
                if len(self._registrations) >= self._limit:
                    self.reset()
                self._registrations[query] = found
        return found

    def reset(self) -> None:
        """Forget every text."""
        self._registrations = {}
        self._words = {}

    def _parse(self, query: str) -> Registration | None:
        self.parsed += 1
        parameters = parse_query(query, self._words)
        if parameters is None:
            return None
        started = parameters.pop("timestamp", "")
        parameters.pop("pid", None)
        return Registration(parameters, started)
