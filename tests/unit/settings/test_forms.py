import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.settings.forms import (
    FORMS,
    RegistryUrl,
    parse_address,
    parse_listen_address,
    parse_network,
    parse_prefix,
    parse_registry_url,
    parse_service,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:20880", ("127.0.0.1", 20880)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:15021", ("::1", 15021)),
        ("zk-1.prod_a.example:2181", ("zk-1.prod_a.example", 2181)),
    ],
)
def test_addresses(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("127.0.0.1", "has no port"),
        (":20880", "has no host"),
        ("::1:20880", "in brackets"),
        ("[::x]:1", "not an IPv6 address"),
        ("a b:1", "not a host name"),
        ("-a:1", "not a host name"),
        ("a:65536", "not a port"),
        ("a:", "not a port"),
        ("a:\u0661", "not a port"),
        ("a:999999", "not a port"),
    ],
)
def test_bad_addresses(text, words):
    with pytest.raises(ValueError, match=words):
        parse_address(text)


def test_addresses_of_listeners():
    assert parse_listen_address("127.0.0.1:20880") == ("127.0.0.1", 20880)
    assert parse_listen_address("unix:///run/a.sock") == ("/run/a.sock", -1)


@pytest.mark.parametrize("text", ["unix:run/a.sock", "unix://run/a.sock", "unix:///" + "a" * 107])
def test_bad_unix_sockets(text):
    with pytest.raises(ValueError, match="no Unix socket"):
        parse_listen_address(text)


def test_prefixes():
    assert parse_prefix("/api/") == "/api/"
    for text in ("api/", "/api/ ", ""):
        with pytest.raises(ValueError, match="no prefix"):
            parse_prefix(text)


def test_networks():
    assert str(parse_network("127.0.0.0/8")) == "127.0.0.0/8"
    assert str(parse_network("10.1.2.3")) == "10.1.2.3/32"
    with pytest.raises(ValueError, match=r"the network is 10\.0\.0\.0/8"):
        parse_network("10.1.0.0/8")
    with pytest.raises(ValueError, match="is not a network"):
        parse_network("everything")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("file:///etc/r.yaml", ("file", (), "/etc/r.yaml")),
        ("zookeeper://zk1", ("zookeeper", (("zk1", 2181),), "/dubbo")),
        ("zookeeper://zk1:2182/", ("zookeeper", (("zk1", 2182),), "/dubbo")),
        (
            "zookeeper://zk1:2181,[::1]:2182,[::2]/a/b",
            ("zookeeper", (("zk1", 2181), ("::1", 2182), ("::2", 2181)), "/a/b"),
        ),
        (
            "zookeeper://zk1:2181?backup=zk2:2182,zk3&group=prod",
            ("zookeeper", (("zk1", 2181), ("zk2", 2182), ("zk3", 2181)), "/prod"),
        ),
    ],
)
def test_registry_urls(text, parts):
    assert parse_registry_url(text) == RegistryUrl(*parts)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("zk1:2181", "is not a URL"),
        ("file://relative", "absolute path"),
        ("file:///", "absolute path"),
        ("nacos://n:8848", "no Nacos registry"),
        ("etcd://e:2379", "unknown registry 'etcd'"),
        ("zookeeper://u:p@zk1/dubbo", "username and password"),
        ("zookeeper://zk1?timeout=3", "unknown parameter 'timeout'"),
        ("zookeeper://zk1:0", "port 0"),
        ("zookeeper://", "has no host"),
        ("zookeeper://zk1,,zk2", "has no host"),
    ],
)
def test_bad_registry_urls(text, words):
    with pytest.raises(ValueError, match=words):
        parse_registry_url(text)


def test_services():
    assert parse_service("gray/org.example.Order:1.0.0").text == "gray/org.example.Order:1.0.0"
    assert parse_service("org.example.Outer$Inner").interface == "org.example.Outer$Inner"


@pytest.mark.parametrize(
    "text", ["", "*", "a b", "org.example.A:1:2", "a/b/c", "a:1.0.0,2.0.0", "g*/a"]
)
def test_bad_services(text):
    with pytest.raises(ValueError, match="is not a service"):
        parse_service(text)


def test_router_switches():
    for text in ("", "-tag", "tag, -default", "a,default,b"):
        FORMS["router"](text)
    with pytest.raises(ValueError, match="not a router switch"):
        FORMS["router"]("!tag")


@given(st.sampled_from(sorted(FORMS)), st.text(max_size=60))
def test_every_form_refuses_with_value_error_only(form, text):
    with contextlib.suppress(ValueError):
        FORMS[form](text)
