"""Every counter that the source counts is in the table of metrics, with as many labels."""

import ast
from pathlib import Path

from sidecar.telemetry import names

SOURCE = Path(__file__).parents[2] / "sidecar"


def constants_of(tree):
    """Return the module's NAME: Final = "text" constants."""
    return {
        node.target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }


def counted():
    """Yield (file, counter name, has a label) of every ``counters.count(...)``."""
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        constants = constants_of(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner = ast.unparse(node.func.value)
            if node.func.attr == "count" and owner.endswith(("counters", "settlement", "self")):
                name = name_of(node.args[0], constants)
                if name:
                    yield path.name, name, len(node.args) > 1


def name_of(node, constants):
    """Return the counter's name in any of the ways in which the source writes it."""
    text = ast.unparse(node)
    if isinstance(node, ast.Constant):
        return node.value
    if text.startswith("names."):
        return getattr(names, text.split(".")[1]).name
    return constants.get(text)


def test_every_counted_name_is_in_the_table_with_its_label():
    found = list(counted())
    assert len(found) > 15
    for file, name, has_label in found:
        assert has_label == bool(names.counted(name).labels), f"{file}: {name}"


def test_what_is_counted_is_on_the_page_from_the_start():
    assert {names.counted(name) for _, name, _ in counted()} == set(names.COUNTED)


def test_nothing_in_the_table_is_without_use():
    used = {names.counted(name).name for _, name, _ in counted()}
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    for constant, metric in vars(names).items():
        if isinstance(metric, names.Metric):
            assert metric.name in used or f"names.{constant}" in text, metric.name
