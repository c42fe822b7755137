import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from sidecar.model.errors import ConfigError
from sidecar.settings.json_schema import settings_schema
from sidecar.settings.reader import read_settings

CONFIG = Path(__file__).parents[3] / "config"
SCHEMA = settings_schema()


def test_the_published_schema_is_current():
    published = json.loads((CONFIG / "sidecar.schema.json").read_text())
    assert published == SCHEMA, "write it anew: sidecar schema > config/sidecar.schema.json"


def test_it_is_a_valid_schema_that_describes_every_field():
    Draft202012Validator.check_schema(SCHEMA)

    def walk(schema, path):
        for name, inner in schema.get("properties", {}).items():
            assert inner["description"], f"{path}.{name}"
            assert isinstance(inner["description"], str)
            walk(inner, f"{path}.{name}")
        for inner in (schema.get("items"), schema.get("additionalProperties")):
            if isinstance(inner, dict):
                walk(inner, f"{path}.*")

    walk(SCHEMA, "")


REGISTRY = {"registries": [{"name": "m", "url": "zookeeper://zk"}]}


@pytest.mark.parametrize(
    "value",
    [
        {},
        REGISTRY,
        REGISTRY | {"zzz": 1},
        REGISTRY | {"drain": {"idle": "250ms"}},
        REGISTRY | {"drain": {"idle": "5"}},
        REGISTRY | {"drain": {"idle": 5}},
        REGISTRY | {"limits": {"max_payload": "1MB"}},
        REGISTRY | {"limits": {"max_payload": "1MiB", "max_consumers": 0}},
        REGISTRY | {"services": {"max_services": 100_001}},
        REGISTRY | {"services": {"max_services": "${X:-5}", "on_demand": "${Y:-true}"}},
        REGISTRY | {"services": {"overrides": {"a.B": {"timeout": "1s"}}}},
        REGISTRY | {"services": {"overrides": {"a.B": {"timeouts": "1s"}}}},
        REGISTRY | {"log": {"level": "loud"}},
        REGISTRY | {"log": {"level": "${L:-info}"}},
        {"registries": []},
        {"registries": [{"name": "", "url": "zookeeper://zk"}]},
        {"registries": [{"url": "zookeeper://zk"}]},
    ],
)
def test_it_agrees_with_the_reader(value):
    try:
        read_settings(yaml.safe_dump(value), "f", {})
        is_good = True
    except ConfigError:
        is_good = False
    assert Draft202012Validator(SCHEMA).is_valid(value) == is_good


def test_defaults_are_written_as_a_user_writes_them():
    limits = SCHEMA["properties"]["limits"]["properties"]
    assert limits["max_payload"]["default"] == "8MiB"
    assert SCHEMA["properties"]["upstream"]["properties"]["heartbeat"]["default"] == "1m"
    assert "default" not in SCHEMA["properties"]["registries"]
