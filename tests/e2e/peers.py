"""Real Java Dubbo peers: compiled once per Dubbo version by Maven, driven over standard streams.

A provider serves until it is told to stop. A consumer obeys one line at a time and answers with one
JSON object, so that a single JVM serves many tests. Neither knows the sidecar: the consumer has a
direct URL, the provider registers in ZooKeeper at interface level.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

PROJECT = Path(__file__).parent / "java"
INTERFACE = "org.example.peer.Greeter"
STREAMS = "org.example.peer.tri.Streams"
TEA = "org.example.peer.tri.Tea"  # its path on the wire is org.example.tea.Tea
MENU = "org.example.peer.rest.Menu"  # its paths begin with /api/menu/
HASTY = "?dubbo.application.least-reconnect-duration=1000&heartbeat=1000"
"""For Triple consumers: after a lost connection they try once after a second, then again and again
after the longer of these two, which are a minute each unless they are given."""

LOOPBACK_NAME = "sidecar"  # in the hosts file of every Java process
BUILD_LIMIT = 300.0
START_LIMIT = 60.0
ANSWER_LIMIT = 60.0
SHUTDOWN_WAIT_MS = 3000
"""How long a stopping provider waits for its calls; Dubbo's default of 10 s makes slow tests."""

UNREACHABLE = (
    "Could not resolve",
    "Could not transfer",
    "Non-resolvable",
    "Cannot access",
    "No plugin found",
    "PluginResolutionException",
)
"""What Maven says when it has no repository to load from, as opposed to a source that is wrong."""


class PeersUnavailableError(Exception):
    """This machine cannot build the Java peers."""


@dataclass(frozen=True)
class Version:
    """One Dubbo release line and the Curator line that its ZooKeeper client is written for."""

    name: str
    dubbo: str
    curator: str

    @property
    def is_legacy(self) -> bool:
        """Whether this is the 2.7 line."""
        return self.name == "2.7"

    @property
    def left_out(self) -> tuple[str, str]:
        """The sources that need what this line does not have: Triple and its HTTP interface."""
        missing = {"2.7": ("tri", "rest"), "3.2": ("rest", "rest"), "3.3": ("-", "-")}
        first, second = missing[self.name]
        return f"org/example/peer/{first}/**", f"org/example/peer/{second}/**"

    @property
    def needs_opens(self) -> bool:
        """Whether its Hessian reads private fields of the JDK (up to 3.2: of every exception)."""
        return self.name != "3.3"

    def __str__(self) -> str:
        return self.name


VERSIONS = (
    Version("2.7", "2.7.23", "4.3.0"),
    Version("3.2", "3.2.19", "5.9.0"),
    Version("3.3", "3.3.6", "5.9.0"),
)


def build(version: Version) -> str:
    """Compile the peers against one Dubbo version and return their class path.

    Nothing is done when the sources did not change since the last time.
    Raises ``PeersUnavailableError`` without Java or Maven, or when Maven cannot load Dubbo;
    ``RuntimeError`` with Maven's output when the sources do not compile.
    """
    if shutil.which("java") is None or shutil.which("mvn") is None:
        raise PeersUnavailableError("no java or no mvn")
    target = PROJECT / "target" / version.dubbo
    stamp, wanted = target / "stamp", _fingerprint(version)
    if not (stamp.exists() and stamp.read_text() == wanted):
        _compile(version)
        stamp.write_text(wanted)
    return f"{target / 'classes'}:{(target / 'classpath').read_text().strip()}"


