"""Whatever happens in whatever order, every call ends once and nothing is left of it."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from sidecar.settings.schema import Limits, ServiceOverride, Services, Upstream
from sidecar.settings.units import Duration, Size
from tests.fixtures.dubbo_frames import (
    cut,
    frame,
    heartbeat,
    heartbeat_reply,
    readonly,
    reply,
    request,
    writeable,
)
from tests.fixtures.proxy_rig import End, Rig

PORTS = (20880, 20881, 20882)
SERVICE = "com.x.Demo:1.0.0"
LATER = "com.x.Later:1.0.0"
picks = st.integers(0, 50)


class Calls(RuleBasedStateMachine):
    """A consumer's view of the data plane under random faults."""

    @initialize(connections=st.integers(1, 3), warm=st.integers(0, 1))
    def start(self, connections, warm):
        self.rig = Rig(
            limits=Limits(
                upstream_buffer=Size(4000),
                consumer_buffer=Size(1500),
                max_inflight_per_consumer=20,
                max_payload=Size(3000),
                consumer_stall=Duration(20.0),
            ),
            upstream=Upstream(connections=connections, warm=warm, idle_close=Duration(15.0)),
            services=Services(
                max_waiting=5,
                overrides={SERVICE: ServiceOverride(idempotent=["again"])},
            ),
        )
        self.rig.services.publish(*PORTS)
        self.consumers: list[End] = []
        self.providers: list[End] = []
        self.asked: dict[int, set[int]] = {}
        self.sent = 0
        self.number = 0
        self.new_consumer()
        for port in PORTS:
            self.traffic(0, 9, "hi", "", True)
            self.connect(port)

    def new_consumer(self) -> End:
        consumer = self.rig.consumer()
        self.consumers.append(consumer)
        self.asked[id(consumer)] = set()
        return consumer

    def some(self, ends, pick):
        alive = [end for end in ends if not end.is_closed and not getattr(end, "is_lost", False)]
        return alive[pick % len(alive)] if alive else None

    @rule(
        pick=picks,
        count=st.integers(1, 9),
        method=st.sampled_from(["hi", "again"]),
        timeout=st.sampled_from(["", "", "50", "900", "4000"]),
        turn=st.booleans(),
    )
    def traffic(self, pick, count, method, timeout, turn):
        """Ordinary calls, every fourth of them one-way."""
        for number in range(count):
            self.call(pick, number % 4 != 3, method, "com.x.Demo", timeout, "x" * 100)
        if turn:
            self.rig.loop.turn()

    @rule(
        pick=picks,
        two_way=st.booleans(),
        service=st.sampled_from(["com.x.Demo", "com.x.Later", "com.x.Never"]),
        timeout=st.sampled_from(["", "50", "4000"]),
        argument=st.sampled_from(["", "y" * 4000]),
    )
    def call(self, pick, two_way, method="hi", service="", timeout="", argument=""):
        consumer = self.some(self.consumers, pick) or self.new_consumer()
        if consumer.protocol.is_leaving or not consumer.transport.is_reading:
            return
        self.number += 1
        attachments = {"timeout": timeout} if timeout else {}
        self.sent += two_way
        if two_way:
            self.asked[id(consumer)].add(self.number)
        consumer.deliver(
            request(self.number, service=service, method=method, argument=argument,
                    two_way=two_way, **attachments)
        )  # fmt: skip

    @rule(pick=picks)
    def connect(self, pick):
        if self.rig.connects:
            self.providers.append(
                self.rig.open(self.rig.connects[pick % len(self.rig.connects)].port)
            )

    @rule(pick=picks)
    def refuse(self, pick):
        if self.rig.connects:
            self.rig.refuse(self.rig.connects[pick % len(self.rig.connects)].port)

    def pending(self, provider):
        frames, _ = cut(b"".join(provider.transport.writes))
        done = getattr(provider, "done", set())
        return [each for each in frames if each.is_two_way and each.number not in done]

    @rule(pick=picks, which=picks, size=st.sampled_from([1, 500, 5000]))
    def answer(self, pick, which, size):
        provider = self.some(self.providers, pick)
        calls = self.pending(provider) if provider else []
        for call in calls[: 1 + which % 9]:
            if provider.is_closed:
                return
            provider.done = getattr(provider, "done", set()) | {call.number}
            if call.is_event:
                provider.send(heartbeat_reply(call.number))
            else:
                provider.send(frame(0x02, 20, call.number, b"\x91" + b"z" * size))

    @rule(pick=picks, raw=st.sampled_from([
        reply(1), reply(2), reply(10**9), readonly(), writeable(), heartbeat(4), request(8),
        frame(0xE2, 0, 3, b""), b"\xda\xbb",
    ]))  # fmt: skip
    def say(self, pick, raw):
        provider = self.some(self.providers, pick)
        if provider and not getattr(provider, "is_stuck", False):
            provider.is_stuck = raw == b"\xda\xbb"
            provider.send(raw)

    @rule(pick=picks, good=st.booleans())
    def lose_provider(self, pick, good):
        provider = self.some(self.providers, pick)
        if provider:
            provider.is_lost = True
            provider.finish() if good else provider.lose()

    @rule(pick=picks, good=st.booleans())
    def lose_consumer(self, pick, good):
        consumer = self.some(self.consumers, pick)
        if consumer and good:
            consumer.protocol.eof_received()
        elif consumer:
            consumer.is_lost = True
            consumer.lose()

    @rule(pick=picks, provider=st.booleans(), pause=st.booleans())
    def pressure(self, pick, provider, pause):
        end = self.some(self.providers if provider else self.consumers, pick)
        if end:
            end.protocol.pause_writing() if pause else end.protocol.resume_writing()

    @rule(seconds=st.sampled_from([0.01, 0.06, 0.5, 3.1, 16.0]))
    def pass_time(self, seconds):
        self.rig.loop.advance(seconds)

    @rule()
    def keep_house(self):
        self.rig.check()

    @rule(ports=st.sets(st.sampled_from(PORTS)))
    def register(self, ports):
        instances = self.rig.services.publish(*sorted(ports))
        gone = [f"127.0.0.1:{port}" for port in PORTS if port not in ports]
        self.rig.pool.retire(gone, self.rig.loop.now)
        self.rig.pool.add(instances, self.rig.loop.now)

    @rule(good=st.booleans())
    def resolve(self, good):
        if good:
            self.rig.services.publish(PORTS[0], service=LATER)
        else:
            self.rig.services.fail("UNKNOWN_SERVICE", service=LATER)
        self.rig.wake(LATER)

    def teardown(self):
        if not hasattr(self, "rig"):
            return
        rig = self.rig
        for provider in self.providers:
            if not getattr(provider, "is_lost", False):
                provider.is_lost = True
                provider.lose()
        for _ in range(20):
            while rig.connects:
                rig.refuse()
            rig.loop.advance(1.0)
        rig.assert_empty()
        self.check_replies()
        ended = sum(sum(stats.outcomes) for stats in rig.counters.methods.values())
        assert ended == self.sent, "each two-way call is counted once"

    def check_replies(self):
        for consumer in self.consumers:
            consumer.protocol.resume_writing()
            self.rig.loop.turn()
            frames, _ = cut(b"".join(consumer.transport.writes))
            numbers = [each.number for each in frames]
            assert len(numbers) == len(set(numbers)), "one reply to a call"
            assert set(numbers) <= self.asked[id(consumer)], "none to a one-way call"
            if not consumer.transport.is_aborted and not getattr(consumer, "is_lost", False):
                assert set(numbers) == self.asked[id(consumer)], "none is forgotten"


TestCalls = Calls.TestCase
TestCalls.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
