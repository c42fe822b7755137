"""The files in config/ are loaded as users load them."""

import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from msgspec import inspect

from sidecar.settings.json_schema import settings_schema
from sidecar.settings.reader import read_settings
from sidecar.settings.schema import Settings

CONFIG = Path(__file__).parents[3] / "config"
FULL = (CONFIG / "full.yaml").read_text()


@pytest.mark.parametrize("name", ["minimal.yaml", "full.yaml"])
def test_examples_load_and_editors_accept_them(name):
    text = (CONFIG / name).read_text()
    read_settings(text, name, {})
    Draft202012Validator(settings_schema()).validate(yaml.safe_load(text))
    assert text.startswith("# yaml-language-server: $schema=sidecar.schema.json\n")


def fields_of(kind, path=""):
    if isinstance(kind, inspect.Metadata):
        yield from fields_of(kind.type, path)
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield f"{path}.{field.encode_name}"
            yield from fields_of(field.type, f"{path}.{field.encode_name}")
    elif isinstance(kind, inspect.ListType):
        yield from fields_of(kind.item_type, f"{path}.*")
    elif isinstance(kind, inspect.DictType):
        yield from fields_of(kind.value_type, f"{path}.*")


def keys_of(value, path=""):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{path}.{name}"
            yield f"{path}.*"
            yield from keys_of(inner, f"{path}.{name}")
            yield from keys_of(inner, f"{path}.*")
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, f"{path}.*")


def test_every_field_appears_in_the_full_example():
    missing = set(fields_of(inspect.type_info(Settings))) - set(keys_of(yaml.safe_load(FULL)))
    assert not missing


def test_values_that_are_not_examples_are_the_defaults():
    """Without the lines marked as examples, only what has no default is left to differ."""
    lines = FULL.replace("  - name: main ", "  - name: only ").splitlines()
    kept = []
    skipping = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if skipping is not None and (indent > skipping or not line.strip()):
            continue
        skipping = indent if re.search(r"# example\b", line) else None
        if skipping is None:
            kept.append(line)
    settings = read_settings("\n".join(kept), "full.yaml", {})
    minimal = read_settings(
        f'registries: [{{name: only, url: "{settings.registries[0].url}"}}]', "", {}
    )
    assert settings == minimal
