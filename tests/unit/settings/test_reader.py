import time

import pytest

from sidecar.model.errors import ConfigError
from sidecar.settings.reader import MAX_PROBLEM_TEXT, read_settings

REGISTRY = 'registries: [{name: main, url: "zookeeper://zk:2181/dubbo"}]\n'


def read(text, **environ):
    return read_settings(REGISTRY + text, "f.yaml", environ)


def problems(text, **environ):
    with pytest.raises(ConfigError) as caught:
        read_settings(text, "f.yaml", environ)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


def test_defaults_and_values():
    settings = read('consumer: {application: web, parameters: {zone: bj-a, weight: "3"}}\n')
    assert settings.consumer.parameters == {"zone": "bj-a", "weight": "3"}
    assert settings.registries[0].coalesce == 1.0
    assert settings.listeners[0].address == "127.0.0.1:20880"


def test_every_problem_at_once_in_the_order_of_the_file():
    text = """\
consumer:
  aplication: x
  parameters: {zone: 1, on: "x"}
listeners: []
registries:
  - {name: main, url: "zookeeper://zk1,zk2:99999/dubbo", coalesce: 5}
  - {name: main, url: "nacos://x", coalesce: 5x, required: yes}
  - name: *a
services:
  on_demand: false
  overrides:
    "org.example.Order": {timeout: 2s, balancer: least_active}
    "org.example.Order": {}
cache: {path: ""}
balancer: round_robin
routing: {nearby: {threshold: 150}}
log: {level: "${LEVEL}"}
drain:
zzz: 1
"""
    assert problems(text) == [
        "f.yaml:2:3: unknown key 'aplication'; did you mean 'application'?",
        'f.yaml:3:22: YAML takes 1 for a number; put it in quotes: "1"',
        'f.yaml:3:25: YAML takes on for a boolean; put it in quotes: "on"',
        "f.yaml:4:12: at least one item is needed",
        "f.yaml:6:23: 'zk2:99999': '99999' is not a port (0 to 65535)",
        "f.yaml:6:68: '5' has no unit (ms, s, m or h); write for example 5s",
        "f.yaml:7:12: name 'main' is already used on line 6",
        "f.yaml:7:23: this version has no Nacos registry; it has zookeeper and file",
        "f.yaml:7:46: '5x' has the unknown unit 'x'; the units are ms, s, m or h",
        "f.yaml:7:60: 'yes': YAML readers disagree about this spelling; write true",
        "f.yaml:8:5: missing key 'url'",
        "f.yaml:8:11: alias *a: anchors and aliases are not allowed",
        "f.yaml:10:14: with on_demand off and nothing to preload, no service could be called",
        "f.yaml:12:40: unknown key 'balancer': this version does not have a balancer per service",
        "f.yaml:13:5: duplicate key 'org.example.Order'; first on line 12",
        "f.yaml:14:1: unknown key 'cache': this version does not have the snapshot cache for cold"
        " starts",
        "f.yaml:15:11: 'round_robin' is not in this version; it has random",
        "f.yaml:16:31: in mode ratio the threshold is a percentage, 0 to 100",
        "f.yaml:17:14: the environment variable LEVEL is not set and ${LEVEL} has no default",
        "f.yaml:18:7: no value; give one or remove the key",
        "f.yaml:19:1: unknown key 'zzz'; known are consumer, listeners, registries, services,"
        " routing, balancer, no_provider_reply, timeouts, upstream, http2, limits, drain, admin,"
        " log",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("isolation: {enabled: true}\n", "does not have isolation of unhealthy instances"),
        ("routing: {virtual_group: {}}\n", "does not have virtual grouping"),
        ("balancer: leastactive\n", "'leastactive' is not in this version"),
        ("routing: {nearby: {mode: spill}}\n", "'spill' is not in this version"),
    ],
)
def test_what_a_later_version_will_have_is_said_plainly(text, words):
    assert words in problems(REGISTRY + text)[0]


def test_environment():
    settings = read(
        'consumer: {application: "${APP}", tag: "${TAG:-}"}\n'
        'limits: {max_consumers: "${N:-7}"}\nlog:\n  level: ${LEVEL:-debug}\n',
        APP="0777",
    )
    assert settings.consumer.application == "0777"
    assert (settings.limits.max_consumers, settings.log.level) == (7, "debug")


def test_a_registry_is_needed():
    assert problems("") == ["f.yaml:1:1: nothing is configured; the key 'registries' is needed"]
    assert problems("log: {}\n") == ["f.yaml:1:1: missing key 'registries'"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", "1:1: keys and values are expected here"),
        (REGISTRY + "log: text\n", "2:6: keys and values are expected here"),
        (REGISTRY + "listeners: {}\n", "2:12: a list is expected here"),
        (REGISTRY + "listeners: ~\n", "2:12: no value"),
        (REGISTRY + "consumer: {parameters: []}\n", "2:24: keys and values are expected here"),
        (REGISTRY + 'consumer: {parameters: {"": "x"}}\n', "2:25: an empty key"),
        (REGISTRY + "consumer: {parameters: {a: [1]}}\n", "2:28: a single value is expected"),
        (REGISTRY + 'services: {overrides: {"a b": {}}}\n', "2:24: 'a b' is not a service"),
        (REGISTRY + "services: {overrides: {a: 1}}\n", "2:27: keys and values are expected"),
        ("registries: [1, {name: [2], url: x}]\n", "1:14: keys and values are expected here"),
    ],
)
def test_shapes(text, words):
    assert words in problems(text)[0]


def test_a_check_that_needs_an_unreadable_field_is_left_out():
    found = problems(REGISTRY + "upstream: {backoff_min: 20s, backoff_max: 9, warm: 2}\n")
    assert [p.split(": ", 1)[1] for p in found] == [
        "'9' has no unit (ms, s, m or h); write for example 9s",
        "more than connections",
    ]


def test_a_check_points_at_its_section_when_the_field_is_a_default():
    assert problems(REGISTRY + "upstream: {reconnect_after: 5s}\n")[0].startswith("f.yaml:2:11: ")


def test_a_problem_stays_one_short_line():
    (problem,) = problems(REGISTRY + f'listeners: [{{address: "{"a" * 9000}"}}]\n')
    assert len(problem) <= MAX_PROBLEM_TEXT + len("f.yaml:2:22: ")
    assert "\n" not in problem


def test_fc_76_hostile_text_is_answered_at_once():
    started = time.perf_counter()
    for text in (
        "{a: " * 30_000,
        "a: &a [1]\n" + "b: *a\n" * 20_000,
        "- " * 100_000,
        "x" * 6_000_000,
    ):
        assert problems(text)
    assert time.perf_counter() - started < 5
