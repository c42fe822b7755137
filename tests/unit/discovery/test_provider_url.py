from __future__ import annotations

import random
from urllib.parse import quote, quote_plus, unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.discovery.address import AddressPolicy
from sidecar.discovery.provider_url import (
    MAX_NAME_LENGTH,
    Refusal,
    provider_interface,
    read_provider,
    read_started_ms,
)
from sidecar.discovery.registration import Interner
from sidecar.model.instance import UNASSIGNED, Instance
from sidecar.model.protocol import DUBBO, EVERY, TRIPLE
from tests.vectors.loader import ROOT

POLICY = AddressPolicy([])
T = 1_700_000_000_000


def java(plain):
    """Encode as java.net.URLEncoder does."""
    return quote_plus(plain, safe="*").replace("~", "%7E")


def go(plain):
    """Encode as Go's url.QueryEscape does."""
    return quote_plus(plain, safe="").replace("%7E", "~")


def lower_case(plain):
    text = java(plain)
    return "".join(
        text[i : i + 3].lower() if text[i] == "%" else text[i]
        for i in range(len(text))
        if not (i >= 1 and text[i - 1] == "%") and not (i >= 2 and text[i - 2] == "%")
    )


ENCODINGS = [java, go, lower_case, str]


def read(name, interface="demo.Cart", policy=POLICY):
    return read_provider(name, interface, Interner(), policy)


def accept(name, interface="demo.Cart"):
    found = read(name, interface)
    assert isinstance(found, Instance), found.reason
    assert found.id == UNASSIGNED
    assert found.interface == interface
    return found


def refuse(name, interface="demo.Cart"):
    found = read(name, interface)
    assert isinstance(found, Refusal)
    return found.reason


# The shapes real frameworks register, with addresses and names of ours.
GOLDEN = {
    "java 2.6": (
        "dubbo%3A%2F%2F192.0.2.11%3A20880%2Fdemo.Cart%3Fanyhost%3Dtrue%26application%3Dcart-app"
        "%26default.timeout%3D3000%26dubbo%3D2.0.2%26generic%3Dfalse%26interface%3Ddemo.Cart"
        "%26methods%3Dput%2Cget%26pid%3D4711%26revision%3D1.2.0%26side%3Dprovider%26threads%3D200"
        "%26timestamp%3D1700000000000",
        {"application": "cart-app", "timeout_ms": 3000, "started_ms": T},
    ),
    "java 2.7": (
        "dubbo%3A%2F%2F192.0.2.11%3A20880%2Fdemo.Cart%3Fanyhost%3Dtrue%26application%3Dcart-app"
        "%26deprecated%3Dfalse%26dubbo%3D2.0.2%26dubbo.tag%3Dgray%26dynamic%3Dtrue"
        "%26generic%3Dfalse%26group%3Dg1%26interface%3Ddemo.Cart%26metadata-type%3Dremote"
        "%26methods%3Dput%2Cget%26pid%3D4711%26put.timeout%3D500%26release%3D2.7.15"
        "%26revision%3D1.0.0%26side%3Dprovider%26timestamp%3D1700000000000%26token%3Dt-1"
        "%26version%3D1.0.0%26weight%3D200",
        {
            "version": "1.0.0",
            "group": "g1",
            "tag": "gray",
            "token": "t-1",
            "weight": 200,
            "started_ms": T,
            "method_timeouts": {"put": 500},
        },
    ),
    "java 3.x": (
        "dubbo%3A%2F%2F192.0.2.11%3A20880%2Fdemo.Cart%3Fapplication%3Dcart-app"
        "%26background%3Dfalse%26deprecated%3Dfalse%26dubbo%3D2.0.2%26dynamic%3Dtrue"
        "%26executor-management-mode%3Disolation%26file-cache%3Dtrue%26generic%3Dfalse"
        "%26interface%3Ddemo.Cart%26methods%3Dget%26pid%3D4711"
        "%26prefer.serialization%3Dhessian2%2Cfastjson2%26release%3D3.3.0"
        "%26service-name-mapping%3Dtrue%26side%3Dprovider%26timestamp%3D1700000000000",
        {"application": "cart-app", "weight": 100, "started_ms": T},
    ),
    "dubbo-go": (
        "dubbo%3A%2F%2F192.0.2.11%3A20000%2Fdemo.Cart%3Fanyhost%3Dtrue%26app.version%3D3.0.0"
        "%26application%3Dcart-app%26bean.name%3DCartProvider%26cluster%3Dfailover"
        "%26environment%3Ddev%26export%3Dtrue%26interface%3Ddemo.Cart%26ip%3D192.0.2.11"
        "%26loadbalance%3Drandom%26methods%3DGet%26methods.Get.weight%3D50%26owner%3D"
        "%26pid%3D4711%26registry.role%3D3%26release%3Ddubbo-golang-3.1.0%26side%3Dprovider"
        "%26timestamp%3D1700000000",
        {"application": "cart-app", "started_ms": T, "method_weights": {"Get": 50}},
    ),
    "simplified": (
        "dubbo%3A%2F%2F192.0.2.11%3A20880%2Fdemo.Cart%3Fapplication%3Dcart-app"
        "%26deprecated%3Dfalse%26dubbo%3D2.0.2%26release%3D2.7.15%26timeout%3D5000"
        "%26version%3D1.0.0",
        {"version": "1.0.0", "timeout_ms": 5000, "started_ms": 0},
    ),
}


