"""Address patterns of tag rules."""

from __future__ import annotations

import contextlib
import timeit
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.routing.address import AddressMatcher, AddressPattern, PatternError, canonical_host
from tests.fixtures.fleet import provider


def matches(pattern: str, host: str, port: int = 20880) -> bool:
    matcher = AddressMatcher()
    matcher.add(AddressPattern.parse(pattern), "t")
    return matcher.names_of(provider(host, port)) == {"t"}


V6 = "2001:db8::1"


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*", [("10.1.2.3", 1), (V6, 1), ("cart.example", 1)], []),
        ("*.*.*.*", [("10.1.2.3", 1), (V6, 1)], []),
        ("10.1.2.3", [("10.1.2.3", 1), ("10.1.2.3", 2)], [("10.1.2.4", 1), ("10.1.2.33", 1)]),
        ("10.1.2.3:20880", [("10.1.2.3", 20880)], [("10.1.2.3", 2088), ("10.1.2.3", 20881)]),
        ("10.1.2.3:*", [("10.1.2.3", 1), ("10.1.2.3", 2)], [("10.1.2.4", 1)]),
        ("10.1.2.*", [("10.1.2.0", 1), ("10.1.2.255", 9)], [("10.1.3.1", 1), ("host", 1), (V6, 1)]),
        ("10.*.2.3", [("10.9.2.3", 1)], [("10.9.2.4", 1)]),
        ("10.1.2.5-7", [("10.1.2.5", 1), ("10.1.2.7", 1)], [("10.1.2.4", 1), ("10.1.2.8", 1)]),
        ("10.1.2.*:20880", [("10.1.2.9", 20880)], [("10.1.2.9", 1), ("10.1.3.9", 20880)]),
        ("10.1.2.0/24", [("10.1.2.0", 1), ("10.1.2.255", 9)], [("10.1.3.0", 1)]),
        ("10.1.2.9/30", [("10.1.2.8", 1), ("10.1.2.11", 1)], [("10.1.2.7", 1), ("10.1.2.12", 1)]),
        ("10.1.2.3/32", [("10.1.2.3", 1)], [("10.1.2.4", 1)]),
        ("0.0.0.0/0", [("10.1.2.3", 1)], [(V6, 1)]),
        ("0.0.0.0:20881", [("10.1.2.3", 20881), (V6, 20881)], [("10.1.2.3", 20880)]),
        ("0.0.0.0", [("10.1.2.3", 1)], []),
        (V6, [(V6, 1), ("2001:DB8:0:0:0:0:0:1", 2)], [("2001:db8::2", 1)]),
        (f"[{V6}]", [(V6, 1)], [("2001:db8::2", 1)]),
        (f"[{V6}]:20880", [(V6, 20880)], [(V6, 1)]),
        (f"[{V6}]:*", [(V6, 1)], []),
        ("2001:db8::/32", [(V6, 1)], [("2001:db9::1", 1), ("10.1.2.3", 1)]),
        ("2001:db8:0:0:0:0:0:*", [(V6, 1)], [("2001:db8::1:1", 1), ("10.1.2.3", 1)]),
        ("[2001:db8:0:0:0:0:0:1-a]:20880", [("2001:db8::a", 20880)], [("2001:db8::b", 20880)]),
        (
            "cart.example:20880",
            [("cart.example", 20880), ("CART.example", 20880)],
            [("cart", 20880)],
        ),
        ("Cart-1", [("cart-1", 1)], [("cart-2", 1)]),
        ("010.1.2.3", [("10.1.2.3", 1)], []),
    ],
)
def test_forms(pattern: str, yes: list[tuple[str, int]], no: list[tuple[str, int]]) -> None:
    assert [each for each in yes if not matches(pattern, *each)] == []
    assert [each for each in no if matches(pattern, *each)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "", "not an ip", "10.1.2", "10.1.2.3.4", "10.1.2.256", "10.1.2.3:0", "10.1.2.3:65536",
        "10.1.2.3:x", "10.1.2.3:", "10.1.2.7-5", "10.1.2.1-", "10.1.2.1-2-3", "10.1.*", "*:20880",
        "10.1.2.0/24:20880", "10.1.2.0/33", "x/24", "[::1", "[::1]x", "[10.1.2.3]:1", "1:2:3",
        "2001:db8:0:0:0:0:0:x", "2001:db8:0:0:0:0:0:fffff", "::1::", "-a", "10.1.2.3:٣",
        "10.1.2.3:" + "1" * 5000,
    ],
)  # fmt: skip
def test_malformed_entries(pattern: str) -> None:
    with pytest.raises(PatternError):
        AddressPattern.parse(pattern)


