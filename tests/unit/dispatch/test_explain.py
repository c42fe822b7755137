"""Explain: the same walk with every set named."""

from __future__ import annotations

import json
from typing import Any

from sidecar.balance.pool import BACKING_OFF, DRAINING
from sidecar.dispatch.directory import Directory, Service
from sidecar.dispatch.explain import MAX_EXCLUDED, explain
from sidecar.dispatch.plan import Plan
from sidecar.model import reason
from sidecar.model.instance import Instance
from sidecar.model.instance_set import InstanceSet
from sidecar.model.protocol import EVERY, TRIPLE
from sidecar.model.service import ServiceKey
from sidecar.routing.router import Call, Rules, Step
from sidecar.telemetry.counters import Counters
from tests.fixtures.fleet import INTERFACE, options, provider, rule, snapshot
from tests.fixtures.scripted_router import ScriptedRouter, with_routers

KEY = ServiceKey(INTERFACE)
RULE = "tags: [{name: gray, addresses: [192.0.2.1, 192.0.2.2]}]"


def service(*instances: Instance, text: str = RULE) -> Service:
    directory = Directory(Counters(), 10)
    found = directory.add(KEY)
    assert found is not None
    rules = Rules({"cart-app": rule(text)})
    directory.publish(KEY, snapshot(instances, rules=rules, chain=options(location="bj")))
    return found


def steps(answer: dict[str, Any]) -> list[tuple[str, int, int, str]]:
    return [(s["router"], s["in"], s["out"], s["reason"]) for s in answer["steps"]]


FLEET = (
    provider("192.0.2.1", zone="bj"),
    provider("192.0.2.2", zone="sh"),
    provider("192.0.2.3", tag="blue"),
    provider("192.0.2.4"),
    provider("192.0.2.5", version="2.0.0"),
    provider("192.0.2.6", group="dev"),
    provider("192.0.2.7", disabled="true"),
)


def test_every_step_is_named() -> None:
    answer = explain(service(*FLEET), Call("gray"), "find", {})
    assert answer == {
        "service": INTERFACE,
        "protocol": "dubbo",
        "epoch": 1,
        "steps": [
            {
                "router": "match",
                "in": 7,
                "out": 4,
                "reason": "matched",
                "excluded": [
                    {"instance": "192.0.2.5:20880", "reason": "VERSION_MISMATCH"},
                    {"instance": "192.0.2.6:20880", "reason": "GROUP_MISMATCH"},
                    {"instance": "192.0.2.7:20880", "reason": "DISABLED"},
                ],
            },
            {
                "router": "tag",
                "in": 4,
                "out": 2,
                "reason": "tagged",
                "excluded": [
                    {"instance": "192.0.2.3:20880", "reason": "tagged blue"},
                    {"instance": "192.0.2.4:20880", "reason": "not tagged gray"},
                ],
            },
            {"router": "tag-service", "in": 2, "out": 2, "reason": "no_rule", "excluded": []},
            {
                "router": "nearby",
                "in": 2,
                "out": 1,
                "reason": "local",
                "excluded": [{"instance": "192.0.2.2:20880", "reason": "zone sh, not bj"}],
            },
            {"router": "admit", "in": 1, "out": 1, "reason": "admitted", "excluded": []},
        ],
        "eligible": ["192.0.2.1:20880"],
        "picked_by": "random",
        "reason": "",
    }
    assert json.loads(json.dumps(answer)) == answer


def test_fc_81_the_step_that_emptied_the_set() -> None:
    answer = explain(service(*FLEET), Call("red", True), "m", {})
    assert steps(answer) == [
        ("match", 7, 4, "matched"),
        ("tag", 4, 0, reason.TAG_FORCED_EMPTY),
    ]
    assert (answer["eligible"], answer["picked_by"]) == ([], "")
    assert answer["reason"] == reason.TAG_FORCED_EMPTY


def test_no_member() -> None:
    answer = explain(service(provider(version="2.0.0")), Call(), "m", {})
    assert steps(answer) == [("match", 1, 0, reason.VERSION_MISMATCH)]
    assert answer["reason"] == reason.VERSION_MISMATCH


