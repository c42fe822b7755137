"""The routing ring against obviously correct twins that look at every instance of every call.

The twins know nothing of sets, memos, differences or epochs: they read the table of fall-backs over
plain lists, in which instances of other protocols do not even appear. The engine must agree with
them for random fleets, rules and calls, and after any sequence of changes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sidecar.dispatch.directory import Directory, Service
from sidecar.dispatch.dispatcher import decide
from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.protocol import DUBBO, EVERY, TRIPLE
from sidecar.model.service import ServiceKey
from sidecar.routing.build import ChainOptions, Rules, build_snapshot
from sidecar.routing.chain import router_names
from sidecar.routing.router import Call
from sidecar.routing.rule import TagRule, parse_tag_rule
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.routing.table import InstanceTable
from sidecar.settings.schema import Nearby
from sidecar.telemetry.counters import Counters
from tests.fixtures.fleet import INTERFACE, provider

KEY = ServiceKey(INTERFACE, "1.0.0")
HOSTS = [f"192.0.2.{n}" for n in range(8)]
TAGS = ["gray", "gray|x", "blue", "red", "!gray", "=gray", "?"]
APPLICATIONS = ["a", "b"]


class TwinTag(NamedTuple):
    """A tag of a rule: hosts, or the value that the parameter env must have."""

    hosts: tuple[str, ...]
    env: str

    def has(self, instance: Instance) -> bool:
        if self.hosts:
            return instance.host in self.hosts
        return instance.parameters.get("env") == self.env


class TwinRule(NamedTuple):
    """A rule as its author thinks of it."""

    is_enabled: bool
    force: bool
    tags: dict[str, TwinTag]

    def text(self) -> str:
        tags: list[dict[str, Any]] = []
        for name, tag in self.tags.items():
            match = [{"key": "env", "value": {"exact": tag.env}}]
            of_tag = {"addresses": list(tag.hosts)} if tag.hosts else {"match": match}
            tags.append({"name": name, **of_tag})
        document = {
            "configVersion": "v3.0", "enabled": self.is_enabled, "force": self.force, "tags": tags,
        }  # fmt: skip
        return repr(document)

    def compiled(self) -> TagRule:
        found = parse_tag_rule(self.text(), "key").rule
        assert found is not None
        return found

    def level(self, tag: str, exact: bool, known: list[Instance]) -> str:
        """The longest level of ``tag`` that is defined, given the application's instances."""
        parts = tag.split("|")
        for length in range(len(parts), 0, -1):
            name = "|".join(parts[:length])
            found = self.tags.get(name)
            if found is not None and (found.hosts or any(map(found.has, known))):
                return name
            if exact:
                break
        return ""

    def lists(self, instance: Instance) -> bool:
        return any(tag.has(instance) for tag in self.tags.values())


NO_RULE = TwinRule(False, False, {})


class World(NamedTuple):
    """Everything that decides a route."""

    instances: list[Instance]
    rules: dict[str, TwinRule]
    service_rule: TwinRule
    options: ChainOptions


def active(found: TwinRule | None) -> TwinRule:
    return found if found is not None and found.is_enabled else NO_RULE


Routed = tuple[list[Instance], str]


def twin_members(world: World) -> Routed:
    found = [each for each in world.instances if each.group == ""]
    if not found:
        return [], reason.GROUP_MISMATCH if world.instances else reason.EMPTY_REGISTRY
    found = [each for each in found if each.version == "1.0.0"]
    if not found:
        return [], reason.VERSION_MISMATCH
    found = [each for each in found if each.parameters.get("disabled") != "true"]
    return found, "" if found else reason.DISABLED


def twin_tag(world: World, members: list[Instance], given: list[Instance], call: Call) -> Routed:
    def of(instance: Instance) -> TwinRule:
        return active(world.rules.get(instance.application))

    def peers(instance: Instance) -> list[Instance]:
        return [each for each in members if each.application == instance.application]

    def level(instance: Instance) -> str:
        return of(instance).level(call.tag, call.force_tag, peers(instance)) if call.tag else ""

    def is_plain(instance: Instance) -> bool:
        return not instance.tag and not of(instance).lists(instance)

    def is_tagged(instance: Instance) -> bool:
        name = level(instance)
        return of(instance).tags[name].has(instance) if name else instance.tag == call.tag

    if not call.tag:
        found = [each for each in given if is_plain(each)]
        return found, "" if found else reason.TAG_EMPTY
    found = [each for each in given if is_tagged(each)]
    if found:
        return found, ""
    if call.force_tag:
        return [], reason.TAG_FORCED_EMPTY
    found = [e for e in given if is_plain(e) and not (level(e) and of(e).force)]
    is_forced = any(level(each) and of(each).force for each in members)
    return found, "" if found else reason.TAG_FORCED_EMPTY if is_forced else reason.TAG_EMPTY