@pytest.mark.parametrize("shape", GOLDEN)
def test_golden_names(shape):
    name, expected = GOLDEN[shape]
    found = accept(name)
    assert (found.protocol, found.protocols) == ("dubbo", DUBBO)
    assert found.host == "192.0.2.11"
    assert found.path == "demo.Cart"
    assert {key: getattr(found, key) for key in expected} == expected
    assert not {"timestamp", "pid"} & found.parameters.keys()
    assert found.parameters["application"] == "cart-app"


def recorded():
    lines = (ROOT / "provider_url" / "java.txt").read_text().splitlines()
    return [line.split(" ") for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    ("version", "name"), recorded(), ids=[f"{v}-{k % 2}" for k, (v, _) in enumerate(recorded())]
)
def test_names_recorded_from_java(version, name):
    greeter = "org.example.peer.Greeter"
    found = accept(name, greeter)
    assert found.address == "192.0.2.11:20880"
    assert found.path == found.interface == greeter
    assert found.application == "cart-app"
    assert found.started_ms > 1_700_000_000_000
    assert found.parameters["release"].startswith(version)
    assert "hello" in found.parameters["methods"].split(",")
    assert provider_interface(name) == greeter
    assert java(unquote_plus(name)) == name
    if "group" in name:
        assert (found.group, found.version, found.tag) == ("g1", "1.0.0", "gray")
        assert (found.weight, found.timeout_ms) == (200, 3000)
        assert (found.parameters["zone"], found.parameters["note"]) == ("bj-a", "x y~z*")
    else:
        assert (found.group, found.version, found.tag) == ("", "", "")
        assert (found.weight, found.timeout_ms) == (100, 0)


@pytest.mark.parametrize("encode", ENCODINGS)
def test_every_encoding_gives_the_same_instance(encode):
    plain = (
        "dubbo://192.0.2.7:20880/demo.Outer$Inner?application=pay&group=g1"
        "&interface=demo.Outer$Inner&methods=a,b&note=x y~z*&pid=1&side=provider"
        f"&timestamp={T}&version=1.0.0"
    )
    found = accept(encode(plain), "demo.Outer$Inner")
    assert found.path == "demo.Outer$Inner"
    assert found.parameters["note"] == "x y~z*"
    assert found.started_ms == T
    assert found.group == "g1"


def test_shared_parameters_survive_a_restart():
    interner = Interner()

    def one(n, pid, timestamp):
        name = java(
            f"dubbo://192.0.2.{n}:20880/demo.Cart?a=1&interface=demo.Cart&pid={pid}&side=provider"
            f"&timestamp={timestamp}&z=2"
        )
        return read_provider(name, "demo.Cart", interner, POLICY)

    first, second = one(1, 10, T), one(2, 11, T + 5)
    assert first.parameters is second.parameters
    assert (first.started_ms, second.started_ms) == (T, T + 5)
    assert interner.parsed == 1


