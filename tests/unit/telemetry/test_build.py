from sidecar.model import service
from sidecar.telemetry.build import build_kind


def test_the_kind_follows_the_file(monkeypatch):
    monkeypatch.setattr(service, "__file__", "/x/service.cpython-311-x86_64-linux-gnu.so")
    assert build_kind() == "compiled"
    monkeypatch.setattr(service, "__file__", "/x/service.py")
    assert build_kind() == "pure"
