"""Whatever HTTP/1.1 consumers and their provider do, and when: nothing is left, no window lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.settings.schema import Http2
from sidecar.settings.units import Duration, Size
from tests.fixtures.http1_end import PATH
from tests.fixtures.http2_ends import Stream
from tests.fixtures.triple_rig import connected

KIB = 1024
OK = ((b":status", b"200"), (b"content-type", b"application/json"))
HEAD = "Host: h\r\ntri-service-version: 1.0.0\r\n"
SAYINGS = {
    "get": f"GET {PATH} HTTP/1.1\r\n{HEAD}\r\n",
    "post": f"POST {PATH} HTTP/1.1\r\n{HEAD}Content-Length: 5\r\n\r\nhello",
    "short": f"POST {PATH} HTTP/1.1\r\n{HEAD}Content-Length: 9\r\n\r\nhello",
    "chunked": f"POST {PATH} HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\nTE: trailers\r\n\r\n",
    "waits": f"POST {PATH} HTTP/1.1\r\n{HEAD}Content-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    "head": f"HEAD {PATH} HTTP/1.1\r\n{HEAD}\r\n",
    "old": f"GET {PATH} HTTP/1.0\r\n{HEAD}\r\n",
    "last": f"GET {PATH} HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n",
    "deadline": f"GET {PATH} HTTP/1.1\r\n{HEAD}tri-service-timeout: 50\r\n\r\n",
    "none": "GET /none HTTP/1.1\r\nHost: h\r\n\r\n",
    "part": "GET /none HTTP",
    "garbage": "\x01\x02\r\n\r\n",
    "chunk": "5\r\nhello\r\n",
    "big chunk": "8000\r\n" + "x" * 0x8000 + "\r\n",
    "end": "0\r\n\r\n",
    "trailers": "0\r\nx-sum: 1\r\n\r\n",
}
ACTIONS = [
    "settle", "push", "pull", "turn", "stuck", "free", "finish", "lose", "leave", "wait", "check",
    "mute", "reads", "data", "much data", "end of answer", "trailers of answer", "reset", "empty",
    "stop",
]  # fmt: skip


class Play:
    """Two consumers and a provider that do as they are told."""

    def __init__(self) -> None:
        http2 = Http2(stream_window=Size(64 * KIB), idle=Duration(60.0))
        self.rig, other, (self.provider,) = connected(20880, http2=http2)
        other.finish()
        self.rig.settle()
        self.consumers = [self.rig.http1() for _ in range(2)]
        for consumer in self.consumers:
            consumer._hear = lambda data: None
        self.begun: set[int] = set()

    def act(self, who: int, what: str) -> None:
        consumer = self.consumers[who]
        if what in SAYINGS:
            consumer.say(SAYINGS[what].encode())
        elif what in ("settle", "push", "pull", "turn"):
            self.move(consumer, what)
        elif what in ("stuck", "free"):
            consumer.transport.is_stuck = what == "stuck"
        elif consumer.is_lost or what in ("wait", "check", "mute", "reads", "stop"):
            self.pass_time(what)
        elif what in ("finish", "lose"):
            getattr(consumer, what)()
        elif what == "leave":
            consumer.protocol.leave()
        else:
            self.answer(who, what)

    def move(self, consumer, what: str) -> None:
        if what == "settle":
            self.rig.settle()
        elif what == "turn":
            self.rig.loop.turn()
        else:
            getattr(consumer, what)()

    def pass_time(self, what: str) -> None:
        if what == "wait":
            self.rig.loop.advance(0.06)
        elif what == "check":
            self.rig.advance(11)
            self.rig.check()
        elif what in ("mute", "reads"):
            self.provider.reads = what == "reads"
            if self.provider.reads:
                self.provider.read_all()
        elif what == "stop":
            self.provider.push()

    def answer(self, who: int, what: str) -> None:
        open_streams = [each for each in self.provider.streams.values() if self.is_open(each)]
        if not open_streams:
            return
        stream = open_streams[who % len(open_streams)]
        if what == "reset":
            self.provider.reset(stream, 2)
            return
        if stream.id not in self.begun:
            self.begun.add(stream.id)
            self.provider.head(stream, OK, end=what == "empty")
            if what == "empty":
                stream.is_answered = True
                return
        size = {"data": 100, "much data": 200 * KIB}.get(what, 0)
        if stream.head[0][1] == b"HEAD":
            size = 0
        if what == "end of answer":
            self.provider.data(stream, b"", end=True)
            stream.is_answered = True
        elif what == "trailers of answer":
            self.provider.trailers(stream)
            stream.is_answered = True
        elif size:
            self.provider.data(stream, b"x" * size)

    def is_open(self, stream: Stream) -> bool:
        is_answered = getattr(stream, "is_answered", False)
        return stream.closed is None and stream.reset is None and not is_answered

    def finish(self) -> None:
        """Everything reads again, then all consumers go."""
        self.provider.reads = True
        self.provider.read_all()
        for consumer in self.consumers:
            consumer.transport.is_stuck = False
        self.rig.settle()
        for consumer in self.consumers:
            if not consumer.is_lost:
                assert consumer.protocol._untaken == 0 or consumer.protocol.call is not None
                consumer.lose()
        self.rig.settle()


# What a call needs to get anywhere comes more often.
COMMON = ["get", "chunked", "chunk", "end", "data", "much data", "end of answer"] * 4
STEPS = st.tuples(
    st.integers(0, 1),
    st.sampled_from([*COMMON, *SAYINGS, *ACTIONS]),
    st.sampled_from([True, True, False]),
)


@settings(max_examples=300)
@given(st.lists(STEPS, min_size=5, max_size=40))
def test_nothing_is_left(script):
    play = Play()
    for who, what, settles in script:
        play.act(who, what)
        if settles:
            play.rig.settle()
    play.finish()
    play.rig.assert_empty()
    for consumer in play.consumers:
        assert consumer.protocol._untaken == 0
        assert consumer.protocol.held_bytes == 0
        assert consumer.protocol.call is None
    assert play.rig.engine.consumers == set()
