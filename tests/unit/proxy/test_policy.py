"""Time limit and idempotency of a call."""

from __future__ import annotations

import pytest

from sidecar.model.service import ServiceKey
from sidecar.proxy.policy import CallPolicies
from sidecar.settings.schema import ServiceOverride, Services, Settings, Timeouts
from sidecar.settings.units import Duration
from tests.fixtures.services import instance

SERVICE = "com.x.Demo:1.0.0"


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
    ("values", "expected"),
    [
        ({"timeout_ms": 500, "method_timeouts": {"hi": 400}}, 400),
        ({"timeout_ms": 500, "method_timeouts": {"other": 400}}, 500),
        ({"timeout_ms": 500, "method_timeouts": {"hi": 0}}, 500),
        ({"timeout_ms": 500}, 500),
        ({}, 2000),
    ],
)
def test_provider_then_configuration(values, expected):
    policy = policies(5.0, timeout=Duration(2.0))
    assert policy.limit_ms(SERVICE, "hi", provider(**values)) == expected


def test_a_service_without_override_has_the_general_limit():
    assert policies(5.0, timeout=Duration(2.0)).limit_ms("other", "hi", provider()) == 5000


def test_an_override_without_timeout_keeps_the_general_limit():
    assert policies(5.0, idempotent=["hi"]).limit_ms(SERVICE, "hi", provider()) == 5000


def test_nobody_may_limit_a_call():
    assert CallPolicies(Settings()).limit_ms(SERVICE, "hi", provider()) == 0
    assert policies(5.0, timeout=Duration(0.0)).limit_ms(SERVICE, "hi", provider()) == 0


def test_only_listed_methods_are_idempotent():
    policy = policies(idempotent=["hi", "bye"])
    assert policy.is_idempotent(SERVICE, "hi")
    assert not policy.is_idempotent(SERVICE, "other")
    assert not policy.is_idempotent("com.x.Other", "hi")
    assert not CallPolicies(Settings()).is_idempotent(SERVICE, "hi")


def test_keys_are_compared_in_their_short_form():
    settings = Settings(
        services=Services(overrides={"com.x.Demo:0.0.0": ServiceOverride(timeout=Duration(2.0))})
    )
    assert CallPolicies(settings).limit_ms("com.x.Demo", "hi", provider()) == 2000
