"""The router chain: which routers run for a service, in which order, and the run itself.

The chain stops at the first empty set. A router that fails is skipped and counted: a fault of ours
must not take a service down. Explain watches the same run through ``trace``.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

from sidecar.model.instance_set import InstanceSet
from sidecar.routing.router import Call, Router, Step
from sidecar.telemetry.counters import Counters

DEFAULT_ROUTERS: Final = ("tag", "tag-service", "nearby")
ERROR_COUNTER: Final = "router_errors"
SKIPPED: Final = "skipped_after_error"
_REMOVED: Final = "-"
_DEFAULT: Final = "default"


def router_names(switch: str) -> tuple[str, ...]:
    """Return the routers that Dubbo's switch string leaves, in order.

    ``-tag`` removes one, ``-default`` all defaults; named ones are added; when ``default`` itself
    is in the list, the list's order counts. Blanks and unknown names are ignored.
    """
    words = [word.strip() for word in switch.split(",")]
    removed = {word[1:] for word in words if word.startswith(_REMOVED)}
    named = [word for word in words if word in DEFAULT_ROUTERS and word not in removed]
    defaults = [
        name
        for name in DEFAULT_ROUTERS
        if _DEFAULT not in removed and name not in removed and name not in named
    ]
    if _DEFAULT not in words:
        chosen = {*defaults, *named}
        return tuple(name for name in DEFAULT_ROUTERS if name in chosen)
    ordered: list[str] = []
    for word in words:
        if word == _DEFAULT:
            ordered.extend(defaults)
        elif word in named:
            ordered.append(word)
    return tuple(dict.fromkeys(ordered))


class Routed(NamedTuple):
    """The result of the chain.

    ``reason`` is a token of ``model.reason`` when ``out`` is empty, else ``""``; ``degraded``
    names, as (router, reason), each router that returned its wider set on purpose.
    """

    out: InstanceSet
    reason: str
    degraded: tuple[tuple[str, str], ...]


class TraceStep(NamedTuple):
    """One step as explain shows it."""

    router: Router
    before: InstanceSet
    step: Step


@final
class RouterChain:
    """Prepared routers in their order; immutable."""

    def __init__(self, routers: tuple[Router, ...] = ()) -> None:
        self.routers: Final = routers

    def inputs(self, call: Call) -> str | None:
        """Return the memo key of a call: equal keys are routed equally by this chain.

        None when a router fails to say; such a call must not be memoised.
        """
        key = ""
        for router in self.routers:
            try:
                part = router.inputs(call)
            except Exception:  # noqa: BLE001 - route skips and counts a faulty router
                return None
            key += f"{len(part)}:{part}"  # the lengths keep joined parts apart
        return key

    def route(
        self,
        call: Call,
        members: InstanceSet,
        counters: Counters,
        trace: list[TraceStep] | None = None,
    ) -> Routed:
        """Narrow ``members``, which are not empty, for a call."""
        out = members
        degraded: list[tuple[str, str]] = []
        for router in self.routers:
            try:
                step = router.route(call, out)
            except Exception:  # noqa: BLE001 - see the module
                counters.count(ERROR_COUNTER, router.name)
                step = Step(out, SKIPPED)
            if trace is not None:
                trace.append(TraceStep(router, out, step))
            out = step.out
            if not out:
                return Routed(out, step.reason, tuple(degraded))
            if step.degraded:
                degraded.append((router.name, step.degraded))
        return Routed(out, "", tuple(degraded))
