from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.discovery.address import AddressPolicy, refusal_of

REASONS = {"", "unparsable", "loopback", "unspecified", "link_local", "multicast", "broadcast"}


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("192.0.2.11", ""),
        ("10.0.0.255", ""),
        ("172.17.0.1", ""),
        ("126.255.255.255", ""),
        ("128.0.0.1", ""),
        ("169.253.1.1", ""),
        ("169.255.1.1", ""),
        ("223.255.255.255", ""),
        ("240.0.0.1", ""),
        ("127.0.0.1", "loopback"),
        ("127.255.0.9", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("169.254.169.254", "link_local"),
        ("224.5.6.7", "multicast"),
        ("239.255.255.255", "multicast"),
        ("255.255.255.255", "broadcast"),
        ("2001:db8::11", ""),
        ("fd00::1", ""),
        ("::1", "loopback"),
        ("::", "unspecified"),
        ("fe80::1", "link_local"),
        ("fe80::1%eth0", "link_local"),
        ("ff02::1", "multicast"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:192.0.2.1", ""),
        ("2001:db8:::1", "unparsable"),
        ("12:34", "unparsable"),
        ("cart-7f9c", ""),
        ("Cart.example.org.", ""),
        ("under_score", ""),
        ("localhost", "loopback"),
        ("LOCALHOST", "loopback"),
        ("a.localhost", "loopback"),
        ("localhost.", "loopback"),
        ("localhost.localdomain", "loopback"),
        ("localhost6.localdomain6", "loopback"),
        ("ip6-localhost", "loopback"),
        ("localhost-7.example.org", ""),
        ("256.1.1.1", "unparsable"),
        ("010.0.0.1", "unparsable"),
        ("127.1", "unparsable"),
        ("2130706433", "unparsable"),
        ("0x7f.0.0.1", "unparsable"),
        ("1.2.3.0x7f", "unparsable"),
        ("1.2.3.4.5", "unparsable"),
        ("1.2.3.٤", "unparsable"),
        ("1.2.3.²", "unparsable"),
        ("a..b", "unparsable"),
        ("host name", "unparsable"),
        ("höst", "unparsable"),
        ("a" * 254, "unparsable"),
        (".", "unparsable"),
        ("", "unparsable"),
    ],
)
def test_refusal(host, reason):
    assert refusal_of(host) == reason
    assert AddressPolicy([]).refusal_of(host) == reason


@given(st.text("0127.²٤:xa%-[]", max_size=12))
def test_fuzz_any_text_has_a_verdict(host):
    for each in (host, f"1.2.3.{host}"):
        assert AddressPolicy(["127.0.0.0/8"]).refusal_of(each) in REASONS


def test_allowed_networks_lift_a_refusal_but_not_nonsense():
    policy = AddressPolicy(["127.0.0.0/8", "fe80::/10"])
    assert policy.refusal_of("127.0.0.1") == ""
    assert policy.refusal_of("localhost") == ""
    assert policy.refusal_of("localhost.localdomain") == ""
    assert policy.refusal_of("::ffff:127.0.0.1") == ""
    assert policy.refusal_of("fe80::1") == ""
    assert policy.refusal_of("::1") == "loopback"
    assert policy.refusal_of("0.0.0.0") == "unspecified"
    assert policy.refusal_of("127.1") == "unparsable"
    assert policy.refusal_of("192.0.2.1") == ""


def test_a_bad_network_is_an_error():
    with pytest.raises(ValueError, match="nonsense"):
        AddressPolicy(["nonsense"])