@pytest.mark.parametrize("pattern", ["0.0.0.0", "cart.example"])
def test_entries_with_a_note(pattern: str) -> None:
    assert AddressPattern.parse(pattern).note


def test_all_names_of_an_instance() -> None:
    matcher = AddressMatcher()
    for name, pattern in [
        ("a", "10.1.2.3"), ("a", "10.1.2.3:1"), ("b", "10.1.2.3:1"), ("c", "10.1.2.*"),
        ("d", "0.0.0.0:1"), ("e", "*"), ("f", "10.1.2.4"),
    ]:  # fmt: skip
        matcher.add(AddressPattern.parse(pattern), name)
    assert matcher.names_of(provider("10.1.2.3", 1)) == {"a", "b", "c", "d", "e"}


def test_the_cost_of_an_instance_does_not_grow_with_the_ranges_elsewhere() -> None:
    few, many = AddressMatcher(), AddressMatcher()
    for matcher, count in ((few, 8), (many, 4_000)):
        for n in range(count):
            pattern = f"10.{n >> 4 & 255}.{(n & 15) * 16}-{(n & 15) * 16 + 15}.*"
            matcher.add(AddressPattern.parse(pattern), f"t{n}")
    instance = provider("10.0.7.1")
    assert few.names_of(instance) == many.names_of(instance) == {"t0"}
    times = [min(timeit.repeat(lambda m=m: m.names_of(instance), number=200)) for m in (few, many)]
    assert times[1] < 10 * times[0]


@pytest.mark.parametrize("host", ["a::b::c", "not:an:address", "999.1.1.1", "1.2.3"])
def test_a_host_that_is_no_address_meets_ranges_without_harm(host: str) -> None:
    assert not matches("10.1.2.*", host)
    assert canonical_host(host) == host


OCTET = st.integers(0, 255)


@given(st.tuples(OCTET, OCTET, OCTET, OCTET), st.integers(0, 32), st.tuples(OCTET, OCTET))
def test_a_v4_network_is_what_ipaddress_says(
    octets: tuple[int, int, int, int], bits: int, low: tuple[int, int]
) -> None:
    text = ".".join(map(str, octets))
    host = ".".join(map(str, (*octets[:2], *low)))
    expected = ip_address(host) in ip_network(f"{text}/{bits}", strict=False)
    assert matches(f"{text}/{bits}", host) == expected


@given(st.ip_addresses(v=6), st.ip_addresses(v=6), st.integers(0, 128), st.booleans())
def test_a_v6_network_is_what_ipaddress_says(
    address: object, other: object, bits: int, near: bool
) -> None:
    network = ip_network(f"{address}/{bits}", strict=False)
    host = network.broadcast_address if near else other
    assert matches(f"{address}/{bits}", str(host)) == (host in network)


PARTS = st.sampled_from(["1", "2", "*", "1-2", "0-255"])


@given(st.lists(st.tuples(PARTS, PARTS, PARTS, PARTS).map(".".join), max_size=8))
def test_many_patterns_match_as_each_alone(patterns: list[str]) -> None:
    matcher = AddressMatcher()
    for pattern in patterns:
        matcher.add(AddressPattern.parse(pattern), pattern)
    for host in ("1.1.1.1", "1.2.1.2", "2.1.3.1", "3.3.3.3", "1::", "host"):
        alone = {pattern for pattern in patterns if matches(pattern, host)}
        assert matcher.names_of(provider(host)) == alone


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_a_pattern_error(text: str) -> None:
    with contextlib.suppress(PatternError):
        AddressPattern.parse(text)
