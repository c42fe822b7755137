"""A registry in a file, for demonstrations, tests and small installations.

::

    providers:
      - "dubbo://192.0.2.11:20880/org.example.Greeter?application=greeter"
    rules:
      greeter.tag-router: |
        {force: false, tags: [...]}

The file is read in a thread once a second: a mounted file can be on a file system that hangs.
Comparing the content, and not the time of its last change, finds replaced symlinks and edits within
one tick of the clock alike. A new content counts when two readings in a row agree, so that a file
is never taken in while it is being written. One that cannot be read or understood changes nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import stat
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from sidecar.discovery.address import UNPARSABLE
from sidecar.discovery.provider_url import provider_interface
from sidecar.discovery.slot import PROVIDERS, RULE, Slot
from sidecar.discovery.stats import RegistryStats
from sidecar.registry.source import Receiver
from sidecar.routing.document import DocumentError, load_document
from sidecar.settings.forms import parse_registry_url
from sidecar.settings.schema import Registry

PERIOD: Final = 1.0  # seconds between readings
SETTLE: Final = 0.1  # seconds until a new content is read again
SEPARATOR: Final = "\0"  # what holds it is no URL, and becomes two that are none
MAX_FILE_SIZE: Final = 16 * 1024 * 1024  # the limit of one list of a ZooKeeper registry

_logger = logging.getLogger(__name__)


class FileRegistryError(ValueError):
    """The file is not a registry; the message says why."""


class Content(NamedTuple):
    """What a file says: provider URLs by interface, packed, and rule texts by name."""

    providers: Mapping[str, bytes]
    rules: Mapping[str, str]
    strays: int  # URLs that name no interface


def pack(urls: Sequence[str]) -> bytes:
    """Return URLs in a form for keeping: they repeat each other, and are rarely asked for."""
    return zlib.compress(SEPARATOR.join(urls).encode("utf-8", "surrogatepass"))


def unpack(packed: bytes) -> Sequence[str]:
    """Return what was packed."""
    return zlib.decompress(packed).decode("utf-8", "surrogatepass").split(SEPARATOR)


def read_content(text: str) -> Content:
    """Read the text of a file registry; raises FileRegistryError."""
    try:
        document = load_document(text, MAX_FILE_SIZE)
    except DocumentError as error:
        raise FileRegistryError(str(error)) from None
    if document is None:  # cut off by a write that has begun, or by a full disk
        raise FileRegistryError("the file is empty; write 'providers: []' when there are none")
    if not isinstance(document, dict):
        raise FileRegistryError("the file is not a mapping with the keys providers and rules")
    unknown = sorted(document.keys() - {"providers", "rules"})
    if unknown:
        raise FileRegistryError(f"unknown key {unknown[0]!r}; known are providers and rules")
    providers: dict[str, list[str]] = {}
    strays = 0
    for url in _urls(document.get("providers")):
        interface = provider_interface(url)
        if interface:
            providers.setdefault(interface, []).append(url)
        else:
            strays += 1
    packed = {interface: pack(urls) for interface, urls in providers.items()}
    return Content(packed, _rules(document.get("rules")), strays)


def _urls(value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise FileRegistryError("providers is not a list of URLs")
    return value


def _rules(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FileRegistryError("rules is not a mapping from names to texts")
    for name, text in value.items():
        if not isinstance(text, str):
            raise FileRegistryError(f"rule {name!r} is not a text; write | after its name")
    return value


def _read(path: Path) -> tuple[bytes, bytes]:
    """Return the content and its digest; one byte beyond the cap shows that it is too large."""
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise FileRegistryError("not a regular file")
        data = file.read(MAX_FILE_SIZE + 1)
    return data, hashlib.sha256(data).digest()


def _open_at_once(path: str, flags: int) -> int:
    """Open a pipe that nobody writes to as well: waiting for it would outlast the process's end."""
    return os.open(path, flags | os.O_NONBLOCK)


