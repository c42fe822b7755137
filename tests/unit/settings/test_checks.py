import pytest

from sidecar.settings import checks
from sidecar.settings.schema import (
    Admin,
    Drain,
    Http2,
    Limits,
    Listener,
    Nearby,
    Registry,
    ServiceOverride,
    Services,
    Settings,
    Upstream,
    UpstreamTls,
)
from sidecar.settings.units import Duration, Size


def findings(section):
    return [(f.fields[0], f.text) for f in checks.CHECKS[type(section)](section)]


@pytest.mark.parametrize(
    "section",
    [
        Nearby(), Nearby(threshold=100), Nearby(mode="count", threshold=500), Upstream(), Drain(),
        Services(), Services(on_demand=False, preload=["a.B"]), Settings(),
        Registry(name="a", url="file:///x"),
        Registry(name="a", url="zookeeper://zk", username="u", password="p"),
        Settings(listeners=[Listener(address="h:0")] * 2, admin=Admin(address="h:0")),
        Listener(), Listener(protocol="auto", paths={"/a": "a.B"}), Http2(),
        Listener(protocol="triple", paths={"/a": "a.B"}), UpstreamTls(), UpstreamTls(ca="a"),
        Http2(stream_window=Size(2**20), connection_window=Size(2**20)),
        UpstreamTls(certificate="c", key="k", verify=False, server_name="a"),
    ],
)  # fmt: skip
def test_good_sections(section):
    assert findings(section) == []


@pytest.mark.parametrize(
    ("section", "field", "words"),
    [
        (Nearby(threshold=101), "threshold", "percentage"),
        (Upstream(backoff_min=Duration(11)), "backoff_min", "longer than backoff_max"),
        (Upstream(heartbeat=Duration(180)), "heartbeat", "shorter than reconnect_after"),
        (Upstream(warm=2), "warm", "more than connections"),
        (Limits(upstream_buffer=Size(2**20)), "max_payload", "larger than upstream_buffer"),
        (Drain(idle=Duration(26)), "idle", "longer than grace"),
        (Registry(name="a", url="file:///x", password="p"), "url", "no credentials"),
        (Registry(name="a", url="zookeeper://zk", username="u"), "username", "needs a password"),
        (Registry(name="a", url="zookeeper://zk", password="p"), "password", "needs a username"),
        (Services(preload=["a.B", "a.B:0.0.0"]), "preload", "'a.B' is named twice"),
        (
            Services(overrides={"a.B": ServiceOverride(), "a.B:0.0.0": ServiceOverride()}),
            "overrides",
            "named twice",
        ),
        (Services(preload=["a.A", "a.B"], max_services=1), "preload", "max_services is 1"),
        (Services(on_demand=False), "on_demand", "no service could be called"),
        (Settings(listeners=[Listener(), Listener()]), "listeners", "two listeners on"),
        (
            Settings(listeners=[Listener(address="unix:///s")] * 2),
            "listeners",
            "two listeners on unix:///s",
        ),
        (Listener(paths={"/a": "a.B"}), "paths", "a dubbo listener has no paths"),
        (UpstreamTls(certificate="c"), "certificate", "needs a key beside it"),
        (UpstreamTls(key="k"), "key", "needs a certificate beside it"),
        (UpstreamTls(verify=False, ca="a"), "verify", "ca is not looked at"),
        (
            Http2(stream_window=Size(2), connection_window=Size(1)),
            "stream_window",
            "larger than connection_window",
        ),
        (Settings(admin=Admin(address="127.0.0.1:20880")), "admin", "is a listener's address"),
    ],
)
def test_contradictions(section, field, words):
    ((found_field, text),) = findings(section)
    assert found_field == field
    assert words in text
