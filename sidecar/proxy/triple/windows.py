"""How much the peer of a connection may send of each stream before somebody takes it.

Streams share the window of their connection. One that is not read keeps what its own window has
room for, so many of them could leave nothing to the others: a consumer that reads its streams one
after the other would wait for ever for one that waits for the rest. Therefore a stream begins with
little and gets more as its reader takes it, and what all open streams may have together stays below
half of the connection's window (nghttp2 returns that when half of it was taken), as far as their
number allows.
"""

from __future__ import annotations

from typing import Final, final

from sidecar.protocol.http2.limits import FIRST_WINDOW
from sidecar.protocol.http2.session import Session


@final
class Windows:
    """The windows of a connection's streams beyond the first ones; sizes in bytes."""

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._budget: Final[int] = session.connection_window // 2
        self._granted = 0

    def widen(self, stream_id: int, window: int, streams: int) -> int:
        """Double the window of a stream if that is possible; return what it is now.

        ``streams`` is the number of those that are open.
        """
        session = self._session
        wider = min(2 * window, session.widest_window)
        more = wider - window
        if more <= 0 or streams * FIRST_WINDOW + self._granted + more > self._budget:
            return window
        if not session.widen(stream_id, wider):
            return window
        self._granted += more
        return wider

    def give_back(self, window: int) -> None:
        """Note the end of a stream that had a window of this size."""
        self._granted -= window - FIRST_WINDOW