def test_the_other_protocol_is_left_out_first() -> None:
    found = service(
        provider("192.0.2.11", zone="bj"),
        provider("192.0.2.12", zone="sh", protocol="tri"),
        provider("192.0.2.13", zone="bj", protocols=EVERY),
        provider("192.0.2.14", protocol="tri", version="2.0.0"),
    )
    answer = explain(found, Call(), "m", {}, TRIPLE)
    assert answer["protocol"] == "triple"
    assert answer["steps"][0] == {
        "router": "match",
        "in": 4,
        "out": 2,
        "reason": "matched",
        "excluded": [
            {"instance": "192.0.2.11:20880", "reason": "PROTOCOL_MISMATCH"},
            {"instance": "192.0.2.14:20880", "reason": "VERSION_MISMATCH"},
        ],
    }
    assert steps(answer)[3] == ("nearby", 2, 1, "local")
    assert answer["eligible"] == ["192.0.2.13:20880"]
    assert explain(found, Call(), "m", {})["eligible"] == ["192.0.2.11:20880", "192.0.2.13:20880"]


def test_nobody_speaks_the_protocol() -> None:
    answer = explain(service(provider("192.0.2.1", protocol="tri")), Call("gray"), "m", {})
    assert steps(answer) == [("match", 1, 0, reason.PROTOCOL_MISMATCH)]
    assert answer["reason"] == reason.PROTOCOL_MISMATCH


def test_before_the_first_publish() -> None:
    directory = Directory(Counters(), 10)
    found = directory.add(KEY)
    assert found is not None
    directory.fail(KEY, reason.REGISTRY_UNAVAILABLE)
    answer = explain(found, Call(), "m", {})
    assert (answer["epoch"], answer["steps"], answer["eligible"]) == (0, [], [])
    assert answer["reason"] == reason.REGISTRY_UNAVAILABLE


def test_masks_and_zero_weights_are_a_step() -> None:
    found = service(
        provider("192.0.2.11", zone="bj"),
        provider("192.0.2.12", zone="bj"),
        provider("192.0.2.13", zone="bj"),
        provider("192.0.2.14", zone="bj", methods={"find": 0}),
    )
    unavailable = {"192.0.2.11:20880": DRAINING, "192.0.2.12:20880": BACKING_OFF}
    answer = explain(found, Call(), "find", unavailable)
    assert answer["steps"][-1] == {
        "router": "admit",
        "in": 4,
        "out": 1,
        "reason": "admitted",
        "excluded": [
            {"instance": "192.0.2.11:20880", "reason": "draining"},
            {"instance": "192.0.2.12:20880", "reason": "backing off"},
            {"instance": "192.0.2.14:20880", "reason": "weight 0"},
        ],
    }
    assert answer["eligible"] == ["192.0.2.13:20880"]
    unavailable["192.0.2.13:20880"] = BACKING_OFF
    answer = explain(found, Call(), "find", unavailable)
    assert steps(answer)[-1] == ("admit", 4, 1, "last_resort")
    assert answer["eligible"] == ["192.0.2.11:20880"]


def test_excluded_is_capped_and_eligible_is_not() -> None:
    fleet = [provider(f"10.0.0.{n}", zone="bj" if n % 2 else "sh") for n in range(100)]
    answer = explain(service(*fleet), Call(), "m", {})
    nearby = answer["steps"][-2]
    assert (nearby["in"], nearby["out"], len(nearby["excluded"])) == (100, 50, MAX_EXCLUDED)
    assert len(answer["eligible"]) == 50


def test_the_walk_is_that_of_a_call() -> None:
    wide = ScriptedRouter("wide", Step(InstanceSet([0, 2]), "so"))
    broken = ScriptedRouter("broken", None)
    found = service(*FLEET)
    assert found.plan is not None
    found.plan = Plan(with_routers(found.plan.snapshot, wide, broken), found.counters)
    answer = explain(found, Call(), "m", {})
    assert steps(answer) == [
        ("match", 7, 4, "matched"),
        ("wide", 4, 2, "so"),
        ("broken", 2, 2, "skipped_after_error"),
        ("admit", 2, 2, "admitted"),
    ]
    assert answer["steps"][1]["excluded"][0]["reason"] == "not for wide"
    assert answer["eligible"] == ["192.0.2.1:20880", "192.0.2.3:20880"]
