"""Whatever frames, resets and ends come in whatever order: no stream, window or byte is lost."""

from __future__ import annotations

import contextlib
import logging

import ngh2
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from sidecar.settings.schema import Http2, Upstream
from sidecar.settings.units import Duration, Size
from tests.fixtures.http2_ends import ConsumerEnd, FarEnd, ProviderEnd, Stream
from tests.fixtures.triple_rig import Rig

PORTS = (20880, 20881, 20882)
GRPC, JSON = "application/grpc", "application/json"
PATH = "/com.x.Demo/hi"
HEALTH = "/grpc.health.v1.Health/"
BROKEN = (4).to_bytes(3, "big") + b"\x08" + bytes(5) + bytes(4)  # a window that grows by nothing
SIZES = st.sampled_from([0, 1, 1000, 30_000, 90_000])
picks = st.integers(0, 50)
moves = st.sampled_from([True, True, False])  # whether everything moves before the next step


class Defects(logging.Handler):
    """Keeps what is only logged, since a defect must cost one connection at most."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))


class Asked:
    """A request: what was sent of it so far."""

    def __init__(self, consumer: ConsumerEnd, stream: Stream, body: bytes, is_ended: bool) -> None:
        self.consumer = consumer
        self.stream = stream
        self.body = bytearray(body)
        self.is_ended = is_ended


class Streams(RuleBasedStateMachine):
    """Consumers and providers that do as they like, within HTTP/2 and now and then beyond."""

    @initialize(
        stream_window=st.sampled_from([65_536, 200_000]),
        connection_window=st.sampled_from([200_000, 1 << 20]),
        replay=st.sampled_from([0, 1000, 65_536]),
        connections=st.sampled_from([(1, 1), (1, 3), (2, 3)]),
        max_age=st.sampled_from([0.0, 5.0]),
    )
    def start(self, stream_window, connection_window, replay, connections, max_age):
        self.rig = Rig(
            http2=Http2(
                resets=1_000_000,
                control_frames=1_000_000,
                stream_window=Size(stream_window),
                connection_window=Size(connection_window),
                replay=Size(replay),
            ),
            upstream=Upstream(
                connections=connections[0],
                max_connections=connections[1],
                max_age=Duration(max_age),
            ),
        )
        self.connection_window = connection_window
        self.defects = Defects()
        logging.getLogger("sidecar").addHandler(self.defects)
        self.rig.publish(*PORTS)
        self.consumers: list[ConsumerEnd] = []
        self.providers: list[ProviderEnd] = []
        self.asked: list[Asked] = []
        self.new_consumer(0, True)
        self.new_consumer(1000, False)
        for number in range(12):
            self.ask(number, PATH, (GRPC, JSON)[number % 2], "", 1000, number % 3 == 0, True)
            self.connect(-1, 0, number % 2 == 0, number % 4 != 3)

    def some(self, ends, pick):
        alive = [end for end in ends if not (end.is_lost or end.is_closed)]
        return alive[pick % len(alive)] if alive else None

    @rule(window=st.sampled_from([0, 1000, 100_000]), reads=st.booleans())
    def new_consumer(self, window, reads):
        if len(self.consumers) < 4:
            consumer = self.rig.consumer(window=window)
            consumer.reads = reads
            self.consumers.append(consumer)

    @rule(
        pick=picks,
        path=st.sampled_from([PATH] * 4 + [HEALTH + "Watch", HEALTH + "Check", "/a/b"]),
        kind=st.sampled_from([GRPC, GRPC, GRPC, JSON]),
        timeout=st.sampled_from(["", "", "50m", "1S"]),
        size=SIZES,
        end=st.booleans(),
        move=moves,
    )
    def ask(self, pick, path, kind, timeout, size, end, move):
        consumer = self.some(self.consumers, pick)
        if consumer is None or not consumer.connection.can_send_request:
            return
        fields = {"grpc_timeout": timeout} if timeout else {}
        number = str(len(self.asked))
        body = b"x" * size
        stream = consumer.ask(path, body, end, kind, number=number, **fields)
        self.asked.append(Asked(consumer, stream, body, end))
        self.move(move)

    @rule(pick=picks, size=SIZES, end=st.booleans(), letter=st.sampled_from(b"ab"), move=moves)
    def send_more(self, pick, size, end, letter, move):
        if not self.asked:
            return
        asked = self.asked[pick % len(self.asked)]
        body = bytes([letter]) * size
        with contextlib.suppress(ngh2.NGH2Error):
            asked.consumer.data(asked.stream, body, end)
            asked.body += body
            asked.is_ended |= end
        self.move(move)

    @rule(pick=picks, move=moves)
    def give_up(self, pick, move):
        if self.asked:
            asked = self.asked[pick % len(self.asked)]
            with contextlib.suppress(ngh2.NGH2Error):
                asked.consumer.reset(asked.stream)
        self.move(move)

    @rule(
        max_streams=st.sampled_from([-1, -1, 1, 3]),
        window=st.sampled_from([0, 1000, 100_000]),
        reads=st.booleans(),
        good=st.sampled_from([True, True, True, False]),
    )
    def connect(self, max_streams, window, reads, good):
        if self.rig.connects and good:
            provider = self.rig.open(max_streams=max_streams, window=window)
            provider.reads = reads
            self.providers.append(provider)
        elif self.rig.connects:
            self.rig.refuse()

    @rule(
        pick=picks,
        which=picks,
        what=st.sampled_from(["answer", "head", "data", "trailers", "reset", "inform", "error"]),
        size=SIZES,
        end=st.booleans(),
        code=st.sampled_from([0, 2, 7, 8]),
        move=moves,
    )
    def reply(self, pick, which, what, size, end, code, move):
        provider = self.some(self.providers, pick)
        if provider is None:
            return
        streams = [each for each in provider.streams.values() if each.closed is None]
        if not streams:
            return
        stream = streams[which % len(streams)]
        with contextlib.suppress(ngh2.NGH2Error):
            if what == "answer":
                provider.answer(stream, b"z" * size)
            elif what == "head":
                provider.head(stream)
            elif what == "data":
                provider.data(stream, b"z" * size, end)
            elif what == "trailers":
                provider.trailers(stream)
            elif what == "reset":
                provider.reset(stream, code)
            elif what == "inform":
                provider.inform(stream, [(b":status", b"103")])
            else:
                provider.head(stream, [(b":status", b"503")], end)
        self.move(move)

    @rule(pick=picks, last=st.sampled_from([0, 1, 3, (1 << 31) - 1]))
    def goaway(self, pick, last):
        provider = self.some(self.providers, pick)
        if provider is not None:
            with contextlib.suppress(ngh2.NGH2Error):
                provider.goaway(last)

    @rule(pick=picks, provider=st.booleans(), how=st.sampled_from(["lose", "finish", "break"]))
    def end(self, pick, provider, how):
        end = self.some(self.providers if provider else self.consumers[1:], pick)
        if end is None:
            return
        if how == "lose":
            end.lose()
        elif how == "finish":
            end.finish()
        else:
            end.raw(BROKEN)

    @rule(pick=picks, provider=st.booleans(), what=st.sampled_from(["stick", "read", "stop"]))
    def pressure(self, pick, provider, what):
        end = self.some(self.providers if provider else self.consumers, pick)
        if end is None:
            return
        if what == "stick":
            end.transport.is_stuck = not end.transport.is_stuck
        else:
            end.reads = what == "read"
            self.let_read(end)

    def let_read(self, end: FarEnd) -> None:
        if end.reads and not end.is_lost:
            with contextlib.suppress(ngh2.NGH2Error):
                end.read_all()

    @rule(pick=picks, provider=st.booleans())
    def move_one(self, pick, provider):
        end = self.some(self.providers if provider else self.consumers, pick)
        if end is not None:
            end.push()
            end.pull()

    @rule()
    def move_all(self):
        self.rig.settle()

    def move(self, move):
        if move:
            self.rig.settle()

    @rule()
    def turn(self):
        self.rig.loop.turn()

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.2, 6.0]), house=st.booleans())
    def pass_time(self, seconds, house):
        self.rig.advance(seconds)
        if house:
            self.rig.check()

    @rule(port=st.sampled_from(PORTS))
    def retire(self, port):
        self.rig.pool.retire([f"127.0.0.1:{port}"], self.rig.loop.now)

    def teardown(self):
        if not hasattr(self, "rig"):
            return
        for end in [*self.consumers, *self.providers]:
            end.transport.is_stuck = False
            end.reads = True
        for _ in range(3):  # what the transports held, what waited here, what it led to
            self.finish()
        logging.getLogger("sidecar").removeHandler(self.defects)
        assert self.defects.found == []
        self.check_bodies()
        self.check_nothing_is_left()

    def finish(self):
        """Have every call end, here or there, and let time pass."""
        for provider in self.providers:
            for stream in provider.streams.values():
                with contextlib.suppress(ngh2.NGH2Error):
                    provider.reset(stream)
        self.rig.settle()
        for asked in self.asked:
            with contextlib.suppress(ngh2.NGH2Error):
                asked.consumer.reset(asked.stream)
        for _ in range(10):
            while self.rig.connects:
                self.rig.refuse()
            for end in [*self.consumers, *self.providers]:
                self.let_read(end)
            self.rig.advance(1.0)
            self.rig.check()

    def check_bodies(self):
        """What a provider took for a whole request is the whole request."""
        for provider in self.providers:
            for stream in provider.streams.values():
                number = stream.field(b"number")
                if number is None:
                    continue
                asked = self.asked[int(number)]
                assert asked.body.startswith(stream.body)
                if stream.is_ended:
                    assert asked.is_ended
                    assert stream.body == asked.body

    def check_nothing_is_left(self):
        rig = self.rig
        live = [*rig.engine.consumers, *rig.links]
        connections = [link._session._connection for link in live]
        rig.ledgers = [each for each in rig.ledgers if each in connections]  # the others are gone
        rig.assert_empty()
        for link in live:
            assert link._session._open == set()
            assert link._session._reset_here == set()
            # Updates that wait are those of less than half a window.
            assert link._session._connection.local_window_size >= self.connection_window // 2


TestStreams = Streams.TestCase
TestStreams.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