@final
class FileRegistry:
    """One file; see ``source.Source``."""

    def __init__(
        self,
        settings: Registry,
        receiver: Receiver,
        stats: RegistryStats,
        loop: asyncio.AbstractEventLoop,
        period: float = PERIOD,
        settle: float = SETTLE,
    ) -> None:
        self.name: Final = settings.name
        self._path: Final = Path(parse_registry_url(settings.url).path)
        self._receiver: Final = receiver
        self._stats: Final = stats
        self._loop: Final = loop
        self._period: Final = period
        self._settle: Final = settle
        self._slots: Final[set[Slot]] = set()
        self._content: Content | None = None
        self._digest = b""
        self._candidate = b""
        self._refusal = ""  # what is wrong with the candidate
        self._problem = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read the file."""
        self._task = self._loop.create_task(self._follow())

    async def stop(self) -> None:
        """Read the file no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def watch(self, slot: Slot) -> None:
        """Tell what the file has for a slot, now and after each change."""
        self._slots.add(slot)
        if self._content is not None:
            self._loop.call_soon(self._tell_if_watched, slot)

    def unwatch(self, slot: Slot) -> None:
        """Tell nothing more about a slot."""
        self._slots.discard(slot)

    def view(self) -> dict[str, Any]:
        """Return the state for people."""
        return {
            "kind": "file",
            "path": str(self._path),
            "connected": self._content is not None,
            "problem": self._problem,
        }

    async def _follow(self) -> None:
        while True:
            pause = self._period
            try:
                data, digest = await self._loop.run_in_executor(None, _read, self._path)
                if digest == self._digest:
                    self._note("")
                elif digest == self._candidate:
                    await self._take(data, digest)
                else:
                    self._candidate, self._refusal = digest, ""
                    pause = self._settle
            except OSError as error:
                self._fail("unreadable", f"{self._path}: {error.strerror}")
            except ValueError as error:
                self._fail("invalid", f"{self._path}: {error}")
            except Exception:  # a defect must not end the reading
                self._stats.fail("internal")
                _logger.exception("registry %s: %s is not taken in", self.name, self._path)
            await asyncio.sleep(pause)

    async def _take(self, data: bytes, digest: bytes) -> None:
        if self._refusal:  # a large file that is no registry is not worth parsing every second
            raise FileRegistryError(self._refusal)
        if len(data) > MAX_FILE_SIZE:
            raise FileRegistryError(f"larger than {MAX_FILE_SIZE // 2**20} MiB")
        try:
            content = await self._loop.run_in_executor(None, read_content, data.decode())
        except ValueError as error:
            self._refusal = str(error)
            raise
        before, self._content, self._digest = self._content, content, digest
        self._stats.reads += 1
        self._note("")
        for _ in range(content.strays):
            self._stats.refuse(UNPARSABLE)
        if before is None:
            self._receiver.linked(self.name)
        else:
            self._stats.events += 1
        for slot in list(self._slots):
            if before is None or self._lookup(before, slot) != self._lookup(content, slot):
                self._tell(slot)

    def _tell_if_watched(self, slot: Slot) -> None:
        if slot in self._slots:
            self._tell(slot)

    def _tell(self, slot: Slot) -> None:
        assert self._content is not None  # noqa: S101 - told when there is something to tell
        if slot.kind == RULE:
            self._receiver.text(self.name, slot, self._content.rules.get(slot.name, ""), 0)
            return
        packed = self._content.providers.get(slot.name) if slot.kind == PROVIDERS else None
        self._receiver.listed(self.name, slot, () if packed is None else unpack(packed))

    @staticmethod
    def _lookup(content: Content, slot: Slot) -> bytes | str | None:
        if slot.kind == PROVIDERS:
            return content.providers.get(slot.name)
        return content.rules.get(slot.name) if slot.kind == RULE else None

    def _fail(self, kind: str, problem: str) -> None:
        self._stats.fail(kind)
        self._note(problem)

    def _note(self, problem: str) -> None:
        """Log a problem once, and its end."""
        if problem == self._problem:
            return
        self._problem = problem
        if problem:
            _logger.warning("registry %s: %s; what it said before stays in use", self.name, problem)
        else:
            _logger.info("registry %s: %s is read again", self.name, self._path)