@pytest.mark.parametrize(
    "query",
    [
        "timestamp=1700000000000&a=1&pid=5",
        "pid=5&timestamp=1700000000000&a=1",
        "a=1&pid=5&timestamp=1700000000000",
        "timestamp=1700000000000&pid=5&a=1",
        "pid=5;a=1;timestamp=1700000000000",
        "a=1;timestamp=1700000000000&pid=5",
        "timestamp=1700000000000;pid=5;a=1",
    ],
)
@pytest.mark.parametrize("encode", ENCODINGS)
def test_start_time_wherever_it_stands(query, encode):
    found = accept(encode(f"dubbo://192.0.2.1:20880/demo.Cart?{query}"))
    assert found.started_ms == T
    assert found.parameters == {"a": "1"}


def test_a_lone_start_time():
    found = accept("dubbo%3A%2F%2F192.0.2.1%3A20880%2Fdemo.Cart%3Ftimestamp%3D1700000000000")
    assert found.started_ms == T
    assert found.parameters == {}


@pytest.mark.parametrize(
    ("text", "started"),
    [
        ("1700000000000", T),
        ("1700000000", T),
        ("0", 0),
        ("", 0),
        ("-5", 0),
        ("soon", 0),
        ("1.7e12", 0),
        ("17000000000000000", 0),
        ("٣", 0),
    ],
)
def test_read_started_ms(text, started):
    assert read_started_ms(text) == started


@pytest.mark.parametrize("text", ["soon", "-5", ""])
def test_a_bad_start_time_is_unknown(text):
    found = accept(f"dubbo://192.0.2.1:20880/demo.Cart?timestamp={text}&a=1")
    assert found.started_ms == 0
    assert found.parameters == {"a": "1"}


def test_path_and_interface_may_differ():
    found = accept("dubbo://192.0.2.1:20880/shop/cart?interface=demo.Cart")
    assert found.path == "shop/cart"


def test_without_interface_the_path_is_it():
    assert accept("dubbo://192.0.2.1:20880/demo.Cart").path == "demo.Cart"


def test_without_path_the_interface_is_it():
    assert accept("dubbo://192.0.2.1:20880?interface=demo.Cart").path == "demo.Cart"


def test_user_information_and_fragment_are_dropped():
    found = accept("dubbo://u:p@192.0.2.1:20880/demo.Cart?a=1#rest?b=2")
    assert found.address == "192.0.2.1:20880"
    assert found.parameters == {"a": "1"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "unparsable"),
        ("junk", "unparsable"),
        ("%00%01", "unparsable"),
        ("dubbo://", "unparsable"),
        ("dubbo:///demo.Cart", "unparsable"),
        ("dubbo://192.0.2.1:70000/demo.Cart", "unparsable"),
        ("dubbo://192.0.2.1:abc/demo.Cart", "unparsable"),
        ("dubbo://192.0.2.1:-1/demo.Cart", "unparsable"),
        ("dubbo://[2001:db8::zz]:20880/demo.Cart", "unparsable"),
        ("dubbo://192.0.2.1:20880/demo.Cart?" + "&".join(["a=1"] * 600), "unparsable"),
        ("d" * (MAX_NAME_LENGTH + 1), "unparsable"),
        ("dubbo://192.0.2.1/demo.Cart", "no_port"),
        ("dubbo://192.0.2.1:0/demo.Cart", "no_port"),
        ("dubbo://127.0.0.1:20880/demo.Cart", "loopback"),
        ("dubbo://0.0.0.0:20880/demo.Cart", "unspecified"),
        ("dubbo://169.254.1.1:20880/demo.Cart", "link_local"),
        ("dubbo://224.1.1.1:20880/demo.Cart", "multicast"),
        ("tri://192.0.2.1/demo.Cart", "no_port"),
        ("grpc://192.0.2.1/demo.Cart?weight=50", "no_port"),
        ("rest://192.0.2.1:8080/demo.Cart", "unsupported_protocol"),
        ("rest://192.0.2.1:8080/demo.Cart?ext.protocol=rest2,http", "unsupported_protocol"),
        ("http://192.0.2.1:8080/demo.Cart", "unsupported_protocol"),
        ("triple://192.0.2.1:50051/demo.Cart", "unsupported_protocol"),
        ("consumer://192.0.2.1/demo.Cart?side=consumer", "unsupported_protocol"),
        ("empty://0.0.0.0/demo.Cart?category=providers", "unsupported_protocol"),
        ("dubbo://192.0.2.1:20880/demo.Other", "other_interface"),
        ("dubbo://192.0.2.1:20880/demo.Cart?interface=demo.Other", "other_interface"),
        ("dubbo://192.0.2.1:20880/demo.Cart?category=configurators", "other_category"),
    ],
)
def test_refused_names(name, reason):
    assert refuse(name) == reason


