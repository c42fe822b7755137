"""The whole scene of an end-to-end test: Java peers, a registry and the sidecar between them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.peers import (
    INTERFACE,
    MENU,
    STREAMS,
    TEA,
    VERSIONS,
    Consumer,
    ProviderHost,
    Reference,
    Version,
    free_port,
    wait_until,
)
from tests.e2e.sidecar_process import COALESCE, SidecarProcess
from tests.fixtures.zookeeper import ZooKeeperServer

DIRECT, SIDECAR = "direct", "sidecar"
"""The two ways of a call that must give the same outcome."""

WRITTEN = """
  - name: written
    url: "file://{file}"
    allow_networks: ["127.0.0.0/8"]
"""

BOTH = "tri,dubbo"
"""Triple on a provider's port and Dubbo TCP on the next one."""


class JavaPeers:
    """One consumer process and one provider process per Dubbo version."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._consumers: dict[Version, Consumer] = {}
        self._hosts: dict[Version, ProviderHost] = {}
        self._offers: dict[tuple[Version, str], int] = {}
        self._references: dict[tuple[Version, str, str], Reference] = {}

    def start(self) -> None:
        """Start every process at once, which takes less time than one after the other."""
        for version in VERSIONS:
            self._consumers[version] = Consumer(version, self.directory)
            self._hosts[version] = ProviderHost(version, self.directory)
        for peer in [*self._consumers.values(), *self._hosts.values()]:
            peer.wait_ready()

    def consumer(self, version: Version) -> Consumer:
        """The consumer process of a version."""
        return self._consumers[version]

    def host(self, version: Version) -> ProviderHost:
        """The provider process of a version."""
        return self._hosts[version]

    def offer(self, version: Version, name: str, /, **words: object) -> tuple[int, bool]:
        """Let the version's provider process offer a service once.

        Returns its port and whether it was offered just now.
        """
        key = (version, name)
        is_new = key not in self._offers
        if is_new:
            self._offers[key] = self.host(version).export(name=name, **words)
        return self._offers[key], is_new

    def reference(self, version: Version, url: str, /, **words: object) -> Reference:
        """Return the consumer's reference for these words, made once."""
        key = (version, url, repr(sorted(words.items())))
        if key not in self._references:
            self._references[key] = self.consumer(version).refer(url, **words)
        return self._references[key]

    def close(self) -> None:
        """End every process."""
        for peer in [*self._consumers.values(), *self._hosts.values()]:
            peer.close()


