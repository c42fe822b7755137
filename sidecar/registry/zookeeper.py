"""A ZooKeeper registry: path machines driven by a client.

Reads only. A node that does not exist is watched, never created: created by a reader it would carry
the reader's permissions and lock the providers out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, final

from sidecar.discovery import path as machine
from sidecar.discovery.path import (
    ERROR_BACK_OFF,
    NO_AUTH_BACK_OFF,
    OVERSIZE_BACK_OFF,
    BackOff,
)
from sidecar.discovery.path_table import PathTable, Request
from sidecar.discovery.slot import RULE, Slot
from sidecar.discovery.stats import RegistryStats
from sidecar.registry.paths import Paths
from sidecar.registry.source import Receiver
from sidecar.registry.zookeeper_client import (
    CHILDREN,
    CONTENT,
    EXISTENCE,
    FAILED,
    FIRED,
    LINKED,
    LOST,
    NO_AUTH,
    NO_NODE,
    OVERSIZE,
    Item,
    ZooKeeperClient,
)
from sidecar.settings.forms import parse_registry_url
from sidecar.settings.schema import Registry

RULE_DELAY: Final = 0.05  # seconds; rules change by hand, and several nodes at a time
SUPERVISION: Final = 5.0  # seconds between looks at a client that is not connected
REMIND: Final = 60.0  # seconds between log lines about a registry that cannot be reached
TIMEOUT: Final = "timeout"

_BACK_OFFS: Final[dict[str, BackOff]] = {NO_AUTH: NO_AUTH_BACK_OFF, OVERSIZE: OVERSIZE_BACK_OFF}
_logger = logging.getLogger(__name__)


def hosts_text(hosts: tuple[tuple[str, int], ...]) -> str:
    """Return the host list in the form the client wants."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts)


@final
class ZooKeeperRegistry:
    """One ensemble. All methods and callbacks run in the loop; see ``source.Source``."""

    def __init__(
        self,
        settings: Registry,
        receiver: Receiver,
        stats: RegistryStats,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        url = parse_registry_url(settings.url)
        self.name: Final = settings.name
        self._hosts: Final = hosts_text(url.hosts)
        self._root: Final = url.path
        self._paths: Final = Paths(url.path)
        self._delay: Final = float(settings.coalesce)
        self._receiver: Final = receiver
        self._stats: Final = stats
        self._loop: Final = loop
        self._table: Final = PathTable()
        self._slots: Final[dict[str, Slot]] = {}
        credentials = f"{settings.username}:{settings.password}" if settings.username else ""
        self._client: Final = ZooKeeperClient(
            self._hosts, float(settings.session_timeout), credentials, loop, self._take
        )
        self._timer: asyncio.TimerHandle | None = None
        self._supervisor: asyncio.TimerHandle | None = None
        self._is_soon = False
        self._is_stopped = False
        self._reminded_at = 0.0

    def start(self) -> None:
        """Begin to connect."""
        self._client.start()
        self._reminded_at = self._loop.time()
        self._supervisor = self._loop.call_later(SUPERVISION, self._supervise)

    async def stop(self) -> None:
        """Close the session, in a few seconds at most."""
        self._is_stopped = True
        for timer in (self._timer, self._supervisor):
            if timer is not None:
                timer.cancel()
        await self._client.stop()

    def watch(self, slot: Slot) -> None:
        """Read a slot, and again when it changes."""
        path = self._paths.path_of(slot)
        self._slots[path] = slot
        is_rule = slot.kind == RULE
        # Most rule nodes do not exist: asking for existence settles them in one request.
        self._table.watch(
            path, RULE_DELAY if is_rule else self._delay, self._loop.time(), asks_existence=is_rule
        )
        self._tick_soon()

    def unwatch(self, slot: Slot) -> None:
        """Forget a slot; its watch on the server fires once more at most, into nothing."""
        path = self._paths.path_of(slot)
        if self._slots.pop(path, None) is not None:
            self._table.unwatch(path)
            self._tick_soon()

    def view(self) -> dict[str, Any]:
        """Return the state for people."""
        return {
            "kind": "zookeeper",
            "hosts": self._hosts,
            "root": self._root,
            "connected": self._table.is_linked,
            "paths": self._table.states(),
        }

    def _take(self, items: list[Item]) -> None:
        now = self._loop.time()
        for item in items:
            try:
                self._handle(item, now)
            except Exception:  # a defect must not cost the events behind it
                self._stats.fail("internal")
                _logger.exception("registry %s: %s is not taken in", self.name, item.path)
        self._stats.events = self._table.events
        self._tick()

    def _handle(self, item: Item, now: float) -> None:
        if item.kind == LINKED:
            self._link(now)
        elif item.kind == LOST:
            self._lose(now)
        elif item.kind == FIRED:
            self._table.fired(item.path, item.token, now)
        else:
            self._answer(item, now)

    def _link(self, now: float) -> None:
        _logger.info("registry %s: connected to %s", self.name, self._hosts)
        self._table.linked(now)
        self._receiver.linked(self.name)

    def _lose(self, now: float) -> None:
        if self._table.is_linked:
            _logger.warning("registry %s: connection lost; lists stay in use", self.name)
            self._reminded_at = now
            self._table.lost(now)
            self._receiver.lost(self.name)

    def _answer(self, item: Item, now: float) -> None:
        self._stats.reads += 1
        event = _event_of(item)
        back_off = _BACK_OFFS.get(item.value, ERROR_BACK_OFF) if item.kind == FAILED else None
        if not self._table.replied(item.path, item.token, event, now, back_off or ERROR_BACK_OFF):
            return
        slot = self._slots[item.path]
        if item.kind == FAILED:
            self._receiver.failed(self.name, slot, item.value)
        elif item.kind == CHILDREN:
            self._receiver.listed(self.name, slot, item.value)
        elif item.kind == CONTENT:
            data, version = item.value
            # Bytes that are no text become characters that no rule may contain.
            text = data.decode("utf-8", "surrogateescape")
            self._receiver.text(self.name, slot, text, version)
        elif event == machine.GONE:
            if slot.kind == RULE:
                self._receiver.text(self.name, slot, "", 0)
            else:
                self._receiver.listed(self.name, slot, ())

    def _tick_soon(self) -> None:
        if not self._is_soon:
            self._is_soon = True
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._is_soon = False
        if self._is_stopped:
            return
        for request in self._table.tick(self._loop.time()):
            self._send(request)
        for path in self._table.take_overdue():
            self._receiver.failed(self.name, self._slots[path], TIMEOUT)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._table.next_due()
        if due:
            self._timer = self._loop.call_at(due, self._tick)

    def _send(self, request: Request) -> None:
        send: Callable[[str, int], None]
        if request.is_probe:
            send = self._client.exists
        elif self._slots[request.path].kind == RULE:
            send = self._client.get
        else:
            send = self._client.get_children
        send(request.path, request.token)

    def _supervise(self) -> None:
        """Replace a client that died, and say from time to time that nothing can be reached."""
        if not self._table.is_linked:
            now = self._loop.time()
            if self._client.is_dead:
                self._stats.fail("client")
                self._client.restart()
            if now - self._reminded_at >= REMIND:
                self._reminded_at = now
                _logger.warning("registry %s: cannot reach %s", self.name, self._hosts)
        self._supervisor = self._loop.call_later(SUPERVISION, self._supervise)


def _event_of(item: Item) -> int:
    if item.kind == EXISTENCE:
        return machine.FOUND if item.value else machine.GONE
    if item.kind == NO_NODE:
        return machine.MISSING
    return machine.REFUSED if item.kind == FAILED else machine.LISTED