@pytest.mark.parametrize("name", ["tri://192.0.2.1:50051?service=demo.Cart", "tri://192.0.2.1:5"])
def test_a_name_without_any_interface_is_of_the_node_that_lists_it(name):
    instance = read(name)
    assert (instance.interface, instance.path) == ("demo.Cart", "demo.Cart")


def test_a_refusal_tells_the_address():
    assert read("dubbo://127.0.0.1:20880/demo.Cart").address == "127.0.0.1:20880"


@pytest.mark.parametrize("key", ["ext.protocol", "preferred.protocol"])
@pytest.mark.parametrize(
    ("scheme", "named", "protocols"),
    [
        ("dubbo", "", DUBBO),
        ("dubbo", "tri", EVERY),
        ("dubbo", "rest, TRI", EVERY),
        ("dubbo", "rest,http", DUBBO),
        ("tri", "", TRIPLE),
        ("tri", "dubbo", EVERY),
        ("tri", "grpc", TRIPLE),
        ("grpc", "", TRIPLE),
        ("rest", "tri", TRIPLE),
        ("rest", "dubbo", DUBBO),
    ],
)
@pytest.mark.parametrize("encode", ENCODINGS)
def test_what_a_port_speaks(encode, scheme, named, protocols, key):
    found = accept(encode(f"{scheme}://192.0.2.1:50051/demo.Cart?a=1&{key}={named}&b=2"))
    assert (found.protocol, found.protocols) == (scheme, protocols)
    assert found.address == "192.0.2.1:50051"


def test_a_plain_grpc_service():
    url = "grpc://192.0.2.5:50051/helloworld.Greeter?weight=50"
    assert provider_interface(url) == "helloworld.Greeter"
    found = accept(url, "helloworld.Greeter")
    assert (found.protocols, found.address, found.weight) == (TRIPLE, "192.0.2.5:50051", 50)
    assert (found.path, found.version, found.group) == ("helloworld.Greeter", "", "")


def test_equal_schemes_are_one_text():
    one, two = (accept(f"tri://192.0.2.{n}:50051/demo.Cart") for n in (1, 2))
    assert one.protocol is two.protocol


def test_allowed_networks():
    policy = AddressPolicy(["127.0.0.0/8"])
    found = read("dubbo://127.0.0.1:20880/demo.Cart", policy=policy)
    assert isinstance(found, Instance)


@pytest.mark.parametrize("encode", ENCODINGS)
@pytest.mark.parametrize("host", ["[2001:db8::11]", "2001:db8::11"])
def test_fc_14_ipv6_providers(host, encode):
    found = accept(encode(f"dubbo://{host}:20880/demo.Cart?application=cart-app"))
    assert found.host == "2001:db8::11"
    assert found.address == "[2001:db8::11]:20880"


def test_fc_14_a_scope_id_is_no_port():
    assert refuse("dubbo://fe80::1%eth0/demo.Cart") == "link_local"
    assert refuse("dubbo://2001:db8::1%eth0/demo.Cart") == "no_port"


