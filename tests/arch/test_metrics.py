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
            if node.func.attr == "count" and owner.endswith("counters"):
                first = node.args[0]
                name = first.value if isinstance(first, ast.Constant) else constants[first.id]
                yield path.name, name, len(node.args) > 1


def test_every_counted_name_is_in_the_table_with_its_label():
    found = list(counted())
    assert len(found) > 10
    for file, name, has_label in found:
        assert has_label == bool(names.counted(name).labels), f"{file}: {name}"


def test_nothing_in_the_table_is_without_use():
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    counted_names = {f"sidecar_{name}_total" for _, name, _ in counted()}
    constants = {
        value.name: name for name, value in vars(names).items() if isinstance(value, names.Metric)
    }
    for metric in names.METRICS:
        assert metric.name in counted_names or f"names.{constants[metric.name]}" in text, (
            metric.name
        )
