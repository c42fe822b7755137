"""The two walks of the product without its sockets: lists in, decisions out.

This is what the registry and the proxy do with the discovery engine, called by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from harness import fleet
from sidecar.discovery.catalog import Catalog
from sidecar.discovery.slot import PROVIDERS, RULE, Slot
from sidecar.dispatch.directory import Directory, Service
from sidecar.model.instance import Instance
from sidecar.model.service import ServiceKey
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.settings.schema import Consumer, Registry, Settings
from sidecar.telemetry.counters import Counters

KEY = ServiceKey.parse(fleet.KEY)
REGISTRY = "main"
SLOT = Slot(PROVIDERS, KEY.interface)


class Walk:
    """A catalog that publishes into a directory; one service, one registry."""

    def __init__(self) -> None:
        registry = Registry(
            name=REGISTRY, url="zookeeper://127.0.0.1/dubbo", allow_networks=["127.0.0.0/8"]
        )
        consumer = Consumer(application="order-web", parameters={"zone": "bj-a"})
        settings = Settings(consumer=consumer, registries=[registry])
        counters = Counters()
        self.directory = Directory(counters, settings.services.max_services)
        self.directory.add(KEY)
        self.catalog = Catalog(settings, self, counters)
        self.catalog.linked(REGISTRY)
        self.catalog.subscribe(KEY, 0.0)
        self.published = 0

    @property
    def service(self) -> Service:
        """The service as the proxy finds it for a call."""
        service = self.directory.find(KEY.text)
        assert service is not None
        return service

    @property
    def parsed(self) -> int:
        """How many names were parsed so far."""
        return self.catalog.stats[REGISTRY].parsed

    def list(self, names: Sequence[str]) -> None:
        """Take in one list of child names, as one answer of ZooKeeper, up to its publishing."""
        self.catalog.listed(REGISTRY, SLOT, names)
        while self.catalog.work():
            continue
        for watch in self.catalog.take_watches():
            if watch.is_wanted and watch.slot.kind == RULE:
                self.catalog.rule(REGISTRY, watch.slot.name, "", 0, 0)

    def publish(self, key: ServiceKey, snapshot: ServiceSnapshot) -> None:
        self.published += 1
        self.directory.publish(key, snapshot)

    def fail(self, key: ServiceKey, reason: str) -> None:
        self.directory.fail(key, reason)

    def addresses_changed(
        self, protocol: int, gone: Sequence[str], added: Sequence[Instance]
    ) -> None:
        return


def names(count: int, first: int = 0) -> list[str]:
    """Return the child names of so many providers."""
    return [quote(fleet.url(index), safe="") for index in range(first, first + count)]