def _fingerprint(version: Version) -> str:
    digest = hashlib.sha256(repr(version).encode())
    for path in [PROJECT / "pom.xml", *sorted((PROJECT / "src").rglob("*.*"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _compile(version: Version) -> None:
    shutil.rmtree(PROJECT / "target" / version.dubbo, ignore_errors=True)
    arguments = ["-q", "-B", f"-Ddubbo.version={version.dubbo}"]
    arguments += [f"-Dcurator.version={version.curator}"]
    arguments += [f"-Dleft.out={version.left_out[0]}", f"-Dleft.out.too={version.left_out[1]}"]
    arguments += ["compile"]
    output = ""
    for offline in (["-o"], []):  # the local repository answers faster when it has everything
        run = subprocess.run(
            ["mvn", *offline, *arguments],
            cwd=PROJECT, capture_output=True, text=True, timeout=BUILD_LIMIT, check=False,
        )  # fmt: skip
        if run.returncode == 0:
            return
        output = run.stdout + run.stderr
    if any(phrase in output for phrase in UNREACHABLE):
        raise PeersUnavailableError(f"Maven cannot load Dubbo {version.dubbo}: {output[:600]}")
    raise RuntimeError(f"the Java peers do not compile against Dubbo {version.dubbo}:\n{output}")


def free_port(count: int = 1) -> int:
    """Return a loopback port that nothing listens on at this moment, nor on the next ones."""
    while True:
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            first = 0
            for offset in range(count):
                probe = probes.enter_context(socket.socket())
                probe.bind(("127.0.0.1", first and first + offset))
                first = first or probe.getsockname()[1]
            return first


class Peer:
    """One Java process; ``directory`` receives its log and Dubbo's own files."""

    def __init__(
        self,
        version: Version,
        main: str,
        directory: Path,
        words: list[str],
        sees_network: bool = False,
    ) -> None:
        self.version = version
        self.log = directory / f"{main}-{version}-{free_port()}.log"
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*_java(version, directory, sees_network), f"org.example.peer.{main}", *words],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=directory,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._is_ready = False

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # anything else is a library talking on its own
                self._answers.put(line)
        self._answers.put("")

    def answer(self, limit: float = ANSWER_LIMIT) -> dict[str, Any]:
        """Return the next answer. Raises ``RuntimeError`` with the log when there is none."""
        line = ""
        with contextlib.suppress(queue.Empty):
            line = self._answers.get(timeout=limit)
        if not line:
            text = self.log.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{self.log.name}: no answer (rc {self._process.poll()})\n{text}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def say(self, verb: str, **values: object) -> dict[str, Any]:
        """Give one order and return its answer; ``at_`` and ``p_`` prefixes see ``encode``."""
        self.wait_ready()
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join([verb, *encode(values)]) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def wait_ready(self) -> None:
        """Wait until the process obeys; starting several and then waiting saves time."""
        if not self._is_ready:
            self.answer(START_LIMIT)
            self._is_ready = True

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def wait(self, limit: float = 30.0) -> int:
        """Wait for the process to end and return its exit code."""
        return self._process.wait(limit)

    def terminate(self) -> None:
        """Ask for the graceful end (SIGTERM) and return at once."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once, connections and registry session left behind."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End the process however it stands and free its pipes."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _java(version: Version, directory: Path, sees_network: bool) -> list[str]:
    hosts = directory / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {LOOPBACK_NAME} {socket.gethostname()}\n")
    command = [
        "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
        "-Djava.net.preferIPv4Stack=true",
        "-Ddubbo.application.logger=jdk",
        "-Ddubbo.application.qos-enable=false",
        f"-Ddubbo.service.shutdown.wait={SHUTDOWN_WAIT_MS}",
        f"-Djdk.net.hosts.file={hosts}",
        f"-Duser.home={directory}",
        f"-Djava.util.logging.config.file={PROJECT / 'src/main/resources/logging.properties'}",
    ]  # fmt: skip
    if not sees_network:
        # Dubbo takes the first public address of the machine unless there is none, also where a URL
        # says 127.0.0.1.
        command.append("-Ddubbo.network.interface.ignored=.*")
    if version.needs_opens:
        for package in ("java.lang", "java.util", "java.math", "java.io"):
            command += ["--add-opens", f"java.base/{package}=ALL-UNNAMED"]
    return [*command, "-cp", build(version)]


def encode(values: dict[str, object]) -> list[str]:
    """Return ``key=value`` words.

    ``at_a__b`` becomes the attachment ``@a.b`` and ``p_a__b`` the URL parameter ``p.a.b``.
    """
    words = []
    for key, value in values.items():
        name = key
        for prefix, mark in (("at_", "@"), ("p_", "p.")):
            if key.startswith(prefix):
                name = mark + key.removeprefix(prefix).replace("__", ".")
        words.append(f"{name}={quote_plus(str(value))}")
    return words


class ProviderHost(Peer):
    """A provider process without a service yet; one process can offer many."""

    def __init__(self, version: Version, directory: Path, application: str = "greeter") -> None:
        super().__init__(version, "Provider", directory, encode({"application": application}))

    def export(self, /, **words: object) -> int:
        """Offer a service on a port of its own, or one for each protocol; return the first."""
        protocols = str(words.get("protocol", "")).split(",")
        port = int(str(words.setdefault("port", free_port(len(protocols)))))
        words.setdefault("name", f"p{self.version}")
        answer = self.say("export", **words)
        if "thrown" in answer:
            raise RuntimeError(f"{self.version}: {answer}")
        return port

    def unexport(self, name: str) -> None:
        """Take back the service that was offered under a name."""
        self.say("unexport", name=name)


class Provider(ProviderHost):
    """A provider process with one service, which serves when the constructor returns."""

    def __init__(
        self, version: Version, directory: Path, /, application: str = "greeter", **words: object
    ) -> None:
        super().__init__(version, directory, application)
        try:
            self.port = self.export(**words)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The direct URL of this provider."""
        return f"dubbo://127.0.0.1:{self.port}"


class Consumer(Peer):
    """A consumer process; one process can hold many references."""

    def __init__(self, version: Version, directory: Path, sees_network: bool = False) -> None:
        super().__init__(version, "Consumer", directory, [], sees_network)
        self._references = 0

    def refer(self, url: str, **words: object) -> Reference:
        """Make a reference to the service behind a direct URL (``;`` separates several)."""
        self._references += 1
        reference = Reference(self, f"r{self._references}")
        answer = self.say("refer", ref=reference.name, url=url, **words)
        if "thrown" in answer:
            raise RuntimeError(f"{self.version}: {answer}")
        return reference


class Reference:
    """One service reference inside a consumer."""

    def __init__(self, consumer: Consumer, name: str) -> None:
        self.consumer = consumer
        self.name = name

    def call(self, method: str = "hello", arg: object = "bob", **words: object) -> dict[str, Any]:
        """Make one call; the answer has ``value``, or ``thrown``, ``code`` and ``message``."""
        return self.consumer.say("call", ref=self.name, method=method, arg=arg, **words)

    def value(self, method: str = "hello", arg: object = "bob", **words: object) -> Any:
        """Make one call that must succeed and return its value."""
        answer = self.call(method, arg, **words)
        assert "value" in answer, answer
        return answer["value"]

    def start(self, **words: object) -> None:
        """Start calls in the background."""
        self.consumer.say("load", ref=self.name, **words)

    def finish(self, now: bool = True) -> dict[str, Any]:
        """End the background calls, at once or when their count ``n`` is used up."""
        return self.consumer.say("unload", ref=self.name, now=str(now).lower())

    def many(self, n: int, **words: object) -> dict[str, Any]:
        """Make n calls and return the histogram of who answered and the failures."""
        self.start(n=n, **words)
        return self.finish(now=False)

    def destroy(self) -> None:
        """Give the reference back."""
        self.consumer.say("destroy", ref=self.name)


def wait_until(condition: Any, limit: float = 20.0, what: str = "") -> None:
    """Poll a condition until it is true; fails the test when it does not come true in time."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"not within {limit} s: {what}"
        time.sleep(0.05)


def environment() -> dict[str, str]:
    """The environment for a child process that must find this checkout."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": root}
