"""One watched interface: its lists in every registry, its instances, and the services in it.

Services of one interface differ in group and version only and share everything that is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, final

from sidecar.discovery.claims import Claims
from sidecar.discovery.listing import Listing, ListingJob
from sidecar.discovery.provider_url import Refusal
from sidecar.discovery.registration import Interner
from sidecar.discovery.rule_book import RuleBook
from sidecar.discovery.subscription import Subscription
from sidecar.model.instance import Instance
from sidecar.routing.build import Rules
from sidecar.routing.rule import application_rule_name
from sidecar.routing.table import Change, InstanceTable

# Provider applications of one interface whose rules are watched. Two during a migration is normal;
# the cap keeps a registry full of invented names from making every sidecar watch as many nodes.
MAX_APPLICATIONS: Final = 64
MAX_NAME_LENGTH: Final = 256
MAX_STORED: Final = 1000  # configurator and router entries kept of one interface and registry


def is_node_name(text: str) -> bool:
    """Tell whether an application name can be part of a node's name."""
    return 0 < len(text) <= MAX_NAME_LENGTH and "/" not in text and text.isprintable()


@final
class Interface:
    """The state of one interface. ``listings`` has an entry for each registry.

    ``stored`` holds the configurator and router entries by (registry, category). ``gone`` and
    ``added`` collect what changed since the last publishing.
    """

    def __init__(self, name: str, listings: dict[str, Listing], book: RuleBook) -> None:
        self.name: Final = name
        self.listings: Final = listings
        self.table: Final = InstanceTable()
        self.subscriptions: Final[dict[str, Subscription]] = {}
        self._by_rule: Final[dict[str, dict[str, Subscription]]] = {}  # by the service's own rules
        self.stored: Final[dict[tuple[str, str], tuple[str, ...]]] = {}
        self.gone: list[Instance] = []
        self.added: list[Instance] = []
        self._claims: Final = Claims(self.table)
        self._interner: Final = Interner()
        self._book: Final = book
        self._applications: set[str] = set()
        self._jobs: Final[dict[str, ListingJob]] = {}

    @property
    def is_known(self) -> bool:
        """True once a registry has said what the interface has, be it nothing."""
        return any(listing.is_known for listing in self.listings.values())

    @property
    def is_known_everywhere(self) -> bool:
        """True once every registry has said what the interface has."""
        return all(listing.is_known for listing in self.listings.values())

    @property
    def is_settled(self) -> bool:
        """True while every registry has answered, were it by failing."""
        return all(listing.is_known or listing.failure for listing in self.listings.values())

    def has_failed(self, kind: str) -> bool:
        """Tell whether a registry that never gave its list failed in this way at last."""
        return any(
            not listing.is_known and listing.failure == kind for listing in self.listings.values()
        )

    @property
    def has_work(self) -> bool:
        """True while lists are being taken in: the table is between two states."""
        return bool(self._jobs)

    def add(self, subscription: Subscription) -> None:
        """Take a service in; its rules are watched and its snapshot is built."""
        self.subscriptions[subscription.key.text] = subscription
        for name in subscription.rule_names:
            self._book.acquire(name, self.name)
            self._by_rule.setdefault(name, {})[subscription.key.text] = subscription
        if self.is_known:
            subscription.build(self.table, None, self._rules_of(subscription))

    def remove(self, service: str) -> None:
        """Let a service go."""
        subscription = self.subscriptions.pop(service)
        for name in subscription.rule_names:
            self._book.release(name, self.name)
            del self._by_rule[name][service]
            if not self._by_rule[name]:
                del self._by_rule[name]

    def close(self) -> None:
        """Give back what the interface itself holds, and forget its instances."""
        for application in self._applications:
            self._book.release(application_rule_name(application), self.name)
        self._applications = set()
        self.gone.extend(each for each in self.table.instances if each is not None)

    def begin(self, registry: str, names: Sequence[str]) -> None:
        """A registry sent its list; a list that is still on its way in is overtaken."""
        self._jobs[registry] = ListingJob(self.name, self.listings[registry], names)

    def work(self, limit: int) -> None:
        """Take in at most ``limit`` new names of one list."""
        registry, job = next(iter(self._jobs.items()))
        # Taken out first: should a defect strike here, it costs this list and not all that follow.
        del self._jobs[registry]
        made = job.step(limit, self._interner)
        dropped: dict[int, Instance] = {}
        if job.is_done:
            dropped = job.finish()
        else:
            self._jobs[registry] = job
        change = self._claims.apply(
            {(registry, key): draft for key, draft in made.items()},
            {(registry, key): instance for key, instance in dropped.items()},
        )
        self._share(registry, made)
        self._follow(change)

    def rules_changed(self, concerned: Iterable[Subscription]) -> None:
        """A rule that concerns these services changed."""
        if self.is_known:
            for subscription in concerned:
                subscription.build(self.table, None, self._rules_of(subscription))

    def application_rules(self) -> list[str]:
        """Return the rule nodes that concern every service of the interface."""
        return [application_rule_name(each) for each in self._applications]

    def concerned(self, rule: str) -> list[Subscription]:
        """Return the services that a rule node is about."""
        if rule in self.application_rules():
            return list(self.subscriptions.values())
        return list(self._by_rule.get(rule, {}).values())

    def store(self, registry: str, category: str, names: Sequence[str]) -> None:
        """Keep the entries of a category that is not applied yet."""
        self.stored[registry, category] = tuple(names[:MAX_STORED])

    def refusals(self) -> list[tuple[str, Refusal]]:
        """Return (registry, refusal) for everything registered that gives no instance."""
        return [
            (registry, refusal)
            for registry, listing in self.listings.items()
            for refusal in listing.refusals()
        ]

    def view(self) -> dict[str, Any]:
        """Return the state for people."""
        return {
            "instances": self.table.size,
            "contested": self._claims.contested,
            "applications": sorted(self.table.applications),
            "registries": {
                registry: {
                    "known": listing.is_known,
                    "failure": listing.failure,
                    "names": len(listing.names),
                }
                for registry, listing in self.listings.items()
            },
            "stored": {
                f"{registry}/{kind}": len(it) for (registry, kind), it in self.stored.items()
            },
        }

    def _share(self, registry: str, made: dict[int, Instance]) -> None:
        """Remember the table's own instances instead of equal drafts: half the memory."""
        names = self.listings[registry].names
        for key, draft in made.items():
            kept = self.table.find(draft)
            if kept is not None and kept.is_same(draft):
                names[key] = kept

    def _follow(self, change: Change) -> None:
        if change.is_empty:
            # The first answer may be an empty list, which changes nothing and says a lot.
            self.rules_changed(self.subscriptions.values())
            return
        self.gone.extend(change.removed)
        self.added.extend(change.added)
        self._watch_applications()
        for subscription in self.subscriptions.values():
            subscription.build(self.table, change, self._rules_of(subscription))

    def _watch_applications(self) -> None:
        known = self._applications
        present = self.table.applications
        for application in [each for each in known if each not in present]:
            known.discard(application)
            self._book.release(application_rule_name(application), self.name)
        for application in present:
            if len(known) >= MAX_APPLICATIONS:
                break
            if application not in known and is_node_name(application):
                known.add(application)
                self._book.acquire(application_rule_name(application), self.name)

    def _rules_of(self, subscription: Subscription) -> Rules:
        book = self._book
        return Rules(
            {each: book.rule_of_application(each) for each in self._applications},
            book.rule_of_service(subscription.key),
        )
