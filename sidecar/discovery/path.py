"""The state machine of one watched registry path: events in, at most one request out.

Watches are one-shot and die with the connection, so a path is either armed, or somebody has
promised to read it again. The machine is that promise. It never reads on an event: the first event
starts a timer of ``delay`` seconds which later events do not restart; when it ends, one request
reads the state and arms the watch in one atomic step of the server. Whatever happened in between is
in that state, and whatever happens afterwards fires. So the last state is never lost, it is at most
``delay`` plus a round trip late, and a burst of changes costs one read per ``delay``.

A request carries a ``token``. Replies and events of another token belong to a request that was
given up - before a reconnect, or after its deadline - and are dropped by whoever owns the machine.

::

              GRANT           LISTED
    QUEUED ----------> READING ----------> ARMED
      ^  ^               |  | FIRED          | FIRED
      |  | DUE    FAILED |  v      LISTED    v
      |  +--- FAILED <---+ DIRTY -------> WAITING
      |                                   |  ^ FIRED
      +-----------------------------------+ ABSENT
      |             DUE                      ^ GONE (from READING)
      + LINKED (from anywhere)        LOST (from anywhere) -> OFFLINE
"""

from __future__ import annotations

from typing import Final, final

# States.
OFFLINE: Final = 0  # no connection; what was read before stays in use
QUEUED: Final = 1  # wants to send a request
READING: Final = 2  # a request is out
DIRTY: Final = 3  # a request is out, and its watch fired already
ARMED: Final = 4  # up to date, the watch is set
ABSENT: Final = 5  # the node does not exist; a watch for its creation is set
WAITING: Final = 6  # the watch fired; the timer runs
FAILED: Final = 7  # the last request failed; the timer runs
STATE_NAMES: Final = (
    "offline", "queued", "reading", "dirty", "armed", "absent", "waiting", "failed",
)  # fmt: skip

# Inputs.
LINKED: Final = 0  # a connection is there; every watch of an earlier one is gone
LOST: Final = 1  # the connection is gone
FIRED: Final = 2  # the watch of the current token fired
DUE: Final = 3  # the timer ended
GRANT: Final = 4  # a request may be sent now
LISTED: Final = 5  # reply to a read: here is the content
MISSING: Final = 6  # reply to a read: no such node, and no watch is set
FOUND: Final = 7  # reply to a probe: the node exists
GONE: Final = 8  # reply to a probe: no such node, and the watch for its creation is set
REFUSED: Final = 9  # the request failed
INPUT_NAMES: Final = (
    "linked", "lost", "fired", "due", "grant", "listed", "missing", "found", "gone", "refused",
)  # fmt: skip

# Actions.
_NOTHING: Final = 0
_RESTART: Final = 1  # a new token: what is under way does not count any more
_SEND: Final = 2  # a new token, and the deadline of the request
_START: Final = 3  # the delay starts
_MARK: Final = 4  # remember when the first event came
_SETTLE: Final = 5  # the content is current
_PROBE: Final = 6  # ask for existence next
_READ: Final = 7  # ask for content next
_BACK_OFF: Final = 8

# What is not in the table changes nothing: an event that a later read will cover, a reply that
# cannot belong to the current token.
TABLE: Final[dict[tuple[int, int], tuple[int, int]]] = {
    **{(state, LINKED): (QUEUED, _RESTART) for state in range(8)},
    **{(state, LOST): (OFFLINE, _RESTART) for state in range(8)},
    (QUEUED, GRANT): (READING, _SEND),
    (ARMED, FIRED): (WAITING, _START),
    (ABSENT, FIRED): (WAITING, _START),
    (READING, FIRED): (DIRTY, _MARK),
    (WAITING, DUE): (QUEUED, _NOTHING),
    (FAILED, DUE): (QUEUED, _NOTHING),
    (READING, DUE): (FAILED, _BACK_OFF),
    (DIRTY, DUE): (FAILED, _BACK_OFF),
    (READING, LISTED): (ARMED, _SETTLE),
    (DIRTY, LISTED): (WAITING, _SETTLE),
    (READING, MISSING): (QUEUED, _PROBE),
    (DIRTY, MISSING): (QUEUED, _PROBE),
    (READING, FOUND): (QUEUED, _READ),
    (DIRTY, FOUND): (QUEUED, _READ),
    (READING, GONE): (ABSENT, _SETTLE),
    (DIRTY, GONE): (WAITING, _SETTLE),
    (READING, REFUSED): (FAILED, _BACK_OFF),
    (DIRTY, REFUSED): (FAILED, _BACK_OFF),
}

REQUEST_LIMIT: Final = 60.0  # seconds; a live server answers at once, a lost reply never comes


@final
class BackOff:
    """Seconds until a failed request is repeated: doubling from ``first``, at most ``limit``."""

    def __init__(self, first: float, limit: float) -> None:
        self.first: Final = first
        self.limit: Final = limit

    def after(self, failures: int) -> float:
        """Return the pause after so many failures in a row, the first being 1."""
        return min(self.limit, self.first * 2.0 ** min(failures - 1, 32))


# Permissions are changed by people, so asking once a second at most is soon enough.
NO_AUTH_BACK_OFF: Final = BackOff(1.0, 10.0)
# A list beyond the size limit is read again in vain, and each time at full cost.
OVERSIZE_BACK_OFF: Final = BackOff(5.0, 60.0)
ERROR_BACK_OFF: Final = BackOff(0.2, 30.0)


@final
class PathMachine:
    """One path. ``due`` is when its timer ends, 0 when none runs. ``token`` names its request.

    ``asks_existence`` tells which request the next GRANT sends: a probe (which arms a watch for
    creation) or a read. ``is_known`` becomes true with the first settled answer.
    """

    def __init__(
        self, path: str, delay: float, asks_existence: bool = False, token: int = 0
    ) -> None:
        self.path: Final = path
        self.delay: Final = delay
        self.asks_existence = asks_existence
        self.state = OFFLINE
        self.token = token
        self.due = 0.0
        self.failures = 0
        self.is_known = False
        self._fired_at = 0.0

    def feed(self, event: int, now: float, back_off: BackOff = ERROR_BACK_OFF) -> bool:
        """Apply one input; return True when it changed the state.

        ``back_off`` is for REFUSED and for a DUE that ends a request. The caller has checked the
        token of FIRED and of replies.
        """
        entry = TABLE.get((self.state, event))
        if entry is None:
            return False
        was_dirty = self.state == DIRTY
        self.state, action = entry
        if self.state != DIRTY:
            self.due = 0.0
        if action in (_RESTART, _SEND, _BACK_OFF):
            self.token += 1
        if action in (_PROBE, _READ, _START):
            self.asks_existence = action == _PROBE  # on an absent node the event is its creation
        if action == _SETTLE:
            self._settle(event == GONE, was_dirty, now)
        else:
            self._set_timer(action, now, back_off)
        return True

    def _set_timer(self, action: int, now: float, back_off: BackOff) -> None:
        if action == _SEND:
            self.due = now + REQUEST_LIMIT
        elif action == _START:
            self.due = now + self.delay
        elif action == _MARK:
            self._fired_at = now
        elif action == _BACK_OFF:
            self.failures += 1
            self.due = now + back_off.after(self.failures)

    def _settle(self, is_gone: bool, was_dirty: bool, now: float) -> None:
        self.failures = 0
        self.is_known = True
        # After a reconnect an absent node is probed: the request that most likely settles.
        self.asks_existence = is_gone and not was_dirty
        if was_dirty:
            self.due = max(now, self._fired_at + self.delay)