class Fleet:
    """The Java peers, the registry they use and the sidecar between them."""

    def __init__(self, peers: JavaPeers, zookeeper: ZooKeeperServer, directory: Path) -> None:
        self.peers = peers
        self.zookeeper = zookeeper
        self.file = directory / "registry.yaml"
        self.file.write_text('{"providers": []}')
        self.sidecar = SidecarProcess(
            directory,
            zookeeper.url,
            preload=(INTERFACE, STREAMS, TEA, MENU),
            registries=WRITTEN.format(file=self.file),
            paths={"/org.example.tea.Tea/": TEA, "/api/menu/": MENU},
        )
        self.registry = f"zookeeper://{zookeeper.hosts}"
        self._ports: dict[tuple[Version, object], int] = {}
        self._changed_at = 0.0

    def offer(self, version: Version, name: str, /, **words: object) -> int:
        """Register a service of the version's provider process once and return its port.

        Unless a port is given, the services of one process and protocol share one, as they do in
        real life.
        """
        if "port" not in words:
            words["port"] = self._ports.setdefault((version, words.get("protocol")), free_port())
        port, is_new = self.peers.offer(version, name, registry=self.registry, **words)
        if is_new:
            self._changed_at = time.monotonic()
        return port

    def wait_known(self, interface: str = INTERFACE) -> None:
        """Wait until the sidecar has read what the registry lists.

        Equal numbers alone would not do: one name may have gone while another came.
        """
        path = f"/dubbo/{interface}/providers"
        time.sleep(max(0.0, self._changed_at + 2 * COALESCE - time.monotonic()))
        wait_until(
            lambda: self.sidecar.listed(interface) == len(self.zookeeper.admin.get_children(path)),
            what="the sidecar has read every name",
        )

    def reference(self, version: Version, query: str = "", /, **words: object) -> Reference:
        """Return the version's reference through the sidecar for these words."""
        self.wait_known()
        return self.peers.reference(version, self.sidecar.url + query, **words)

    def triple(
        self, via: str, caller: Version, callee: Version, name: str, /, **words: object
    ) -> Reference:
        """Offer a Triple service under a name that is its group as well; return a reference to it.

        Words that begin with ``offer_`` are for the provider, the others for the consumer.
        """
        interface = str(words.get("interface", INTERFACE))
        offered: dict[str, object] = {"interface": interface, "protocol": "tri", "group": name}
        asked: dict[str, object] = {"group": name}
        for key, word in words.items():
            own = key.removeprefix("offer_")
            (asked if own == key else offered)[own] = word
        return self.triple_to(via, caller, self.offer(callee, name, **offered), **asked)

    def triple_to(self, via: str, caller: Version, port: int, /, **words: object) -> Reference:
        """Return a Triple reference to a provider's port, or to the sidecar instead."""
        url = f"tri://127.0.0.1:{port}"
        if via == SIDECAR:
            self.wait_known(str(words.get("interface", INTERFACE)))
            url = self.sidecar.triple_url
        return self.peers.reference(caller, url, **words)

    def write_down(self, version: Version, name: str, /, **words: object) -> None:
        """Offer a service that is in no ZooKeeper and write its URL into the file registry.

        The sidecar knows it a second later.
        """
        port, is_new = self.peers.offer(version, name, **words)
        if is_new:
            url = f"{words['protocol']}://127.0.0.1:{port}/{INTERFACE}?group={words['group']}"
            self.file.write_text(json.dumps({"providers": [url]}))

    def close(self) -> None:
        """End the sidecar."""
        self.sidecar.close()

    def both(self, group: str, /, **words: object) -> list[Reference]:
        """Return references of every version that speaks it, first Dubbo TCP, then Triple."""
        dubbo = [self.reference(version, group=group, **words) for version in VERSIONS]
        modern = VERSIONS[1:]
        return dubbo + [self.triple_to(SIDECAR, v, 0, group=group, **words) for v in modern]


def protocols(version: Version) -> str:
    """What a provider of this version can offer."""
    return "dubbo" if version.is_legacy else BOTH


def others(version: Version) -> list[Version]:
    return [each for each in VERSIONS if each != version]


def offer_plain(fleet: Fleet, version: Version, group: str) -> str:
    """Offer an instance without any extras and return its name."""
    name = f"{group}-{version}"
    fleet.offer(version, name, group=group)
    return name


def offer_both(fleet: Fleet, version: Version, group: str) -> str:
    """Offer an instance that speaks both protocols, each on a port of its own; return its name."""
    name = f"{group}-{version}"
    fleet.offer(version, name, group=group, protocol=BOTH, port=free_port(2))
    return name


def answered(reference: Reference, n: int, **words: object) -> dict[str, int]:
    """Make n calls that must all succeed; return how many each provider answered."""
    outcome = reference.many(n, method="who", **words)
    assert not outcome["failures"], outcome
    histogram: dict[str, int] = outcome["histogram"]
    return histogram


def other_modern(version: Version) -> Version:
    """The other one of the 3.x versions."""
    return next(each for each in VERSIONS[1:] if each != version)


@contextlib.contextmanager
def rule(fleet: Fleet, application: str, tags: str) -> Iterator[None]:
    """Keep a tag rule of one application in ZooKeeper for a while."""
    path = f"/dubbo/config/dubbo/{application}.tag-router"
    text = f"{{force: false, enabled: true, key: {application}, tags: [{tags}]}}"
    fleet.zookeeper.admin.create(path, text.encode(), makepath=True)
    try:
        yield
    finally:
        fleet.zookeeper.admin.delete(path)


def token(answer: dict[str, object]) -> str:
    """The reason token that starts the sidecar's own reply."""
    return str(answer["root"]).split()[0].rstrip(":")
