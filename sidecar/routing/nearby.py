"""The nearby router: instances of the consumer's own location first, when there are enough of them.

With n local instances among the N that the routers before left:

- ``ratio`` keeps the local ones when floor(100 n / N) is above the threshold (equality does not
  keep them); with none, ``force`` makes the set empty;
- ``count`` keeps them when n is at least the threshold, so the threshold is the safe minimum.

Otherwise all N stay, which is counted. An instance of unknown location is never local; a consumer
of unknown location has no local instances to prefer, so the router does nothing.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.instance_set import EMPTY, InstanceSet
from sidecar.routing.router import Call, Context, MemberChange, Step
from sidecar.routing.sets import edited
from sidecar.settings.schema import Nearby

LOCATION_UNKNOWN: Final = "location_unknown"
NO_LOCAL: Final = "no_local"
FEW_LOCAL: Final = "few_local"


@final
class NearbyRouter:
    """See the module; ``location`` is the consumer's own, ``""`` when unknown."""

    name: Final = "nearby"

    def __init__(
        self, options: Nearby | None = None, location: str = "", local: InstanceSet = EMPTY
    ) -> None:
        self._options: Final = Nearby() if options is None else options
        self.location: Final = location
        self._local: Final = local

    def prepare(self, change: MemberChange, context: Context) -> NearbyRouter:
        """Change the local set, or build it anew when the configuration changed."""
        if context.location == self.location and context.nearby == self._options:
            local = edited(self._local, self._here(change.removed), self._here(change.added))
            return self if local == self._local else self._with(local)
        fresh = NearbyRouter(context.nearby, context.location)
        return fresh._with(edited(EMPTY, (), fresh._here(change.every_member())))

    def inputs(self, call: Call) -> str:
        """Return nothing: the location is the consumer's, not the call's."""
        return ""

    def route(self, call: Call, candidates: InstanceSet) -> Step:
        """Keep the local instances or all."""
        if not self.location:
            return Step(candidates, LOCATION_UNKNOWN, LOCATION_UNKNOWN)
        local = candidates & self._local
        options = self._options
        if not local:
            if options.mode == "ratio" and options.force:
                return Step(EMPTY, reason.NEARBY_FORCED_EMPTY)
            return Step(candidates, NO_LOCAL, NO_LOCAL)
        if options.mode == "ratio":
            is_enough = len(local) * 100 // len(candidates) > options.threshold
        else:
            is_enough = len(local) >= options.threshold
        return Step(local, "local") if is_enough else Step(candidates, FEW_LOCAL, FEW_LOCAL)

    def why_not(self, call: Call, instance: Instance) -> str:
        """Name the other location."""
        key = self._options.key
        there = instance.parameters.get(key, "")
        return f"{key} {there}, not {self.location}" if there else f"no {key}"

    def _here(self, instances: list[Instance]) -> list[int]:
        if not self.location:
            return []
        key = self._options.key
        return [i.id for i in instances if i.parameters.get(key) == self.location]

    def _with(self, local: InstanceSet) -> NearbyRouter:
        return NearbyRouter(self._options, self.location, local)
