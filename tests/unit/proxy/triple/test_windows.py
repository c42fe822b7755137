"""How far the windows of streams may grow, together."""

from __future__ import annotations

from sidecar.protocol.http2.limits import FIRST_WINDOW
from sidecar.proxy.triple.windows import Windows
from tests.fixtures.http2_peers import REQUEST, End, Pair

WIDEST = 1 << 20


def opened(streams: int, **limits: int) -> tuple[Pair, Windows]:
    """A connection with so many streams, and the windows of its server."""
    pair = Pair(
        server=End(True, **{"stream_window": WIDEST, "connection_window": 2 << 20} | limits)
    )
    for _ in range(streams):
        pair.client.session.request(REQUEST, False)
    pair.pump()
    return pair, Windows(pair.server.session)


def widest(windows: Windows, stream_id: int, streams: int) -> int:
    """Widen a stream as often as that is possible."""
    window = FIRST_WINDOW
    while (wider := windows.widen(stream_id, window, streams)) != window:
        window = wider
    return window


def test_a_window_doubles_up_to_the_widest() -> None:
    _, windows = opened(1, connection_window=16 << 20)
    found = [FIRST_WINDOW]
    for _ in range(6):
        found.append(windows.widen(1, found[-1], 1))
    assert found == [FIRST_WINDOW * n for n in (1, 2, 4, 8, 16)] + [WIDEST, WIDEST]


def test_half_of_the_connection_is_the_limit_for_all_together() -> None:
    _, windows = opened(3)
    found = [widest(windows, stream_id, 3) for stream_id in (1, 3, 5)]
    assert found == [8 * FIRST_WINDOW, 4 * FIRST_WINDOW, 4 * FIRST_WINDOW]
    assert sum(found) <= 1 << 20


def test_first_windows_count() -> None:
    _, windows = opened(1)
    assert widest(windows, 1, 16) == FIRST_WINDOW
    assert widest(windows, 1, 14) == 2 * FIRST_WINDOW


def test_a_stream_that_is_over_gives_back() -> None:
    _, windows = opened(2)
    assert widest(windows, 1, 2) == 8 * FIRST_WINDOW
    assert widest(windows, 3, 12) == FIRST_WINDOW
    windows.give_back(8 * FIRST_WINDOW)
    assert widest(windows, 3, 12) == 4 * FIRST_WINDOW


def test_a_stream_that_is_gone_gets_nothing() -> None:
    _, windows = opened(1)
    assert widest(windows, 77, 1) == FIRST_WINDOW
    assert widest(windows, 1, 1) == WIDEST


def test_smaller_windows_do_not_grow() -> None:
    _, windows = opened(1, stream_window=10_000)
    assert widest(windows, 1, 1) == FIRST_WINDOW
