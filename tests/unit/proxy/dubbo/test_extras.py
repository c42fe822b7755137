"""What is appended to a call for its chosen instance."""

from __future__ import annotations

import pytest

from sidecar.model.service import ServiceKey
from sidecar.protocol.dubbo.frame import FrameReader
from sidecar.protocol.dubbo.message import RequestReader
from sidecar.proxy.dubbo.downstream import DubboCall
from sidecar.proxy.dubbo.extras import outgoing
from tests.fixtures import dubbo_frames
from tests.fixtures.dubbo_frames import Received, text
from tests.fixtures.proxy_rig import Rig
from tests.fixtures.services import SERVICE, instance


def sent(default_tag="", raw=None, **values):
    """What goes out for a call to an instance with these values."""
    (frame,) = FrameReader(10**6).feed(raw or dubbo_frames.request(7))
    call = DubboCall(Rig().consumer().protocol, frame, RequestReader().read(frame), 1000.0)
    call.instance = instance(20880, ServiceKey.parse(SERVICE), **values)
    return Received(outgoing(call, frame, default_tag))


def test_a_call_that_fits_is_not_touched():
    assert sent().raw == dubbo_frames.request(7)
    assert sent(path="").raw == dubbo_frames.request(7)


@pytest.mark.parametrize(
    ("values", "pair"),
    [
        ({"token": "secret"}, ("token", "secret")),
        ({"path": "demo/hello"}, ("path", "demo/hello")),
        ({"group": "g1"}, ("group", "g1")),
        ({"version": "2.0.0"}, ("version", "2.0.0")),
        ({"version": ""}, ("version", "0.0.0")),
        ({"default_tag": "gray"}, ("dubbo.tag", "gray")),
    ],
)
def test_what_differs_is_appended(values, pair):
    before = dubbo_frames.request(7)
    after = sent(**values)
    added = text(pair[0]) + text(pair[1])
    assert after.body == before[16:-1] + added + b"Z"
    assert int.from_bytes(after.raw[12:16], "big") == len(after.body)
    assert after.raw[:12] == before[:12]


def test_several_at_once_and_the_last_of_equal_keys_wins_on_the_wire():
    after = sent(token="secret", path="p", group="g", version="2", default_tag="gray")
    for pair in (("token", "secret"), ("path", "p"), ("group", "g"), ("dubbo.tag", "gray")):
        assert after.has_pair(*pair)
    assert after.body.rindex(text("version") + text("2")) > after.body.index(text("1.0.0"))


def test_a_call_with_a_tag_keeps_it():
    raw = dubbo_frames.request(7, dubbo__tag="blue")
    assert sent(default_tag="gray", raw=raw).raw == raw


def test_a_version_written_as_zeros_is_no_version():
    raw = dubbo_frames.request(7, version="0.0.0")
    assert sent(raw=raw, version="").raw == raw


def test_a_call_without_attachments_gets_some():
    raw = dubbo_frames.frame(
        0xC2, 0, 7, b"".join(map(text, ("2.0.2", "com.x.Demo", "1.0.0", "ping", ""))) + b"N"
    )
    assert sent(raw=raw, token="t").body.endswith(b"H" + text("token") + text("t") + b"Z")


def test_an_encoding_that_is_not_understood_is_not_touched():
    raw = dubbo_frames.frame(0xDD, 0, 7, b"{}")
    assert sent(raw=raw, token="t", default_tag="gray").raw == raw
