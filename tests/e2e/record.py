"""Records what real Java peers say, as test vectors for the codecs and the provider URL parser.

``python -m tests.e2e.record`` runs a consumer and a provider of each Dubbo version with a relay
between them and rewrites ``tests/vectors/dubbo/java-*/`` and ``tests/vectors/provider_url/java-*``.
The relay cuts frames on its own, so the vectors do not depend on the code that they test.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e.peers import VERSIONS, Consumer, Provider, Reference, Version, wait_until
from tests.fixtures.zookeeper import ZooKeeperServer, find_classpath

VECTORS = Path(__file__).parents[1] / "vectors"
HEADER = 16
LARGEST_KEPT = 64 * 1024
"""Bigger frames teach a codec nothing more and make the repository heavy."""

RECEIVE = 64 * 1024
GOLDEN = "org.example.peer.Greeter"


class Frames:
    """Cuts a byte stream at Dubbo's frame borders."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are complete by now."""
        self._rest += data
        found = []
        while len(self._rest) >= HEADER:
            size = HEADER + int.from_bytes(self._rest[12:16], "big")
            if len(self._rest) < size:
                break
            found.append(self._rest[:size])
            self._rest = self._rest[size:]
        return found


class Relay:
    """A TCP relay in front of one provider that keeps every frame of either direction."""

    scheme = "dubbo"
    cutter: type[Any] = Frames

    def __init__(self, port: int) -> None:
        self._target = port
        self.up: list[Any] = []
        self.down: list[Any] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The direct URL of the relay."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                consumer, _ = self._listener.accept()
            except OSError:
                return
            try:
                provider = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # it has ended; the consumer sees its connection close
                consumer.close()
                continue
            for source, sink, kept in (
                (consumer, provider, self.up),
                (provider, consumer, self.down),
            ):
                pump = (source, sink, kept, self.cutter())
                threading.Thread(target=_pump, args=pump, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections; open ones end with their peers."""
        self._listener.close()


def _pump(source: socket.socket, sink: socket.socket, kept: list[Any], frames: Any) -> None:
    with source, contextlib.suppress(OSError):
        while data := source.recv(RECEIVE):
            kept += frames.feed(data)
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)  # ends the other direction, which closes it


class Book:
    """The vector files of one Dubbo version."""

    def __init__(self, version: Version) -> None:
        self.directory = VECTORS / "dubbo" / f"java-{version.dubbo}"
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)

    def write(self, name: str, meaning: str, frame: bytes) -> None:
        """Write one frame with its meaning."""
        if len(frame) <= LARGEST_KEPT:
            (self.directory / f"{name}.hex").write_text(f"# {meaning}\n{frame.hex()}\n")


Exchange = tuple[str, str, dict[str, object]]

EXCHANGES: tuple[Exchange, ...] = (
    ("sync", "hello(String) called synchronously", {}),
    ("async", "helloLater(String), whose result is a CompletableFuture", {"method": "helloLater"}),
    ("context", "hello(String) through RpcContext.asyncCall", {"mode": "context"}),
    ("exception", "fail(String), which throws a checked exception", {"method": "fail"}),
    ("no-arguments", "who() with dubbo.tag=gray set by the user, answered by a map of strings",
     {"method": "who", "at_dubbo__tag": "gray"}),
    ("forced-tag", "hello(String) with dubbo.tag=gray and dubbo.force.tag=true",
     {"at_dubbo__tag": "gray", "at_dubbo__force__tag": "true"}),
    ("void", "post(String), two-way, answered by null", {"method": "post"}),
    ("one-way", "post(String), one-way, never answered", {"mode": "oneway"}),
    ("objects", "place(Order, Order): two objects that share one class definition; "
     "a note inside the argument is called dubbo.tag but is no attachment", {"method": "place"}),
    ("unicode", "hello(String) with text outside ASCII and outside the basic plane",
     {"arg": "\u8336 \U0001f375 \u00e9"}),
    ("long-text", "hello(String) with 40,000 characters, more than one chunk",
     {"arg": "x" * 40_000}),
    ("bytes", "echoBytes(byte[]) with 9,000 bytes", {"method": "echoBytes", "arg": 9000}),
    ("int", "slow(int), answered by a text", {"method": "slow", "arg": 1}),
    ("int-reply", "posted(), answered by an int", {"method": "posted"}),
    ("echo", "$echo(Object)", {"mode": "echo", "arg": "OK"}),
)  # fmt: skip

GENERIC: tuple[Exchange, ...] = (
    ("generic", "$invoke of hello(String)", {"mode": "generic"}),
    ("generic-object", "$invoke of place(Order, Order) with maps as arguments",
     {"mode": "generic", "method": "place"}),
    ("generic-exception", "$invoke of fail(String), answered by a GenericException",
     {"mode": "generic", "method": "fail"}),
)  # fmt: skip


def record_exchanges(
    book: Book, relay: Relay, reference: Reference, exchanges: tuple[Exchange, ...], prefix: str
) -> None:
    """Make each call once and write what crossed the relay meanwhile."""
    for name, meaning, words in exchanges:
        relay.up.clear()
        relay.down.clear()
        reference.call(**words)  # type: ignore[arg-type]
        wait_until(lambda: relay.up, what=f"{name} reaches the relay")
        for frame in relay.up:
            book.write(f"{prefix}{name}.request", f"{meaning}: request", frame)
        for frame in relay.down:
            book.write(f"{prefix}{name}.reply", f"{meaning}: reply", frame)


def record_heartbeat(book: Book, consumer: Consumer, relay: Relay, prefix: str, query: str) -> None:
    """Write the heartbeat of an idle consumer and the provider's answer."""
    relay.up.clear()
    relay.down.clear()
    mark = "&" if query else "?"
    reference = consumer.refer(f"{relay.url}{query}{mark}heartbeat=1000", connections=1)
    wait_until(lambda: relay.up and relay.down, what="heartbeat")
    book.write(f"{prefix}heartbeat.request", "heartbeat of an idle consumer", relay.up[0])
    book.write(f"{prefix}heartbeat.reply", "the provider's answer to it", relay.down[0])
    reference.destroy()


def record_shutdown(book: Book, relay: Relay, provider: Provider) -> None:
    """Write what a provider sends when it is stopped gracefully."""
    relay.down.clear()
    provider.terminate()
    provider.wait()
    time.sleep(0.2)
    meaning = "what a provider sends on every connection when it gets SIGTERM"
    bodies = {frame[HEADER:]: frame for frame in relay.down}
    for number, frame in enumerate(bodies.values()):
        book.write(f"shutdown-{number}.event", meaning, frame)


def record_version(version: Version, directory: Path, zookeeper: ZooKeeperServer) -> None:
    """Record one Dubbo version talking to itself."""
    book = Book(version)
    consumer = Consumer(version, directory)
    offered = {} if version.is_legacy else {"p_prefer__serialization": "fastjson2,hessian2"}
    provider = Provider(version, directory, **offered)
    relay = Relay(provider.port)
    try:
        for prefix, query in _serializations(version):
            plain = consumer.refer(relay.url + query)
            record_exchanges(book, relay, plain, EXCHANGES, prefix)
            generic = consumer.refer(relay.url + query, generic="true")
            record_exchanges(book, relay, generic, GENERIC, prefix)
            timed = consumer.refer(relay.url + query, timeout=2345)
            with_timeout: Exchange = ("timeout", "hello(String), timeout of 2345 ms configured", {})
            record_exchanges(book, relay, timed, (with_timeout,), prefix)
            countdown = consumer.refer(relay.url + query, timeout=2345, **COUNTDOWN)
            counted: Exchange = ("countdown", "hello(String) with enable-timeout-countdown", {})
            record_exchanges(book, relay, countdown, (counted,), prefix)
            for reference in (plain, generic, timed, countdown):
                reference.destroy()
            record_heartbeat(book, consumer, relay, prefix, query)
        last = consumer.refer(relay.url)
        last.value()
        record_shutdown(book, relay, provider)
    finally:
        relay.close()
        provider.close()
        consumer.close()
    record_names(version, directory, zookeeper)


COUNTDOWN: dict[str, object] = {"p_enable-timeout-countdown": "true"}


def _serializations(version: Version) -> tuple[tuple[str, str], ...]:
    hessian = ("", "")
    fastjson = ("fastjson2-", "?serialization=fastjson2&prefer.serialization=fastjson2")
    return (hessian,) if version.is_legacy else (hessian, fastjson)


NAMES: tuple[tuple[str, dict[str, object]], ...] = (
    ("plain", {}),
    ("all-options", {
        "group": "gray", "version": "1.0.0", "token": "s3cret", "tag": "gray", "weight": 50,
        "timeout": 1500, "p_zone": "bj-a", "application": "greeter-gray",
    }),
    ("custom-path", {"path": "custom/greeter", "p_note": "a b~c*\u8336"}),
)  # fmt: skip


def record_names(version: Version, directory: Path, zookeeper: ZooKeeperServer) -> None:
    """Write the names under which a provider registers, as ZooKeeper lists them."""
    lines = []
    path = f"/dubbo/{GOLDEN}/providers"
    for meaning, words in NAMES:
        zookeeper.wipe()
        provider = Provider(version, directory, registry=f"zookeeper://{zookeeper.hosts}", **words)
        try:
            wait_until(_has_children(zookeeper, path), what="registration")
            lines += [f"# {meaning}", *zookeeper.admin.get_children(path)]
        finally:
            provider.close()
    target = VECTORS / "provider_url" / f"java-{version.dubbo}.txt"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n")


def _has_children(zookeeper: ZooKeeperServer, path: str) -> Callable[[], bool]:
    return lambda: bool(
        zookeeper.admin.exists(path) is not None and zookeeper.admin.get_children(path)
    )


def main() -> None:
    """Record all versions."""
    with tempfile.TemporaryDirectory() as name:
        zookeeper = ZooKeeperServer(Path(name), find_classpath())
        zookeeper.start()
        try:
            for version in VERSIONS:
                print(f"recording Dubbo {version.dubbo}")
                record_version(version, Path(name), zookeeper)
        finally:
            zookeeper.close()


if __name__ == "__main__":
    main()
