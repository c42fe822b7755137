"""One registry's list of one interface, and taking a newer list in, some names at a time.

Names are compared, not parsed: a name that was there before says what it said before. A name is
remembered by its 64-bit hash, because the names themselves are most of what a registry holds (600
bytes each). Python's string hash is keyed anew in each process, so nobody can aim at a collision,
and among 100,000 names one happens by chance with a probability of 3 in 10 billion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from sidecar.discovery.address import AddressPolicy
from sidecar.discovery.provider_url import Refusal, read_provider
from sidecar.discovery.registration import Interner
from sidecar.discovery.stats import RegistryStats
from sidecar.model.instance import Instance

SCAN_PER_NEW: Final = 20  # looking a known name up costs a twentieth of parsing a new one


@final
class Listing:
    """What one registry says about one interface.

    ``names`` maps the hash of a name to its instance or to why there is none. ``is_known`` is false
    until the first answer, and ``failure`` is the kind of the last error since the last answer.
    """

    def __init__(self, policy: AddressPolicy, stats: RegistryStats) -> None:
        self.policy: Final = policy
        self.stats: Final = stats
        self.names: Final[dict[int, Instance | Refusal]] = {}
        self.is_known = False
        self.failure = ""

    def refusals(self) -> list[Refusal]:
        """Return what is registered and gives no instance."""
        return [each for each in self.names.values() if isinstance(each, Refusal)]


@final
class ListingJob:
    """A list on its way in. ``step`` until ``is_done``; a newer list simply replaces the job."""

    def __init__(self, interface: str, listing: Listing, names: Sequence[str]) -> None:
        self._interface: Final = interface
        self._listing: Final = listing
        self._names: Final = names
        self._seen: Final[set[int]] = set()
        self._position = 0

    @property
    def is_done(self) -> bool:
        """True when every name has been looked at."""
        return self._position == len(self._names)

    def step(self, limit: int, interner: Interner) -> dict[int, Instance]:
        """Look at more names, at most ``limit`` of them new; return the new instances."""
        known = self._listing.names
        made: dict[int, Instance] = {}
        parsed = 0
        end = min(len(self._names), self._position + limit * SCAN_PER_NEW)
        while self._position < end and parsed < limit:
            name = self._names[self._position]
            self._position += 1
            key = hash(name)
            self._seen.add(key)
            if key in known:
                continue
            parsed += 1
            found = read_provider(name, self._interface, interner, self._listing.policy)
            known[key] = found
            if isinstance(found, Instance):
                made[key] = found
            else:
                self._listing.stats.refuse(found.reason)
        self._listing.stats.parsed += parsed
        return made

    def finish(self) -> dict[int, Instance]:
        """Drop the names that the list has no longer; return their instances.

        Protection against lists that are suddenly empty or much shorter belongs here, between what
        a registry has no longer and what is dropped.
        """
        listing = self._listing
        listing.is_known = True
        listing.failure = ""
        dropped: dict[int, Instance] = {}
        for key in listing.names.keys() - self._seen:
            found = listing.names.pop(key)
            if isinstance(found, Instance):
                dropped[key] = found
        return dropped
