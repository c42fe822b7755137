"""Services of paths that do not name them."""

from __future__ import annotations

import pytest

from sidecar.model.service import ServiceKey
from sidecar.proxy.triple.paths import Paths, usual_name

PATHS = Paths(
    {"/a": "com.x.A", "/a/b": "g/com.x.B:2.0.0", "/c/": "com.x.C:0.0.0"}, "com.x.Any:1.0.0"
)


@pytest.mark.parametrize(
    ("path", "version", "group", "service"),
    [
        ("/a/1", "", "", "com.x.A"),
        ("/ab", "", "", "com.x.A"),
        ("/a/1", "3.0.0", "", "com.x.A:3.0.0"),
        ("/a/1", "3.0.0", "g", "g/com.x.A:3.0.0"),
        ("/a/1", "", "g", "g/com.x.A"),
        ("/a/b", "", "", "g/com.x.B:2.0.0"),
        ("/a/b/c", "3.0.0", "h", "g/com.x.B:2.0.0"),
        ("/c/1", "", "", "com.x.C"),
        ("/c", "", "", ""),
        ("", "", "", ""),
    ],
)
def test_the_longest_prefix_counts(path, version, group, service):
    assert PATHS.find(path, version, group) == service


def test_the_default_service():
    assert PATHS.default_service == "com.x.Any:1.0.0"
    assert Paths({}, "").default_service == ""
    assert Paths({}, "").find("/a", "", "") == ""


@pytest.mark.parametrize(
    ("service", "usual"),
    [("com.x.A", "com.x.A:1.0.0"), ("g/com.x.A", "g/com.x.A:1.0.0")],
)
def test_the_usual_name(service, usual):
    assert usual_name(ServiceKey.parse(service)) == usual