@pytest.mark.parametrize("encode", ENCODINGS)
def test_fc_15_odd_encodings(encode):
    plain = "dubbo://192.0.2.11:20880/demo.Cart?methods=x,y&note=why%3F&owner=a%26b%3Dc"
    found = accept(encode(plain))
    assert found.parameters == {"methods": "x,y", "note": "why?", "owner": "a&b=c"}


def test_fc_15_escapes_in_the_path_and_beyond_ascii():
    plain = "dubbo://192.0.2.11:20880/demo.Outer%24Inner?owner=你好&plus=GMT%2B8&sum=1+1"
    found = accept(java(plain), "demo.Outer$Inner")
    assert found.parameters == {"owner": "你好", "plus": "GMT+8", "sum": "1+1"}


def test_fc_16_default_parameters():
    old = accept("dubbo://192.0.2.11:20880/demo.Cart?default.group=blue&default.version=2.0")
    new = accept("dubbo://192.0.2.12:20880/demo.Cart?group=blue&version=2.0")
    assert (old.group, old.version) == (new.group, new.version) == ("blue", "2.0")
    other = accept("dubbo://192.0.2.13:20880/demo.Cart?default.serialization=hessian2")
    assert other.parameters["serialization"] == "hessian2"


def test_fc_17_addresses_nobody_can_reach():
    assert refuse("dubbo://127.0.0.1:20880/demo.Cart") == "loopback"
    assert refuse("dubbo://0.0.0.0:20880/demo.Cart") == "unspecified"
    assert accept("dubbo://172.17.0.1:20880/demo.Cart").host == "172.17.0.1"
    assert accept("dubbo://cart-7f9c:20880/demo.Cart").host == "cart-7f9c"


def test_provider_interface():
    assert provider_interface("dubbo://192.0.2.1:1/a.B?interface=c.D&x=1") == "c.D"
    assert provider_interface(java("dubbo://192.0.2.1:1/a.B?interface=c.D&x=1")) == "c.D"
    assert provider_interface("dubbo://192.0.2.1:1/a.B%24C") == "a.B$C"
    assert provider_interface("dubbo%3A%2F%2F192.0.2.1%3A1%2Fa.B") == "a.B"
    assert provider_interface("junk") == ""
    assert provider_interface("&".join(["?a=1"] * 600)) == ""


# An obviously correct reader of the same text: decode everything first, then split.
def slow_parameters(plain):
    query = plain.partition("#")[0].partition("?")[2]
    parameters = {}
    for item in query.replace(";", "&").split("&"):
        key, _, value = item.lstrip("=").partition("=")
        if key:
            parameters[key] = value
    for key in list(parameters):
        if key.startswith("default."):
            parameters.setdefault(key[8:], parameters[key])
    return {k: v for k, v in parameters.items() if k not in ("timestamp", "pid")}


WORDS = st.text("ab.=-_*~ é$+", max_size=6)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "default.a", "timestamp", "pid", "b"]), WORDS)),
    st.sampled_from(ENCODINGS),
)
def test_parameters_equal_those_of_the_slow_reader(items, encode):
    query = "&".join(f"{key}={value}" for key, value in items)
    plain = f"dubbo://192.0.2.1:20880/demo.Cart?{query}"
    assert accept(encode(plain)).parameters == slow_parameters(plain)


@given(st.text(max_size=200))
def test_fuzz_any_text_is_an_instance_or_a_refusal(text):
    for name in (text, java(text), "dubbo://" + text, "dubbo%3A%2F%2F" + quote(text)):
        assert isinstance(read(name), Instance | Refusal)
        assert isinstance(provider_interface(name), str)


def test_fuzz_damaged_golden_names():
    rng = random.Random(1)
    names = [name for name, _ in GOLDEN.values()]
    for _ in range(3000):
        characters = list(rng.choice(names))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(characters))
            characters[at] = rng.choice(["", "%", "%3F", "%26", "=", ":", "@", "\x00", "9" * 20])
        found = read("".join(characters))
        if isinstance(found, Instance):
            assert 0 < found.port < 65536
            assert found.weight >= 0
            assert found.started_ms >= 0
