"""Whatever two ends do in whatever order, nothing of it is left: streams, bytes, windows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.protocol.http2 import codes
from tests.fixtures.http2_peers import REQUEST, RESPONSE, TRAILERS, End

WINDOW = 65_535
SIDES = st.booleans()
STREAMS = st.integers(0, 2)
SIZES = st.sampled_from([0, 1, 100, 16_384, 16_385, 40_000])
PARTS = st.sampled_from([5, 100, 5000, 20_000, 1 << 24])
CODES = st.sampled_from([codes.INTERNAL_ERROR, codes.CANCEL, codes.REFUSED_STREAM])

DATA = st.tuples(st.just("data"), SIDES, STREAMS, SIZES, SIDES)
MOVE = st.tuples(st.just("move"), SIDES, PARTS)
RESET = st.tuples(st.just("reset"), SIDES, STREAMS, CODES)
ACTIONS = st.one_of(
    st.tuples(st.just("request"), SIDES),
    st.tuples(st.just("respond"), STREAMS, SIDES),
    st.tuples(st.just("inform"), STREAMS),
    st.tuples(st.just("trailers"), SIDES, STREAMS),
    st.tuples(st.just("acknowledge"), SIDES, STREAMS),
    st.tuples(st.just("ping"), SIDES),
    st.tuples(st.just("take"), SIDES, PARTS),
    st.tuples(st.just("feed"), SIDES, PARTS),
    *[DATA, MOVE, RESET] * 4,  # what matters most is often needed in a row
)
LEAVING = st.one_of(
    st.tuples(st.just("notice")),
    st.tuples(st.just("goaway"), SIDES),
)


class Scene:
    """Two ends and the bytes on their way between them; True stands for the server."""

    def __init__(self) -> None:
        self.ends = {
            side: End(side, False, stream_window=20_000, connection_window=WINDOW, max_streams=4)
            for side in (False, True)
        }
        self.wires = {False: bytearray(), True: bytearray()}
        self.sent: dict[tuple[bool, int], bytearray] = {}
        self.requested: set[int] = set()
        self.settle()
        for _ in range(3):
            self.request(False)

    # Actions

    def request(self, is_end: bool) -> None:
        stream_id = self.ends[False].session.request(REQUEST, is_end)
        if stream_id:
            self.requested.add(stream_id)

    def respond(self, number: int, is_end: bool) -> None:
        self.ends[True].session.respond(2 * number + 1, RESPONSE, is_end)

    def inform(self, number: int) -> None:
        self.ends[True].session.inform(2 * number + 1, ((b":status", b"103"),))

    def data(self, side: bool, number: int, size: int, is_end: bool) -> None:
        stream_id = 2 * number + 1
        sent = self.sent.setdefault((side, stream_id), bytearray())
        piece = bytes((len(sent) + at) % 251 for at in range(size))
        if self.ends[side].session.data(stream_id, piece, is_end):
            sent += piece

    def trailers(self, side: bool, number: int) -> None:
        self.ends[side].session.trailers(2 * number + 1, TRAILERS)

    def reset(self, side: bool, number: int, code: int) -> None:
        self.ends[side].session.reset(2 * number + 1, code)

    def acknowledge(self, side: bool, number: int) -> None:
        self.ends[side].acknowledge(2 * number + 1)

    def ping(self, side: bool) -> None:
        self.ends[side].session.ping(bytes(8))

    def notice(self) -> None:
        self.ends[True].session.shutdown_notice()

    def goaway(self, side: bool) -> None:
        self.ends[side].session.goaway(codes.NO_ERROR)

    def take(self, side: bool, amount: int) -> None:
        self.wires[side] += self.ends[side].output(amount)

    def feed(self, side: bool, amount: int) -> None:
        """Let some of what a side sent arrive at the other one."""
        wire = self.wires[side]
        self.ends[not side].feed(bytes(wire[:amount]))
        del wire[:amount]

    def move(self, side: bool, amount: int) -> None:
        """Write all there is, and let some of it arrive."""
        self.take(side, 1 << 24)
        self.feed(side, amount)

    # The end

    def settle(self) -> None:
        moved = True
        while moved:
            moved = False
            for side, end in self.ends.items():
                for stream_id in list(end.owed):
                    if not end.session.broken:
                        end.acknowledge(stream_id)
                self.take(side, 1 << 24)
                moved = moved or bool(self.wires[side])
                self.feed(side, 1 << 24)

    def finish(self) -> None:
        self.settle()
        for stream_id in self.requested:
            for side in (False, True):
                self.ends[side].session.respond(stream_id, RESPONSE, False)
                self.ends[side].session.end(stream_id)
        self.settle()

    def check_endings(self) -> None:
        """Each stream that was heard of has ended (``End`` checks that it did so only once)."""
        heard = {what[1] for what in self.ends[True].heard if what[0] == "headers"}
        assert self.ends[True].closed.keys() == heard
        assert self.ends[False].closed.keys() == self.requested

    def transfer(self, side: bool) -> None:
        """Send until the window has been returned: all of it, or some was lost before."""
        sender, reader = self.ends[side], self.ends[not side]
        stream_id = sender.session.request(REQUEST, False) if not side else max(self.requested)
        if side:
            assert sender.session.respond(stream_id, RESPONSE, False)
        self.requested.add(stream_id)
        for _ in range(WINDOW // 1000):
            assert sender.session.data(stream_id, bytes(1000), False)
            self.settle()
            if reader.session._connection.local_window_size == WINDOW:
                return
        raise AssertionError("the window is not full any more")


@given(st.lists(ACTIONS, min_size=10, max_size=60))
@settings(max_examples=200)
def test_nothing_is_left(actions: list[tuple[object, ...]]) -> None:
    scene = Scene()
    for name, *arguments in actions:
        getattr(scene, str(name))(*arguments)
    scene.finish()
    for side, end in scene.ends.items():
        assert end.session.broken == ""
        assert not end.session._open
        assert not end.session._reset_here
        assert not end.session.has_output
        assert end.session._connection.queued_body_size() == 0
        for stream_id, body in end.bodies.items():
            sent = scene.sent.get((not side, stream_id), bytearray())
            assert sent.startswith(body)
            if end.closed[stream_id] == scene.ends[not side].closed[stream_id] == 0:
                assert sent == body
    scene.check_endings()
    scene.transfer(False)
    scene.transfer(True)


@given(st.lists(ACTIONS, max_size=40), st.lists(LEAVING, min_size=1), st.lists(ACTIONS))
@settings(max_examples=100)
def test_nothing_is_left_of_an_end(
    before: list[tuple[object, ...]],
    leaving: list[tuple[object, ...]],
    after: list[tuple[object, ...]],
) -> None:
    scene = Scene()
    for name, *arguments in before + leaving + after:
        getattr(scene, str(name))(*arguments)
    scene.finish()
    is_over = any(end.session.broken for end in scene.ends.values())
    for end in scene.ends.values():
        assert end.session.broken in ("", "closed")
        if is_over:  # who closes first loses the connection for the other one, too
            end.session.close_all(end)
        assert not end.session._open
        assert end.session._connection.queued_body_size() == 0
        assert end.session.farewell() == b""
    scene.check_endings()


def recorded(side: bool) -> bytes:
    """Return all that one side of an ordinary connection wrote."""
    ends = {False: End(False), True: End(True)}
    ends[False].session.request(REQUEST, False)
    ends[False].session.data(1, bytes(300), True)
    written = bytearray()
    for source in (False, True) * 3:
        if ends[True].session.respond(1, RESPONSE, False):
            ends[True].session.data(1, bytes(200), False)
            ends[True].session.trailers(1, TRAILERS)
        output = ends[source].output()
        written += output if source == side else b""
        ends[not source].feed(output)
    assert ends[False].closed == ends[True].closed == {1: 0}
    return bytes(written)


WRITTEN = {side: recorded(side) for side in (False, True)}


@given(
    SIDES,
    st.lists(st.tuples(st.integers(0, 700), st.binary(max_size=12)), min_size=1, max_size=4),
    st.lists(st.integers(1, 300), max_size=10),
)
@settings(max_examples=300)
def test_damaged_bytes_never_raise(
    side: bool, damage: list[tuple[int, bytes]], sizes: list[int]
) -> None:
    data = bytearray(WRITTEN[not side])
    for at, piece in damage:
        data[at : at + len(piece)] = piece
    end = End(side)
    requested = {end.session.request(REQUEST, True)} - {0}
    end.output()
    for size in [*sizes, len(data)]:
        end.feed(bytes(data[:size]))
        del data[:size]
        end.output()
    said = end.session.broken
    assert said in ("", "closed", "protocol", "limit")
    end.session.close_all(end)
    heard = {what[1] for what in end.heard if what[0] == "headers"}
    assert end.closed.keys() == (heard if side else requested)
    assert len(end.session.farewell()) in ((0,) if said in ("", "closed") else (0, 17))
