"""The ZooKeeper client as a stream of items: kazoo behind a narrow door.

Only kazoo's raw requests are used. Its watch recipes start threads, stop for good when a node is
missing, and re-read on every event; what they do is done by the path machine instead.

kazoo has three threads of its own. Everything that happens in them is turned into an item and
handed to the event loop; everything that may block (start, stop) is done in a thread that may be
left behind. A client that died - kazoo ends its connection thread on errors it does not expect - is
replaced by a new one; items of the old one are recognised by their epoch and dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    NoAuthError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent

from sidecar.registry.bridge import Bridge

# Kinds of items.
LINKED: Final = 0
LOST: Final = 1
FIRED: Final = 2
CHILDREN: Final = 3
CONTENT: Final = 4
EXISTENCE: Final = 5
NO_NODE: Final = 6
FAILED: Final = 7

# Kinds of failures.
NO_AUTH: Final = "noauth"
CONNECTION: Final = "connection"
OVERSIZE: Final = "oversize"
ERROR: Final = "error"

# A list of 27,000 providers; kazoo has no limit of its own, and ZooKeeper sends what it has.
MAX_LIST_CHARACTERS: Final = 16 * 1024 * 1024
RETRY_MIN: Final = 0.1
RETRY_MAX: Final = 5.0  # kazoo's own default grows to an hour
STOP_LIMIT: Final = 5.0
CONNECT_LIMIT: Final = 5.0  # seconds until the next host is tried; kazoo takes a session timeout

_DEAD: Final = (KeeperState.CLOSED, KeeperState.AUTH_FAILED)
_kazoo_logger = logging.getLogger("kazoo")


class _Handler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's handler of threads, less patient with a host that swallows packets."""

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        options["timeout"] = min(options.get("timeout", CONNECT_LIMIT), CONNECT_LIMIT)
        return super().create_connection(*arguments, **options)


class Item(NamedTuple):
    """Something that happened. ``path`` and ``token`` are those of the request it belongs to.

    ``value`` is a list of names (CHILDREN), data and version (CONTENT), a flag (EXISTENCE) or a
    failure kind (FAILED).
    """

    epoch: int
    kind: int
    path: str = ""
    token: int = 0
    value: Any = None


def failure_kind(error: BaseException) -> str:
    """Return the kind of a failed request."""
    if isinstance(error, NoAuthError):
        return NO_AUTH
    if isinstance(error, ConnectionLoss | ConnectionClosedError | SessionExpiredError):
        return CONNECTION
    return ERROR


