"""Time limit and idempotency of a call."""

from __future__ import annotations

import pytest

from sidecar.model.service import ServiceKey
from sidecar.protocol.dubbo.frame import FrameReader
from sidecar.protocol.dubbo.message import RequestReader
from sidecar.proxy.downstream import Call
from sidecar.proxy.policy import LONGEST_MS, CallPolicies
from sidecar.settings.schema import ServiceOverride, Services, Settings, Timeouts
from sidecar.settings.units import Duration
from tests.fixtures import dubbo_frames
from tests.fixtures.proxy_rig import Rig
from tests.fixtures.services import instance

SERVICE = "com.x.Demo:1.0.0"


def call(**attachments):
    (frame,) = FrameReader(10**6).feed(dubbo_frames.request(1, **attachments))
    return Call(Rig().consumer().protocol, frame, RequestReader().read(frame), 1000.0)


def policies(call_timeout=0.0, **overrides):
    return CallPolicies(
        Settings(
            timeouts=Timeouts(call=Duration(call_timeout)),
            services=Services(overrides={SERVICE: ServiceOverride(**overrides)}),
        )
    )


def provider(**values):
    return instance(20880, ServiceKey.parse(SERVICE), **values)


@pytest.mark.parametrize(
    ("attachments", "values", "expected"),
    [
        ({"timeout": "700"}, {"timeout_ms": 500, "method_timeouts": {"hi": 400}}, 700),
        ({}, {"timeout_ms": 500, "method_timeouts": {"hi": 400}}, 400),
        ({}, {"timeout_ms": 500, "method_timeouts": {"other": 400}}, 500),
        ({}, {"timeout_ms": 500, "method_timeouts": {"hi": 0}}, 500),
        ({"timeout": "0"}, {"timeout_ms": 500}, 500),
        ({}, {}, 2000),
    ],
)
def test_consumer_then_provider_then_configuration(attachments, values, expected):
    policy = policies(5.0, timeout=Duration(2.0))
    assert policy.apply(call(**attachments), SERVICE, provider(**values)) == expected


def test_a_service_without_override_has_the_general_limit():
    assert policies(5.0, timeout=Duration(2.0)).apply(call(), "other", provider()) == 5000


def test_an_override_without_timeout_keeps_the_general_limit():
    assert policies(5.0, idempotent=["hi"]).apply(call(), SERVICE, provider()) == 5000


def test_a_call_that_nobody_limits_ends_after_ten_minutes():
    assert CallPolicies(Settings()).apply(call(), SERVICE, provider()) == LONGEST_MS == 600_000
    policy = policies(5.0, timeout=Duration(0.0))
    assert policy.apply(call(), SERVICE, provider()) == LONGEST_MS


def test_only_listed_methods_are_idempotent():
    policy = policies(idempotent=["hi", "bye"])
    listed, other = call(), call(interface="com.x.Demo")
    policy.apply(listed, SERVICE, provider())
    policy.apply(other, "com.x.Other", provider())
    assert listed.is_idempotent
    assert not other.is_idempotent


def test_keys_are_compared_in_their_short_form():
    settings = Settings(
        services=Services(overrides={"com.x.Demo:0.0.0": ServiceOverride(timeout=Duration(2.0))})
    )
    assert CallPolicies(settings).apply(call(), "com.x.Demo", provider()) == 2000
