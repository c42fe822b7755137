from __future__ import annotations

import pytest

from sidecar.discovery.slot import Slot
from sidecar.registry.paths import Paths


@pytest.mark.parametrize(
    ("root", "slot", "path"),
    [
        ("/dubbo", Slot("providers", "a.B"), "/dubbo/a.B/providers"),
        ("/dubbo", Slot("configurators", "a.B$C"), "/dubbo/a.B%24C/configurators"),
        ("/x/y", Slot("routers", "a*~"), "/x/y/a*%7E/routers"),
        ("/dubbo", Slot("rule", "app.tag-router"), "/dubbo/config/dubbo/app.tag-router"),
        ("/g", Slot("rule", "a.B:1.0:g.tag-router"), "/g/config/dubbo/a.B:1.0:g.tag-router"),
        ("/", Slot("providers", "a.B"), "/a.B/providers"),
    ],
)
def test_path_of(root, slot, path):
    assert Paths(root).path_of(slot) == path