@final
class ZooKeeperClient:
    """Requests and their answers for one ensemble; ``take`` gets the items in the loop."""

    def __init__(
        self,
        hosts: str,
        session_timeout: float,
        credentials: str,
        loop: asyncio.AbstractEventLoop,
        take: Callable[[list[Item]], None],
        max_list: int = MAX_LIST_CHARACTERS,
    ) -> None:
        self._hosts: Final = hosts
        self._session_timeout: Final = session_timeout
        self._credentials: Final = credentials
        self._loop: Final = loop
        self._take: Final = take
        self._max_list: Final = max_list
        self._bridge: Final[Bridge[Item]] = Bridge(loop, self._deliver)
        self._client: KazooClient | None = None
        self._epoch = 0

    def start(self) -> None:
        """Connect with a new client, for as long as it takes."""
        self._epoch += 1
        epoch = self._epoch
        retry = {"max_tries": -1, "delay": RETRY_MIN, "max_delay": RETRY_MAX}
        client = KazooClient(
            hosts=self._hosts,
            timeout=self._session_timeout,
            handler=_Handler(),
            auth_data=[("digest", self._credentials)] if self._credentials else None,
            connection_retry=retry,
            command_retry=retry,
            logger=_kazoo_logger,
        )
        client.add_listener(lambda state: self._put_state(epoch, state))
        self._client = client
        _in_thread(client.start_async)

    @property
    def is_dead(self) -> bool:
        """True when kazoo has given up, or has not begun yet, so that only a new client helps."""
        return self._client is not None and self._client.client_state in _DEAD

    def restart(self) -> None:
        """Replace a dead client."""
        old = self._client
        assert old is not None  # noqa: S101 - restart follows start
        self.start()
        _in_thread(lambda: _end(old))

    async def stop(self) -> None:
        """Close the session; a client that does not end in time is left to its threads."""
        self._bridge.close()
        client, self._client = self._client, None
        if client is None:
            return
        ended = asyncio.Event()

        def end() -> None:
            _end(client)
            with contextlib.suppress(RuntimeError):  # it took too long, and the loop is closed
                self._loop.call_soon_threadsafe(ended.set)

        _in_thread(end)
        try:
            await asyncio.wait_for(ended.wait(), STOP_LIMIT)
        except TimeoutError:
            _kazoo_logger.warning("the client of %s did not stop in time", self._hosts)

    def get_children(self, path: str, token: int) -> None:
        """Ask for the names below a node, and set a watch on them."""
        assert self._client is not None  # noqa: S101 - requests follow start
        watch = self._watch(path, token)
        result = self._client.get_children_async(path, watch=watch, include_data=True)
        self._link(result, CHILDREN, path, token)

    def get(self, path: str, token: int) -> None:
        """Ask for the data of a node, and set a watch on it."""
        assert self._client is not None  # noqa: S101 - requests follow start
        result = self._client.get_async(path, watch=self._watch(path, token))
        self._link(result, CONTENT, path, token)

    def exists(self, path: str, token: int) -> None:
        """Ask whether a node exists, and set a watch for its creation."""
        assert self._client is not None  # noqa: S101 - requests follow start
        result = self._client.exists_async(path, watch=self._watch(path, token))
        self._link(result, EXISTENCE, path, token)

    def _watch(self, path: str, token: int) -> Callable[[WatchedEvent], None]:
        epoch = self._epoch

        def fired(event: WatchedEvent) -> None:
            # When a connection breaks, kazoo calls every watch with an event of type NONE. That is
            # no change, and the listener has told about the connection already.
            if event.type != EventType.NONE:
                self._bridge.put(Item(epoch, FIRED, path, token))

        return fired

    def _link(self, result: Any, kind: int, path: str, token: int) -> None:
        epoch = self._epoch
        result.rawlink(
            lambda answer: self._bridge.put(self._item(epoch, kind, path, token, answer))
        )

    def _item(self, epoch: int, kind: int, path: str, token: int, answer: Any) -> Item:
        error = answer.exception
        if isinstance(error, NoNodeError):
            return Item(epoch, NO_NODE, path, token)
        if error is not None:
            return Item(epoch, FAILED, path, token, failure_kind(error))
        value = answer.value
        if kind == CHILDREN:
            names = value[0]
            if sum(map(len, names)) > self._max_list:
                return Item(epoch, FAILED, path, token, OVERSIZE)
            return Item(epoch, CHILDREN, path, token, names)
        if kind == CONTENT:
            return Item(epoch, CONTENT, path, token, (value[0], value[1].mzxid))
        return Item(epoch, EXISTENCE, path, token, value is not None)

    def _put_state(self, epoch: int, state: KazooState) -> None:
        self._bridge.put(Item(epoch, LINKED if state == KazooState.CONNECTED else LOST))

    def _deliver(self, items: list[Item]) -> None:
        self._take([item for item in items if item.epoch == self._epoch])


def _in_thread(action: Callable[[], Any]) -> None:
    # Daemons, so that a client that hangs does not hold the process.
    threading.Thread(target=action, name="zookeeper", daemon=True).start()


def _end(client: KazooClient) -> None:
    try:
        client.stop()
        client.close()
    except Exception as error:  # noqa: BLE001 - a dead client may fail in any way
        _kazoo_logger.debug("a client ended with %r", error)
