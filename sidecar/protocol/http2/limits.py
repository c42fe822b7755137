"""What one HTTP/2 connection may cost."""

from __future__ import annotations

from typing import Final, final

# A stream begins with the window that HTTP/2 gives to streams untold, and gets more when its reader
# takes what comes: so that many which are not read leave something of the connection's to others.
FIRST_WINDOW: Final = 65_535


@final
class SessionLimits:
    """Limits of one connection; sizes and windows in bytes, rates per ten seconds.

    ``stream_window`` is the largest one of a stream. ``header_size`` counts a decoded list as RFC 9113 does (32 bytes more for each field).
    """

    def __init__(
        self,
        *,
        header_size: int,
        header_count: int,
        continuations: int,
        resets: int,
        control_frames: int,
        stream_window: int,
        connection_window: int,
        max_streams: int,
    ) -> None:
        self.header_size: Final = header_size
        self.header_count: Final = header_count
        self.continuations: Final = continuations
        self.resets: Final = resets
        self.control_frames: Final = control_frames
        self.stream_window: Final = stream_window
        self.first_window: Final = min(FIRST_WINDOW, stream_window)
        self.connection_window: Final = connection_window
        self.max_streams: Final = max_streams
