"""Whatever happens between registry and sidecar, the sidecar ends with the registry's last state.

A model of a ZooKeeper server with one-shot watches stands on one side, the path machines and the
catalog on the other. Between them everything that a client library and a network may do: answers
and watch events in separate orders, arbitrarily late, connections that break in every state.
"""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sidecar.discovery import path as p
from sidecar.discovery.catalog import Catalog
from sidecar.discovery.path import STATE_NAMES
from sidecar.discovery.path_table import PathTable
from sidecar.discovery.read_limiter import ReadLimiter
from sidecar.discovery.slot import Slot
from sidecar.model.service import ServiceKey
from sidecar.settings.schema import Registry, Settings
from sidecar.telemetry.counters import Counters
from tests.fixtures.board import Board
from tests.fixtures.provider_names import provider_name

DELAY = 1.0
START = 1000.0
CART = ServiceKey("demo.Cart")
SLOT = Slot("providers", "demo.Cart")


class Server:
    """One node that may exist, its children, and the watches of the current connection."""

    def __init__(self):
        self.children = None
        self.watches = set()
        self.exists_watches = set()
        self.events = deque()

    def change(self, children):
        if children == self.children:
            return
        appeared = self.children is None
        vanished = children is None
        self.children = children
        if appeared or vanished:
            self.fire(self.exists_watches)
        if not appeared:
            self.fire(self.watches)

    def fire(self, watches):
        self.events.extend(sorted(watches))
        watches.clear()

    def answer(self, request):
        if request.is_probe:
            # An exists-watch on a node that is there fires on its deletion, so it is kept as well.
            self.exists_watches.add(request.token)
            return (p.GONE if self.children is None else p.FOUND), None
        if self.children is None:
            return p.MISSING, None
        self.watches.add(request.token)
        return p.LISTED, sorted(self.children)

    def disconnect(self):
        self.watches.clear()
        self.exists_watches.clear()


class Walk(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now = START
        self.server = Server()
        self.table = PathTable(ReadLimiter(burst=1000, per_second=1000))
        self.board = Board()
        settings = Settings(registries=[Registry(name="main", url="zookeeper://zk/dubbo")])
        self.catalog = Catalog(settings, self.board, Counters())
        self.catalog.subscribe(CART, self.now)
        self.requests = deque()
        self.replies = deque()
        self.is_linked = False
        self.read_at = 0.0
        self.is_excused = True  # a new connection or a failure may be followed by a read at once

    @initialize(exists=st.booleans(), is_settled=st.booleans())
    def begin(self, exists, is_settled):
        self.table.watch("/p", DELAY, self.now)
        if exists:
            self.server.change(frozenset())
        if is_settled:
            self.connect()
            self.settle()

    @rule(n=st.integers(11, 16), generation=st.integers(0, 1))
    def register(self, n, generation):
        children = self.server.children or frozenset()
        self.server.change(children | {provider_name(n, started=1_700_000_000_000 + generation)})

    @precondition(lambda self: self.server.children)
    @rule(n=st.integers(0, 20))
    def unregister(self, n):
        children = sorted(self.server.children)
        self.server.change(self.server.children - {children[n % len(children)]})

    @precondition(lambda self: self.server.children is not None)
    @rule()
    def delete_node(self):
        self.server.change(None)

    @precondition(lambda self: not self.is_linked)
    @rule()
    def connect(self):
        self.is_linked = True
        self.is_excused = True
        self.table.linked(self.now)
        self.catalog.linked("main")
        self.tick()

    @precondition(lambda self: self.is_linked)
    @rule(is_noticed=st.booleans())
    def disconnect(self, is_noticed):
        """The link breaks; what was under way fails or is lost, what arrived is still delivered."""
        self.server.disconnect()
        if is_noticed:
            self.replies.extend((each, p.REFUSED, None) for each in self.requests)
        self.requests.clear()
        self.is_linked = False
        self.table.lost(self.now)
        self.catalog.lost("main")
        self.tick()

    @precondition(lambda self: self.requests)
    @rule()
    def serve(self):
        request = self.requests.popleft()
        self.replies.append((request, *self.server.answer(request)))

    @precondition(lambda self: self.requests)
    @rule()
    def refuse(self):
        self.is_excused = True
        self.replies.append((self.requests.popleft(), p.REFUSED, None))

    @precondition(lambda self: self.replies)
    @rule()
    def deliver_reply(self):
        request, event, names = self.replies.popleft()
        if self.table.replied("/p", request.token, event, self.now):
            if event in (p.LISTED, p.GONE):
                self.catalog.listed("main", SLOT, names or ())
            else:
                self.is_excused = True
        self.tick()

    @precondition(lambda self: self.server.events)
    @rule()
    def deliver_event(self):
        self.table.fired("/p", self.server.events.popleft(), self.now)
        self.tick()

    @rule(seconds=st.sampled_from([0.01, 0.3, 1.0, 5.0]))
    def wait(self, seconds):
        self.now += seconds
        self.tick()

    @precondition(lambda self: self.catalog._busy)
    @rule()
    def work(self):
        self.catalog.work(2)

    def settle(self):
        while self.requests or self.replies or self.server.events:
            if self.requests:
                self.serve()
            if self.replies:
                self.deliver_reply()
            if self.server.events:
                self.deliver_event()

    def tick(self):
        for request in self.table.tick(self.now):
            self.requests.append(request)
            if not request.is_probe:
                is_due = self.now >= self.read_at + DELAY - 1e-9
                assert is_due or self.is_excused, "a burst of changes costs one read per delay"
                self.read_at = self.now
                self.is_excused = False

    @invariant()
    def one_request_at_a_time(self):
        current = self.table.machine("/p")
        if current is not None:
            assert sum(each.token == current.token for each in self.requests) <= 1

    @invariant()
    def an_idle_path_is_armed_or_has_a_timer(self):
        machine = self.table.machine("/p")
        if machine is None or not self.is_linked:
            return
        if machine.state in (p.ARMED, p.ABSENT):
            assert machine.due == 0.0
            is_armed = machine.token in self.server.watches | self.server.exists_watches
            assert is_armed or machine.token in self.server.events
        else:
            assert machine.due or machine.state == p.QUEUED

    def teardown(self):
        if not self.is_linked:
            self.connect()
        for _ in range(50):
            self.settle()
            if not self.table.next_due():
                break
            self.now = self.table.next_due()
            self.tick()
        machine = self.table.machine("/p")
        if machine is None:
            return
        assert machine.state in (p.ARMED, p.ABSENT), STATE_NAMES[machine.state]
        for slot, _ in self.catalog.take_watches():
            if slot.kind == "rule":
                self.catalog.rule("main", slot.name, "", 0, 0)
        while self.catalog.work():
            pass
        for slot, is_wanted in self.catalog.take_watches():
            if slot.kind == "rule" and is_wanted:
                self.catalog.rule("main", slot.name, "", 0, 0)
        true = {name.split("%3A")[1].rpartition(".")[2] for name in self.server.children or ()}
        assert self.board.hosts() == {int(each) for each in true}


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
pytestmark = pytest.mark.timeout(120)
