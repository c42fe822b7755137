import pytest

from sidecar.model.instance import UNASSIGNED, Instance

FIELDS = {
    "id": UNASSIGNED, "protocol": "dubbo", "host": "10.0.0.1", "port": 20880, "path": "a.B",
    "interface": "a.B", "version": "", "group": "", "application": "x", "tag": "", "token": "",
    "weight": 100, "started_ms": 0, "warmup_ms": 0, "timeout_ms": 0, "parameters": {"zone": "a"},
}  # fmt: skip


def instance(**words):
    return Instance(**(FIELDS | words))


def test_addresses():
    assert instance().address == "10.0.0.1:20880"
    assert instance(host="fd00::1").address == "[fd00::1]:20880"
    assert repr(instance(id=3)) == "Instance(3 dubbo://10.0.0.1:20880 a.B)"


def test_the_id_does_not_count():
    assert instance(id=1).is_same(instance(id=2))


@pytest.mark.parametrize(
    "words",
    [
        {"weight": 1}, {"tag": "gray"}, {"parameters": {}}, {"started_ms": 1}, {"token": "t"},
        {"method_weights": {"m": 1}}, {"method_timeouts": {"m": 1}}, {"application": "y"},
    ],
)  # fmt: skip
def test_everything_else_counts(words):
    assert not instance().is_same(instance(**words))
