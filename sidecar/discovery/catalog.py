"""The walk of a registry change, as a pure engine: what registries say in, snapshots out.

Whoever owns the catalog tells it about connections and answers, calls ``work`` until nothing is
left, and makes the registries watch what ``take_watches`` says. Nothing here reads a clock or does
I/O; lists of any size are taken in by small steps, and a service's list is published when all of
them are in, never in between.

What keeps a list in use: a service that was published stays published. Losing a connection or a
session removes nothing, a registry that was never heard of removes nothing, and a request that
fails removes nothing. Only an answer does. And a first list with nobody in it is not published
before every registry has answered, because another one may have what the fastest has not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, final

from sidecar.discovery.address import AddressPolicy
from sidecar.discovery.interface import Interface
from sidecar.discovery.listing import Listing
from sidecar.discovery.rule_book import RULE_KIND, RuleBook
from sidecar.discovery.sink import Sink
from sidecar.discovery.slot import CATEGORIES, PROVIDERS, RULE, Slot, Watch, WatchQueue
from sidecar.discovery.stats import RegistryStats
from sidecar.discovery.subscription import PUBLISHED, Subscription
from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.protocol import NAMES
from sidecar.model.service import ServiceKey
from sidecar.routing.build import chain_options
from sidecar.settings.schema import Settings
from sidecar.telemetry.counters import Counters

STEP: Final = 100  # new names per call of work: about 3 ms
NO_AUTH: Final = "noauth"  # the kind of failure that is told to callers
RULE_INVALID: Final = "rule_invalid"
MAX_REFUSED_SHOWN: Final = 50


@final
class Catalog:
    """Every watched service. ``stats`` has the counters of each registry by name."""

    def __init__(self, settings: Settings, sink: Sink, counters: Counters) -> None:
        self.stats: Final = {each.name: RegistryStats() for each in settings.registries}
        self._policies: Final = {
            each.name: AddressPolicy(each.allow_networks) for each in settings.registries
        }
        self._settings: Final = settings
        self._wait: Final = float(settings.services.wait)
        self._sink: Final = sink
        self._counters: Final = counters
        self._queue: Final = WatchQueue()
        self._book: Final = RuleBook(list(self.stats), settings.routing.max_rule_size, self._queue)
        self._interfaces: Final[dict[str, Interface]] = {}
        self._busy: Final[dict[str, Interface]] = {}
        self._pending: Final[dict[str, Subscription]] = {}
        self._linked: Final[set[str]] = set()
        # by protocol: address -> how many instances have it
        self._addresses: Final[dict[int, dict[str, int]]] = {protocol: {} for protocol in NAMES}

    def __contains__(self, key: ServiceKey) -> bool:
        return self._find(key) is not None

    def subscribe(self, key: ServiceKey, now: float) -> None:
        """Begin to watch a service; nothing happens when it is watched already.

        An answer reaches the sink within ``services.wait`` seconds, if ``expire`` is called then.
        """
        interface = self._interfaces.get(key.interface)
        if interface is None:
            listings = {
                name: Listing(self._policies[name], stats) for name, stats in self.stats.items()
            }
            interface = Interface(key.interface, listings, self._book)
            self._interfaces[key.interface] = interface
            for category in CATEGORIES:
                self._queue.begin(Slot(category, key.interface))
        if key.text in interface.subscriptions:
            return
        options = chain_options(self._settings, key)
        subscription = Subscription(key, options, now + self._wait, self._counters)
        self._pending[key.text] = subscription
        interface.add(subscription)
        self._settle(interface, [subscription])

    def release(self, key: ServiceKey) -> None:
        """Stop watching a service."""
        interface = self._interfaces.get(key.interface)
        if interface is None or key.text not in interface.subscriptions:
            return
        interface.remove(key.text)
        self._pending.pop(key.text, None)
        if not interface.subscriptions:
            interface.close()
            del self._interfaces[key.interface]
            self._busy.pop(key.interface, None)
            for category in CATEGORIES:
                self._queue.end(Slot(category, key.interface))
            self._tell_addresses(interface)

    def take_watches(self) -> list[Watch]:
        """Return what every registry must begin or end to watch, in this order."""
        return self._queue.take()

    def linked(self, registry: str) -> None:
        """A registry is connected; its answers will follow."""
        self._linked.add(registry)
        self.stats[registry].connected = 1
        self.stats[registry].resyncs += 1

    def lost(self, registry: str) -> None:
        """A registry is not connected; what it said stays in use."""
        self._linked.discard(registry)
        self.stats[registry].connected = 0
        # Nobody waits any longer for the first answer of this registry about a rule.
        for interface in self._interfaces.values():
            self._settle(interface, interface.subscriptions.values())

    def listed(self, registry: str, slot: Slot, names: Sequence[str]) -> None:
        """A registry sent a list; a node that does not exist is an empty list.

        The list of a live registry is the truth, also when it is empty.
        """
        self.stats[registry].rows += len(names)
        interface = self._interfaces.get(slot.name)
        if interface is None:
            return
        if slot.kind == PROVIDERS:
            interface.begin(registry, names)
            self._busy[interface.name] = interface
        else:
            interface.store(registry, slot.kind, names)

    def rule(self, registry: str, name: str, text: str, version: int, now_ms: int) -> str:
        """A registry sent the text of a rule node, "" when there is none.

        Returns why the text is not used, "" when it is. ``version`` is 0 when the registry numbers
        nothing.
        """
        invalid = self._book.invalid
        changed = self._book.offer(registry, name, text, version, now_ms)
        if changed:
            self._rule_settled(name)
        if self._book.invalid == invalid:
            return ""
        self._counters.count(RULE_INVALID, RULE_KIND)
        return self._book.error(name)

    def failed(self, registry: str, slot: Slot, kind: str) -> None:
        """A request failed and will be repeated; ``kind`` is a short word."""
        self.stats[registry].fail(kind)
        if slot.kind == RULE:
            if self._book.fail(registry, slot.name):
                self._rule_settled(slot.name)
        elif slot.kind == PROVIDERS and slot.name in self._interfaces:
            interface = self._interfaces[slot.name]
            interface.listings[registry].failure = kind
            self._tell_failure(interface, interface.subscriptions.values())

    def work(self, limit: int = STEP) -> bool:
        """Take in at most ``limit`` new names; return whether there is more to do."""
        if self._busy:
            name, interface = next(iter(self._busy.items()))
            try:
                interface.work(limit)
            finally:
                if not interface.has_work:
                    del self._busy[name]
            self._settle(interface, interface.subscriptions.values())
        return bool(self._busy)

    def expire(self, now: float) -> None:
        """Tell those who have waited long enough that nothing came."""
        while self._pending:
            text, subscription = next(iter(self._pending.items()))
            if subscription.deadline > now:
                return
            del self._pending[text]
            refused = self._interfaces[subscription.key.interface].has_failed(NO_AUTH)
            token = reason.REGISTRY_NOAUTH if refused else reason.REGISTRY_UNAVAILABLE
            subscription.fail(self._sink, token)

    def next_expiry(self) -> float:
        """Return when ``expire`` has something to do, 0 when nobody waits."""
        return next((each.deadline for each in self._pending.values()), 0.0)

    def is_published(self, key: ServiceKey) -> bool:
        """Tell whether a service has a list."""
        subscription = self._find(key)
        return subscription is not None and subscription.state == PUBLISHED

    def is_vacant(self, key: ServiceKey) -> bool:
        """Tell whether a service has its answer, and it is that nobody is there."""
        subscription = self._find(key)
        return subscription is not None and subscription.is_vacant

    def is_read(self, key: ServiceKey, registries: Sequence[str]) -> bool:
        """Tell whether these registries have said what a service has, and its rules were read."""
        subscription = self._find(key)
        if subscription is None:
            return False
        interface = self._interfaces[key.interface]
        return (
            not interface.has_work
            and all(interface.listings[each].is_known for each in registries)
            and self._were_read([*interface.application_rules(), *subscription.rule_names])
        )

    def services(self) -> list[ServiceKey]:
        """Return the watched services."""
        return [
            subscription.key
            for interface in self._interfaces.values()
            for subscription in interface.subscriptions.values()
        ]

    def view(self, key: ServiceKey) -> dict[str, Any] | None:
        """Return the state of a service for people, None when it is not watched."""
        subscription = self._find(key)
        if subscription is None:
            return None
        interface = self._interfaces[key.interface]
        refusals = interface.refusals()
        return {
            **interface.view(),
            "published": subscription.state == PUBLISHED,
            "failed_builds": subscription.failed_builds,
            "refused": [
                {"registry": registry, "address": each.address, "reason": each.reason}
                for registry, each in refusals[:MAX_REFUSED_SHOWN]
            ],
            "refused_total": len(refusals),
        }

    def rule_views(self, now_ms: int) -> list[dict[str, Any]]:
        """Return the rule nodes that exist, for people."""
        return self._book.views(now_ms)

    def _find(self, key: ServiceKey) -> Subscription | None:
        interface = self._interfaces.get(key.interface)
        return None if interface is None else interface.subscriptions.get(key.text)

    def _rule_settled(self, name: str) -> None:
        for user in self._book.users(name):
            interface = self._interfaces[user]
            concerned = interface.concerned(name)
            interface.rules_changed(concerned)
            self._settle(interface, concerned)

    def _settle(self, interface: Interface, services: Collection[Subscription]) -> None:
        """Publish services of an interface when its lists are in and their rules were read.

        Only those that something happened to: an interface may have as many as there can be.
        """
        is_taken_in = not interface.has_work and interface.is_known
        services = list(services)  # whoever is told may subscribe to more of the interface
        if is_taken_in and self._were_read(interface.application_rules()):
            for subscription in services:
                if self._is_due(interface, subscription) and subscription.publish(self._sink):
                    self._pending.pop(subscription.key.text, None)
            self._tell_addresses(interface)
        self._tell_failure(interface, services)

    def _is_due(self, interface: Interface, subscription: Subscription) -> bool:
        """Tell whether what was built may be shown: its own rules are known to every registry.

        An empty first list has to be everybody's.
        """
        return self._were_read(subscription.rule_names) and (
            not subscription.is_empty
            or interface.is_known_everywhere
            or subscription.state == PUBLISHED
        )

    def _were_read(self, rules: Iterable[str]) -> bool:
        """Tell whether every connected registry has answered about these rules."""
        return all(
            self._book.is_settled(name, registry) for name in rules for registry in self._linked
        )

    def _tell_failure(self, interface: Interface, services: Collection[Subscription]) -> None:
        """Tell services without a list that a registry refuses to show them, once all have spoken.

        Those that a list in hand will be published for are left out.
        """
        if interface.has_work or not interface.is_settled or not interface.has_failed(NO_AUTH):
            return
        for subscription in list(services):
            if subscription.is_empty and subscription.state != PUBLISHED:
                self._pending.pop(subscription.key.text, None)
                subscription.fail(self._sink, reason.REGISTRY_NOAUTH)

    def _tell_addresses(self, interface: Interface) -> None:
        """Tell by protocol which addresses came and left, once no service shows the list before."""
        if not (interface.added or interface.gone):
            return
        if any(each.is_behind for each in interface.subscriptions.values()):
            return
        came, left = interface.added, interface.gone
        interface.added, interface.gone = [], []
        for protocol, uses in self._addresses.items():
            gone, added = _counted(
                uses,
                [each for each in came if each.protocols & protocol],
                [each for each in left if each.protocols & protocol],
            )
            if gone or added:
                self._sink.addresses_changed(protocol, gone, added)


def _counted(
    uses: dict[str, int], came: list[Instance], left: list[Instance]
) -> tuple[list[str], list[Instance]]:
    """Count the uses of addresses; return those that nobody has any more, and who came to stay."""
    untold: set[str] = set()
    for instance in came:
        if instance.address not in uses:
            untold.add(instance.address)
        uses[instance.address] = uses.get(instance.address, 0) + 1
    gone: list[str] = []
    for instance in left:
        uses[instance.address] -= 1
        if uses[instance.address] == 0:
            del uses[instance.address]
            if instance.address not in untold:
                gone.append(instance.address)
    return gone, [instance for instance in came if instance.address in uses]
