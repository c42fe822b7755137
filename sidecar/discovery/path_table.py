"""All watched paths of one registry: their timers, their turn to read, their requests.

The owner feeds link changes, watch events and replies, calls ``tick`` whenever ``next_due`` has
come, and sends the requests it is given. One timer of the event loop serves every path.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, final

from sidecar.discovery.path import (
    DIRTY,
    DUE,
    ERROR_BACK_OFF,
    FIRED,
    GRANT,
    LINKED,
    LOST,
    QUEUED,
    READING,
    STATE_NAMES,
    BackOff,
    PathMachine,
)
from sidecar.discovery.read_limiter import ReadLimiter

_SPARE_TIMERS: Final = 64  # outdated heap entries tolerated beyond two per path
_TOKEN_BITS: Final = 32


class Request(NamedTuple):
    """One request to send: a read of the content of ``path``, or a probe for its existence."""

    path: str
    token: int
    is_probe: bool


@final
class PathTable:
    """The machines of one registry by path. ``events`` counts watch events that counted,
    and ``take_overdue`` tells the requests given up after their deadline."""

    def __init__(self, limiter: ReadLimiter | None = None) -> None:
        self._machines: Final[dict[str, PathMachine]] = {}
        self._limiter: Final = limiter if limiter is not None else ReadLimiter()
        # Paths that were never read have calls waiting for them, so they go before those whose
        # content is there and may have changed: after an outage that is all of them.
        self._first: Final[deque[PathMachine]] = deque()
        self._queue: Final[deque[PathMachine]] = deque()
        self._timers: list[tuple[float, int, PathMachine]] = []
        self._sequence = 0
        self._watched = 0
        self.is_linked = False
        self.events = 0
        self._overdue: list[str] = []

    def __len__(self) -> int:
        return len(self._machines)

    def states(self) -> dict[str, int]:
        """Return how many paths are in each state, by its name."""
        counts: dict[str, int] = {}
        for machine in self._machines.values():
            word = STATE_NAMES[machine.state]
            counts[word] = counts.get(word, 0) + 1
        return counts

    def machine(self, path: str) -> PathMachine | None:
        """Return the machine of a watched path."""
        return self._machines.get(path)

    def watch(self, path: str, delay: float, now: float, asks_existence: bool = False) -> None:
        """Begin to watch a path; nothing happens when it is watched already."""
        if path not in self._machines:
            # Tokens of a path that is watched a second time never equal those of the first.
            self._watched += 1
            machine = PathMachine(path, delay, asks_existence, self._watched << _TOKEN_BITS)
            self._machines[path] = machine
            if self.is_linked:
                self._feed(machine, LINKED, now)

    def unwatch(self, path: str) -> None:
        """Forget a path; what is under way for it will find no machine."""
        machine = self._machines.pop(path, None)
        if machine is not None:
            self._feed(machine, LOST, 0.0)

    def linked(self, now: float) -> None:
        """A connection is there: every path is read again, in the order it was first watched."""
        self.is_linked = True
        self._first.clear()
        self._queue.clear()
        for machine in self._machines.values():
            self._feed(machine, LINKED, now)

    def lost(self, now: float) -> None:
        """The connection is gone, and with it every watch and every request."""
        self.is_linked = False
        for machine in self._machines.values():
            self._feed(machine, LOST, now)
        self._first.clear()
        self._queue.clear()

    def fired(self, path: str, token: int, now: float) -> None:
        """A watch that was set by the request ``token`` fired."""
        machine = self._machines.get(path)
        if machine is not None and machine.token == token:
            self.events += 1
            self._feed(machine, FIRED, now)

    def replied(
        self, path: str, token: int, event: int, now: float, back_off: BackOff = ERROR_BACK_OFF
    ) -> bool:
        """A reply came; return whether it is current, so that its content counts."""
        machine = self._machines.get(path)
        if machine is None or machine.token != token:
            return False
        return self._feed(machine, event, now, back_off)

    def tick(self, now: float) -> list[Request]:
        """Run the timers that ended and return the requests whose turn it is."""
        while self._timers and self._timers[0][0] <= now:
            due, _, machine = heappop(self._timers)
            if machine.due == due:
                if machine.state in (READING, DIRTY):
                    self._overdue.append(machine.path)
                self._feed(machine, DUE, now)
        requests: list[Request] = []
        for queue in (self._first, self._queue):
            while queue:
                machine = queue[0]
                if machine.state == QUEUED:
                    if not self._limiter.take(now):
                        return requests
                    self._feed(machine, GRANT, now)
                    requests.append(Request(machine.path, machine.token, machine.asks_existence))
                queue.popleft()
        return requests

    def take_overdue(self) -> list[str]:
        """Return the paths whose request was given up since the last call."""
        paths = [path for path in self._overdue if path in self._machines]
        self._overdue = []
        return paths

    def next_due(self) -> float:
        """Return when ``tick`` has something to do, 0 when only an event can change anything."""
        while self._timers and self._timers[0][2].due != self._timers[0][0]:
            heappop(self._timers)
        due = self._timers[0][0] if self._timers else 0.0
        if self._first or self._queue:
            turn = self._limiter.next_at()
            if turn and (not due or turn < due):
                return turn
        return due

    def _feed(
        self, machine: PathMachine, event: int, now: float, back_off: BackOff = ERROR_BACK_OFF
    ) -> bool:
        was_out = machine.state in (READING, DIRTY)
        if not machine.feed(event, now, back_off):
            return False
        if was_out and machine.state not in (READING, DIRTY):
            self._limiter.done()
        if machine.state == QUEUED:
            (self._queue if machine.is_known else self._first).append(machine)
        elif machine.due:
            self._start_timer(machine)
        return True

    def _start_timer(self, machine: PathMachine) -> None:
        if len(self._timers) > 2 * len(self._machines) + _SPARE_TIMERS:
            self._timers = [entry for entry in self._timers if entry[2].due == entry[0]]
            heapify(self._timers)
        self._sequence += 1
        heappush(self._timers, (machine.due, self._sequence, machine))
