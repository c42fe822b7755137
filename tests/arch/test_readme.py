"""The README says what the program does today."""

import re
from pathlib import Path

import pytest

from sidecar.cli import cli
from sidecar.model import reason
from sidecar.telemetry import names

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("metric", names.METRICS, ids=lambda metric: metric.name)
def test_every_metric_has_its_row(metric):
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    assert f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |" in README


def test_no_metric_is_made_up():
    assert set(re.findall(r"`(sidecar_[a-z_]+)`", README)) <= set(names.BY_NAME)


def test_every_reason_token_is_explained():
    tokens = {value for name, value in vars(reason).items() if name.isupper()}
    assert tokens == set(re.findall(r"`([A-Z]+_[A-Z_]+|[A-Z]{6,})`", README)) - {
        "INTERFACE",
        "SIGTERM",
    }


def test_links_lead_to_files():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_every_command_is_named_in_the_changelog_or_readme():
    text = README + (ROOT / "CHANGELOG.md").read_text()
    for name in cli.commands:
        assert f"`{name}`" in text or f"sidecar {name}" in text


def test_the_demo_output_is_that_of_the_demo():
    from sidecar.demo.story import _Story

    for name in (
        "same_zone",
        "gray_tag",
        "tag_rule",
        "weight",
        "power_cut",
        "zone_down",
        "farewell",
    ):
        assert getattr(_Story, name).__doc__ in README
