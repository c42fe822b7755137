import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.service import ServiceKey

WORD = st.text("abcXYZ019.$_-", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("org.example.A", ("org.example.A", "", "")),
        ("org.example.A:1.0.0", ("org.example.A", "1.0.0", "")),
        ("gray/org.example.A", ("org.example.A", "", "gray")),
        ("gray/org.example.A:1.0.0", ("org.example.A", "1.0.0", "gray")),
        ("org.example.A:0.0.0", ("org.example.A", "", "")),
    ],
)
def test_parse(text, parts):
    key = ServiceKey.parse(text)
    assert (key.interface, key.version, key.group) == parts


@pytest.mark.parametrize("text", ["", "gray/", ":1.0.0", "gray/:1", " a", "a :1"])
def test_no_interface(text):
    with pytest.raises(ValueError, match="no interface name"):
        ServiceKey.parse(text)


@given(WORD, st.just("") | WORD, st.just("") | WORD)
def test_the_text_reads_back(interface, version, group):
    key = ServiceKey(interface, version, group)
    assert ServiceKey.parse(key.text) == key
    assert hash(ServiceKey.parse(key.text)) == hash(key)
    assert str(key) == key.text


def test_rule_keys_have_both_colons():
    assert ServiceKey("com.foo.Bar").rule_key() == "com.foo.Bar::"
    assert ServiceKey("com.foo.Bar", "1.0.0").rule_key() == "com.foo.Bar:1.0.0:"
    assert ServiceKey("com.foo.Bar", "", "g").rule_key() == "com.foo.Bar::g"


def test_other_things_are_not_equal():
    assert ServiceKey("a.B") != "a.B"
    assert ServiceKey("a.B") != ServiceKey("a.C")
    assert repr(ServiceKey("a.B", "1", "g")) == "ServiceKey(g/a.B:1)"