def twin_service_tag(
    world: World, members: list[Instance], given: list[Instance], call: Call
) -> Routed:
    found_rule = world.service_rule
    if not found_rule.is_enabled:
        return given, ""
    tag = call.service_tag or call.tag
    level = found_rule.level(tag, call.force_tag, members) if tag else ""
    if level:
        found = [each for each in given if found_rule.tags[level].has(each)]
        if found:
            return found, ""
        if found_rule.force:
            return [], reason.TAG_FORCED_EMPTY
    if call.force_tag and (level or call.service_tag):
        return [], reason.TAG_FORCED_EMPTY
    found = [each for each in given if not found_rule.lists(each)]
    return found, "" if found else reason.TAG_EMPTY


def twin_nearby(world: World, members: list[Instance], given: list[Instance], call: Call) -> Routed:
    location, nearby = world.options.location, world.options.nearby
    if not location:
        return given, ""
    local = [each for each in given if each.parameters.get(nearby.key) == location]
    if not local:
        if nearby.mode == "ratio" and nearby.force:
            return [], reason.NEARBY_FORCED_EMPTY
        return given, ""
    if nearby.mode == "ratio":
        return (local if len(local) * 100 // len(given) > nearby.threshold else given), ""
    return (local if len(local) >= nearby.threshold else given), ""


TWINS: dict[str, Callable[[World, list[Instance], list[Instance], Call], Routed]] = {
    "tag": twin_tag, "tag-service": twin_service_tag, "nearby": twin_nearby,
}  # fmt: skip


def twin_route(world: World, call: Call, protocol: int) -> tuple[set[str], str]:
    members, why = twin_members(world)
    if members:
        members = [each for each in members if each.protocols & protocol]
        why = "" if members else reason.PROTOCOL_MISMATCH
    out = members
    for name in world.options.routers:
        if out:
            out, why = TWINS[name](world, members, out, call)
    return {each.address for each in out}, why


def built(world: World, table: InstanceTable | None = None) -> ServiceSnapshot:
    if table is None:
        table = InstanceTable()
        table.apply(world.instances)
    rules = Rules(
        {name: found.compiled() for name, found in world.rules.items()},
        world.service_rule.compiled(),
    )
    return build_snapshot(KEY, table, None, rules, world.options)


def engine_route(service: Service, call: Call, protocol: int) -> tuple[set[str], str]:
    assert service.plan is not None
    pool = service.plan.pool(call.tag, call.force_tag, call.service_tag, protocol)
    return {each.address for each in pool.instances}, pool.reason


def published(snapshot: ServiceSnapshot) -> Service:
    directory = Directory(Counters(), 1)
    service = directory.add(KEY)
    assert service is not None
    directory.publish(KEY, snapshot)
    return service


INSTANCES = st.builds(
    provider,
    st.sampled_from(HOSTS),
    version=st.sampled_from(["1.0.0"] * 6 + [""]),
    group=st.sampled_from([""] * 6 + ["g"]),
    application=st.sampled_from(APPLICATIONS),
    tag=st.sampled_from(["", "", "", *TAGS]),
    env=st.sampled_from(["gray", "blue", "none"]),
    zone=st.sampled_from(["bj", "sh"]),
    disabled=st.sampled_from(["false"] * 6 + ["true"]),
    protocols=st.sampled_from([DUBBO, DUBBO, TRIPLE, EVERY]),
)
PROTOCOLS = st.sampled_from([DUBBO, TRIPLE])
TWIN_TAGS = st.builds(
    TwinTag,
    st.lists(st.sampled_from([*HOSTS, "198.51.100.1"]), max_size=3, unique=True).map(tuple),
    st.sampled_from(["gray", "blue", "nowhere"]),
)
TWIN_RULES = st.builds(
    TwinRule,
    st.sampled_from([True, True, True, False]),
    st.booleans(),
    st.dictionaries(st.sampled_from(TAGS), TWIN_TAGS, max_size=3),
)
CALLS = st.builds(
    Call,
    st.sampled_from(["", *TAGS, "gray|x|y", "gray|z", "unknown", "unknown|x", "|"]),
    st.booleans(),
    st.sampled_from(["", "", *TAGS, "gray|q", "unknown"]),
)
OPTIONS = st.builds(
    ChainOptions,
    st.sampled_from(["", "-tag", "-tag-service", "-nearby", "nearby,default", "-default"]).map(
        router_names
    ),
    st.builds(
        Nearby,
        mode=st.sampled_from(["ratio", "count"]),
        threshold=st.sampled_from([0, 1, 2, 3, 30, 50, 100]),
        force=st.booleans(),
    ),
    st.sampled_from(["", "bj", "sh", "gz"]),
)


def distinct(instances: list[Instance]) -> list[Instance]:
    """Keep the last of each identity, as a table does."""
    return list({(i.address, i.group, i.version): i for i in instances}.values())


WORLDS = st.builds(
    World,
    st.lists(INSTANCES, max_size=14).map(distinct),
    st.dictionaries(st.sampled_from(APPLICATIONS), TWIN_RULES, max_size=2),
    st.one_of(st.just(NO_RULE), TWIN_RULES),
    OPTIONS,
)


@given(WORLDS, st.lists(st.tuples(CALLS, PROTOCOLS), min_size=1, max_size=8))
@settings(max_examples=400)
def test_the_engine_routes_as_its_twin(world: World, calls: list[tuple[Call, int]]) -> None:
    service = published(built(world))
    for call, protocol in [*calls, *calls]:  # the second time from the memo
        assert engine_route(service, call, protocol) == twin_route(world, call, protocol)


@given(WORLDS, PROTOCOLS, CALLS, CALLS)
def test_calls_of_one_memo_key_are_routed_equally(
    world: World, protocol: int, one: Call, two: Call
) -> None:
    view = built(world).view(protocol)
    chain, members = view.chain, view.members
    if members and chain.inputs(one) == chain.inputs(two):
        counters = Counters()
        assert chain.route(one, members, counters) == chain.route(two, members, counters)


@given(WORLDS, PROTOCOLS, st.text(max_size=8))
def test_memo_keys_do_not_grow_with_what_callers_send(
    world: World, protocol: int, noise: str
) -> None:
    chain = built(world).view(protocol).chain
    for force in (False, True):
        unknown = chain.inputs(Call("unknown", force, "unknown"))
        noisy = chain.inputs(Call(f"unknown{noise.replace('|', '')}", force, "unknown"))
        assert noisy == unknown


def test_fc_35_each_route_sees_one_epoch() -> None:
    """Calls that hold an old plan, among replacements of lists and rules that reuse ids."""
    random = Random(35)
    table = InstanceTable()
    directory = Directory(Counters(), 1)
    service = directory.add(KEY)
    assert service is not None
    options = ChainOptions(router_names(""), Nearby(threshold=20), "bj")
    calls = [Call(tag, force) for tag in ("", "gray", "blue", "x") for force in (False, True)]
    snapshot: ServiceSnapshot | None = None
    held: list[tuple[Any, World]] = []
    found, compiled = NO_RULE, NO_RULE.compiled()
    for _ in range(500):
        if random.random() < 0.3:
            listed = tuple(random.sample(HOSTS, 2))
            found = TwinRule(True, random.random() < 0.3, {"gray": TwinTag(listed, "")})
            compiled = found.compiled()
        size = random.choice((0, 1, 5, 40, 300))
        wanted = distinct([_random_instance(random) for _ in range(size)])
        present = [each for each in table.instances if each is not None]
        change = table.apply(wanted, random.sample(present, len(present) // 2))
        world = World([e for e in table.instances if e is not None], {"a": found}, NO_RULE, options)
        rules = Rules({"a": compiled}, None)
        snapshot = build_snapshot(KEY, table, change, rules, options, snapshot)
        directory.publish(KEY, snapshot)
        held = [*held[-4:], (service.plan, world)]
        for plan, seen in held:
            call, protocol = random.choice(calls), random.choice((DUBBO, TRIPLE))
            pool = plan.pool(call.tag, call.force_tag, call.service_tag, protocol)
            out, why = twin_route(seen, call, protocol)
            assert ({each.address for each in pool.instances}, pool.reason) == (out, why)
            for _ in range(20):
                picked = pool.pick("m", 0, random.random, {})
                assert (picked.address in out) if picked is not None else not out


def _random_instance(random: Random) -> Instance:
    return provider(
        f"192.0.2.{random.randrange(250)}" if random.random() < 0.9 else random.choice(HOSTS),
        version="1.0.0" if random.random() < 0.9 else "",
        application=random.choice(APPLICATIONS),
        tag=random.choice(("", "", "gray", "blue")),
        zone=random.choice(("bj", "sh")),
        protocols=random.choice((DUBBO, TRIPLE, EVERY)),
    )


class Churn(RuleBasedStateMachine):
    """Any sequence of changes: the build by difference is the build from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.table = InstanceTable()
        self.world = World([], {}, NO_RULE, ChainOptions((), Nearby(), ""))
        self.compiled: dict[str, TagRule | None] = {}
        self.service_rule: TagRule | None = None
        self.directory = Directory(Counters(), 1)
        self.snapshot: ServiceSnapshot | None = None
        self.random = Random(1)
        service = self.directory.add(KEY)
        assert service is not None
        self.service = service

    def publish(self, change: Any) -> None:
        rules = Rules(self.compiled, self.service_rule)
        before = self.snapshot
        self.snapshot = build_snapshot(
            KEY, self.table, change, rules, self.world.options, self.snapshot
        )
        if before is not None:
            assert self.snapshot.epoch - before.epoch in (0, 1)
        self.directory.publish(KEY, self.snapshot)

    @initialize(options=OPTIONS)
    def start(self, options: ChainOptions) -> None:
        self.world = self.world._replace(options=options)
        self.publish(None)

    @rule(drafts=st.lists(INSTANCES, max_size=4), data=st.data())
    def change_instances(self, drafts: list[Instance], data: st.DataObject) -> None:
        present = self.world.instances
        gone = data.draw(st.lists(st.sampled_from(present), max_size=3)) if present else []
        change = self.table.apply(drafts, gone)
        left = {id(each) for each in gone}
        kept = [each for each in present if id(each) not in left]
        self.world = self.world._replace(instances=distinct([*kept, *drafts]))
        self.publish(change)

    @rule(drafts=st.lists(INSTANCES, max_size=4))
    def miss_a_change(self, drafts: list[Instance]) -> None:
        self.table.apply(drafts)
        self.world = self.world._replace(instances=distinct([*self.world.instances, *drafts]))
        self.publish(self.table.apply([]))

    @rule(name=st.sampled_from(APPLICATIONS), new=st.none() | TWIN_RULES)
    def change_rule(self, name: str, new: TwinRule | None) -> None:
        rules = {**self.world.rules, name: new or NO_RULE}
        self.world = self.world._replace(rules=rules)
        self.compiled = {**self.compiled, name: new.compiled() if new else None}
        self.publish(None)

    @rule(new=st.none() | TWIN_RULES)
    def change_service_rule(self, new: TwinRule | None) -> None:
        self.world = self.world._replace(service_rule=new or NO_RULE)
        self.service_rule = new.compiled() if new else None
        self.publish(None)

    @rule(options=OPTIONS)
    def change_options(self, options: ChainOptions) -> None:
        self.world = self.world._replace(options=options)
        self.publish(None)

    @rule(call=CALLS, protocol=PROTOCOLS)
    def route(self, call: Call, protocol: int) -> None:
        routed = engine_route(self.service, call, protocol)
        assert routed == twin_route(self.world, call, protocol)

    @rule(call=CALLS, protocol=PROTOCOLS)
    def pick(self, call: Call, protocol: int) -> None:
        decision = decide(
            self.service, call.tag, call.force_tag, call.service_tag, "m", 0, self.random.random,
            {}, protocol,
        )  # fmt: skip
        out, why = twin_route(self.world, call, protocol)
        if decision.instance is None:
            assert (set(), decision.reason) == (out, why)
        else:
            assert decision.instance.address in out
            assert decision.instance is self.table.instances[decision.instance.id]
            assert decision.instance.protocols & protocol

    @precondition(lambda self: self.snapshot is not None)
    @invariant()
    def sets_are_those_of_a_fresh_build(self) -> None:
        assert self.snapshot is not None
        rules = Rules(self.compiled, self.service_rule)
        fresh = build_snapshot(KEY, self.table, None, rules, self.world.options)
        assert self.snapshot.members == fresh.members
        assert self.snapshot.empty_reason == fresh.empty_reason
        for protocol in (DUBBO, TRIPLE):
            view, wanted = self.snapshot.view(protocol), fresh.view(protocol)
            assert (view.members, view.empty_reason) == (wanted.members, wanted.empty_reason)
            for call in (Call(), Call("gray|x|y"), Call("blue", True, "gray")):
                assert view.chain.inputs(call) == wanted.chain.inputs(call)
                if wanted.members:
                    found = view.chain.route(call, view.members, Counters())
                    assert found == wanted.chain.route(call, wanted.members, Counters())


TestChurn = Churn.TestCase
TestChurn.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
