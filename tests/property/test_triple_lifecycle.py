"""Whatever happens in whatever order, every Triple call ends once and nothing is left of it."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from sidecar.settings.schema import Http2, Limits, ServiceOverride, Services, Upstream
from sidecar.settings.units import Duration, Size
from tests.fixtures.http2_ends import WINDOW, ConsumerEnd, FarEnd, ProviderEnd, Stream
from tests.fixtures.http2_peers import RESPONSE
from tests.fixtures.triple_rig import SERVICE, Rig

PORTS = (20880, 20881, 20882)
LATER = "com.x.Later:1.0.0"
NEVER = "com.x.Never:1.0.0"
LAST = (1 << 31) - 1
WATCH = "/grpc.health.v1.Health/Watch"
JSON = "application/json"
PATHS = [f"/com.x.{each}" for each in ("Demo/hi", "Demo/again", "Later/hi", "Never/hi")]
# Most calls are ordinary.
paths = st.sampled_from([*PATHS[:2] * 3, *PATHS, WATCH])
kinds = st.sampled_from(["application/grpc"] * 3 + [JSON])
picks = st.integers(0, 50)
sizes = st.sampled_from([0, 1, 300, 2500, 9000, 70_000])
OK = ((b"grpc-status", b"0"),)


def pattern(number: int, start: int, size: int) -> bytes:
    """Bytes that tell whose they are and that none is missing; they begin with a gRPC message."""
    prefix = b"\0" + (number * 37 % 400).to_bytes(4, "big")
    cycle = bytes((number * 7 + n) % 251 for n in range(251))
    return (prefix + cycle * ((start + size) // 251 + 1))[start : start + size]


class Sent:
    """What one end has sent on a stream."""

    def __init__(self, number: int, is_json: bool = False) -> None:
        self.number = number
        self.is_json = is_json
        self.size = 0
        self.has_head = False
        self.is_over = False
        self.is_given_up = False

    def more(self, size: int) -> bytes:
        data = pattern(self.number, self.size, size)
        self.size += size
        return data


class Streams(RuleBasedStateMachine):
    """Consumers and providers of one sidecar, under random faults."""

    @initialize(
        connections=st.integers(1, 2),
        most=st.integers(1, 3),
        age=st.sampled_from([0, 20]),
        window=st.sampled_from([0, 500]),
        widest=st.sampled_from([4000, 150_000]),
    )
    def start(self, connections, most, age, window, widest):
        self.rig = Rig(
            limits=Limits(max_inflight_per_consumer=20, upstream_buffer=Size(20_000)),
            http2=Http2(
                stream_window=Size(widest), connection_window=Size(max(4 * widest, WINDOW)),
                replay=Size(2000),
                idle=Duration(60.0), slow_header=Duration(30.0),
            ),
            upstream=Upstream(
                connections=max(1, min(connections, most)), max_connections=most,
                idle_close=Duration(15.0), max_age=Duration(float(age)),
            ),
            services=Services(
                max_waiting=5, wait=Duration(5.0),
                overrides={SERVICE: ServiceOverride(idempotent=["again"])},
            ),
        )  # fmt: skip
        self.rig.publish(*PORTS)
        self.consumers: list[ConsumerEnd] = []
        self.providers: list[ProviderEnd] = []
        self.asked: dict[Stream, Sent] = {}
        self.answered: dict[Stream, Sent] = {}
        self.watches: set[Stream] = set()
        self.wholes: set[tuple[int, int]] = set()  # number and size of answers that were finished
        self.number = 0
        self.consumers.append(self.rig.consumer(window=window))
        for _ in PORTS:
            self.traffic(0, 3, "application/grpc", 1, False, "turn")

    # Who is there

    def some(self, ends: list[Any], pick: int) -> Any:
        alive = [end for end in ends if not end.is_closed and not end.is_lost and not end.is_over]
        return alive[pick % len(alive)] if alive else None

    def request(self, pick: int) -> tuple[Any, Any, Any]:
        """A request that its consumer has not ended."""
        found = [
            (end, stream, self.asked[stream])
            for end in self.consumers
            for stream in end.streams.values()
            if not end.is_lost and not end.is_over and stream.closed is None
        ]
        found = [each for each in found if not each[2].is_over]
        return found[pick % len(found)] if found else (None, None, None)

    def call(self, pick: int) -> tuple[Any, Any, Any]:
        """A request that its provider has not answered wholly."""
        found = []
        for end in self.providers:
            if end.is_lost or end.is_over:
                continue
            for stream in end.streams.values():
                sent = self.answer_of(stream)
                if stream.closed is None and stream.reset is None and not sent.is_over:
                    found.append((end, stream, sent))
        return found[pick % len(found)] if found else (None, None, None)

    def answer_of(self, stream: Stream) -> Sent:
        if stream not in self.answered:
            self.answered[stream] = Sent(int(stream.field(b"x-number") or b"0"))
        return self.answered[stream]

    # Consumers

    @rule(window=st.sampled_from([0, 500]))
    def new_consumer(self, window):
        if len(self.consumers) < 6:
            self.consumers.append(self.rig.consumer(window=window))

    @rule(
        pick=picks,
        path=paths,
        kind=kinds,
        size=sizes,
        end=st.booleans(),
        limit=st.sampled_from(["", "", "50m", "900m", "4S"]),
        count=st.sampled_from([1, 1, 1, 4]),
    )
    def ask(self, pick, path, kind, size, end, limit, count):
        for _ in range(count):
            consumer = self.some(self.consumers, pick)
            if consumer is None or consumer.goaways:
                return
            if path == WATCH:
                self.ask_for_health(consumer)
                continue
            self.number += 1
            sent = Sent(self.number, kind == JSON)
            fields = {"x_number": str(self.number)}
            if limit:
                fields["grpc_timeout"] = limit
            if limit and kind == JSON:
                fields["tri_service_timeout"] = limit[:-1] + "0" * 3 * (limit[-1] == "S")
            stream = consumer.ask(path, sent.more(size), end, kind, **fields)
            sent.is_over = end
            self.asked[stream] = sent

    @rule(
        pick=picks,
        count=st.integers(1, 8),
        kind=kinds,
        size=sizes,
        answers=st.booleans(),
        what=st.sampled_from(["push", "turn", "settle"]),
    )
    def traffic(self, pick, count, kind, size, answers, what):
        """Ordinary calls, and connections for them."""
        consumer = self.some(self.consumers, pick)
        if consumer is None or consumer.goaways:
            consumer = self.rig.consumer()
            self.consumers.append(consumer)
        index = [each for each in self.consumers if not each.is_closed].index(consumer)
        for number in range(count):
            self.ask(index, PATHS[number % 2], kind, size, number % 3 != 2, "", 1)
        consumer.push() if what == "push" else self.move(pick, what)
        for _ in range(len(self.rig.connects)):
            self.connect(pick, -1, 0)
        if answers:
            self.answer(pick, size, count)

    def ask_for_health(self, consumer):
        name = SERVICE.encode()
        message = b"\x0a" + bytes([len(name)]) + name
        body = b"\0" + len(message).to_bytes(4, "big") + message
        stream = consumer.ask(WATCH, body, version="")
        self.asked[stream] = Sent(0)
        self.asked[stream].is_over = True
        self.watches.add(stream)

    @rule(pick=picks, size=sizes, how=st.sampled_from(["more", "more", "end", "trailers"]))
    def go_on_asking(self, pick, size, how):
        consumer, stream, sent = self.request(pick)
        if consumer is None:
            return
        if size or how == "end":
            consumer.data(stream, sent.more(size), how == "end")
        if how == "trailers":
            consumer.trailers(stream, [(b"x-sum", b"1")])
        sent.is_over = how != "more"

    @rule(pick=picks, code=st.sampled_from([8, 8, 0, 2]))
    def cancel(self, pick, code):
        consumer = self.some(self.consumers, pick)
        open_ = (
            [each for each in consumer.streams.values() if each.closed is None] if consumer else []
        )
        if open_:
            stream = open_[pick % len(open_)]
            consumer.reset(stream, code)
            self.asked[stream].is_over = self.asked[stream].is_given_up = True

    # Providers

    @rule(pick=picks, most=st.sampled_from([-1, -1, 1, 3]), window=st.sampled_from([0, 500]))
    def connect(self, pick, most, window):
        if self.rig.connects:
            port = self.rig.connects[pick % len(self.rig.connects)].port
            self.providers.append(self.rig.open(port, most, window, greets=bool(pick % 3)))

    @rule(pick=picks)
    def refuse(self, pick):
        if self.rig.connects:
            self.rig.refuse(self.rig.connects[pick % len(self.rig.connects)].port)

    @rule(pick=picks, size=sizes, count=st.integers(1, 5))
    def answer(self, pick, size, count):
        """Answer wholly, or what is still open of an answer."""
        for _ in range(count):
            provider, stream, sent = self.call(pick)
            if provider is None:
                return
            self.begin(provider, stream, sent)
            if size:
                provider.data(stream, sent.more(size))
            self.finish(provider, stream, sent)

    @rule(pick=picks, size=sizes)
    def go_on_answering(self, pick, size):
        provider, stream, sent = self.call(pick)
        if provider is not None:
            self.begin(provider, stream, sent)
            if size:
                provider.data(stream, sent.more(size))

    def begin(self, provider, stream, sent):
        if not sent.has_head:
            sent.has_head = True
            provider.head(stream)

    def finish(self, provider, stream, sent):
        sent.is_over = True
        provider.trailers(stream, OK)
        self.wholes.add((sent.number, sent.size))

    @rule(pick=picks, what=st.sampled_from(["503", "no status", "trailers only", "no trailers"]))
    def answer_badly(self, pick, what):
        provider, stream, sent = self.call(pick)
        if provider is None:
            return
        if sent.has_head:
            provider.data(stream, b"", end=True)
        elif what == "503":
            provider.head(stream, ((b":status", b"503"),), end=True)
        elif what == "trailers only":
            provider.head(stream, (*RESPONSE, (b"grpc-status", b"9")), end=True)
        elif what == "no trailers":
            provider.head(stream)
            provider.data(stream, b"", end=True)
        else:
            provider.head(stream, RESPONSE, end=True)
        sent.has_head = sent.is_over = True

    @rule(pick=picks, code=st.sampled_from([7, 7, 0, 8, 2]))
    def reset(self, pick, code):
        provider, stream, sent = self.call(pick)
        if provider is not None:
            provider.reset(stream, code)
            sent.is_over = True

    @rule(pick=picks, which=picks)
    def leave(self, pick, which):
        if pick % 2:
            return
        provider = self.some(self.providers, pick)
        if provider is not None:
            known = [LAST, *provider.streams]
            provider.goaway(known[which % len(known)])

    @rule(pick=picks, most=st.sampled_from([0, 1, 3, 100]))
    def limit_streams(self, pick, most):
        provider = self.some(self.providers, pick)
        if provider is not None:
            provider.connection.update_settings({3: most})

    # Connections

    @rule(pick=picks, is_provider=st.booleans(), good=st.booleans())
    def lose(self, pick, is_provider, good):
        if pick % 3:
            return  # not often
        end = self.some(self.providers if is_provider else self.consumers, pick)
        if end is not None:
            end.finish() if good else end.lose()

    @rule(pick=picks, is_provider=st.booleans(), how=st.sampled_from(["stops", "stops", "reads"]))
    def read(self, pick, is_provider, how):
        end = self.some(self.providers if is_provider else self.consumers, pick)
        if end is not None:
            end.reads = how == "reads"
            if end.reads:
                end.read_all()

    @rule(pick=picks, is_provider=st.booleans(), is_stuck=st.booleans())
    def pressure(self, pick, is_provider, is_stuck):
        end = self.some(self.providers if is_provider else self.consumers, pick)
        if end is not None:
            end.transport.is_stuck = is_stuck

    @rule(pick=picks, what=st.sampled_from(["push", "pull", "turn", "settle", "settle"]))
    def move(self, pick, what):
        ends = [end for end in self.rig.ends if not end.is_lost]
        if what == "turn":
            self.rig.loop.turn()
        elif what == "settle" or not ends:
            self.rig.settle()
        else:
            getattr(ends[pick % len(ends)], what)()

    # Time and the registry

    @rule(seconds=st.sampled_from([0.01, 0.06, 0.5, 3.1, 16.0]), settles=st.booleans())
    def pass_time(self, seconds, settles):
        self.rig.advance(seconds) if settles else self.rig.loop.advance(seconds)

    @rule(settles=st.booleans())
    def keep_house(self, settles):
        self.rig.check() if settles else self.rig.engine.check(self.rig.loop.now)

    @rule(ports=st.sets(st.sampled_from(PORTS)))
    def register(self, ports):
        instances = self.rig.publish(*sorted(ports))
        gone = [f"127.0.0.1:{port}" for port in PORTS if port not in ports]
        self.rig.engine.addresses_changed(gone, instances, self.rig.loop.now)
        self.rig.engine.wake(SERVICE, self.rig.loop.now)

    @rule(good=st.booleans())
    def resolve(self, good):
        if good:
            self.rig.publish(PORTS[0], service=LATER)
        else:
            self.rig.services.fail("UNKNOWN_SERVICE", service=LATER)
        self.rig.engine.wake(LATER, self.rig.loop.now)

    @rule(pick=picks)
    def ask_consumer_to_leave(self, pick):
        consumer = self.some(self.consumers, pick)
        if consumer is not None and pick % 3 == 0:
            consumer.protocol.leave()

    # The end

    def teardown(self):
        if not hasattr(self, "rig"):
            return
        self.calm()
        for _ in range(12):
            while self.rig.connects:
                self.providers.append(self.rig.open())
            self.answer(0, 1, 200)
            self.rig.advance(1.0)
        self.rig.assert_empty()
        self.check_windows()
        self.check_requests()
        self.check_answers()
        heard = sum(end.ledger.requests for end in self.consumers)
        ended = sum(sum(stats.outcomes) for stats in self.rig.counters.methods.values())
        assert ended == heard, "each call is counted once"

    def calm(self):
        """Have everybody read again, and consumers end their requests."""
        for end in self.rig.ends:
            end.transport.is_stuck = False
            end.reads = True
            end.read_all()
        for provider in self.providers:
            if not provider.is_lost and not provider.is_over:
                provider.connection.update_settings({3: 100})
        for consumer in self.consumers:
            for stream in consumer.streams.values():
                sent = self.asked[stream]
                if consumer.is_lost or consumer.is_over or stream.closed is not None:
                    continue
                if stream in self.watches:
                    consumer.reset(stream)
                    sent.is_given_up = True
                elif not sent.is_over:
                    consumer.data(stream, b"", end=True)
                    sent.is_over = True
        self.rig.settle()

    def check_windows(self):
        window = int(self.rig.settings.http2.connection_window)
        for end in self.rig.ends:
            if not end.is_lost and not end.is_over:
                assert window - end.connection.remote_window_size <= window // 2
        granted = [link._windows._granted for link in self.rig.links]
        granted += [each._windows._granted for each in self.rig.engine.consumers]
        assert set(granted) <= {0}

    def check_requests(self):
        """Providers got what was sent, from its beginning; all of it if they were told so."""
        sent_by_number = {sent.number: sent for sent in self.asked.values()}
        for end in self.providers:
            for stream in end.streams.values():
                sent = sent_by_number[int(stream.field(b"x-number"))]
                assert stream.body == pattern(sent.number, 0, len(stream.body))
                if stream.is_ended:
                    assert sent.is_over
                    assert len(stream.body) == sent.size

    def check_answers(self):
        for end in self.consumers:
            for stream in end.streams.values():
                if stream not in self.watches:
                    self.check_answer(end, stream, self.asked[stream])

    def check_answer(self, end: FarEnd, stream: Stream, sent: Sent):
        if stream.field(b"content-type") != JSON.encode():  # of which only local answers are
            assert stream.body == pattern(sent.number, 0, len(stream.body))
        if stream.is_ended and not sent.is_json:
            assert stream.status >= 0, "an end without a status is none"
            if stream.status == 0:
                assert (sent.number, len(stream.body)) in self.wholes
        if not end.is_lost and not end.is_over and not sent.is_given_up:
            assert stream.closed is not None, "none is forgotten"
            assert stream.is_ended or stream.reset is not None
            if stream.is_ended:
                assert stream.reset in (None, 0)


TestStreams = Streams.TestCase
TestStreams.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
