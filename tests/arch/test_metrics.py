"""Every counter that the source counts is in the table, and every one in the table is counted."""

import re
from pathlib import Path

from sidecar.telemetry import names

SOURCE = Path(__file__).parents[2] / "sidecar"
COUNT = re.compile(r'\.count\(\s*"([a-z_]+)"(,)?')


def counted():
    found = {}
    for path in SOURCE.rglob("*.py"):
        for name, comma in COUNT.findall(path.read_text()):
            found.setdefault(name, set()).add(bool(comma))
    return found


def test_every_counted_name_is_in_the_table_with_its_label():
    assert len(counted()) > 3
    for name, has_label in counted().items():
        metric = names.counted(name)
        assert has_label == {bool(metric.labels)}, name
