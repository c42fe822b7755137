from __future__ import annotations

import pytest

from sidecar.discovery.stats import RegistryStats
from sidecar.registry.file import FileRegistry, FileRegistryError, read_content, unpack
from sidecar.settings.schema import Registry
from tests.fixtures.loop import StillLoop
from tests.fixtures.provider_names import provider_name, provider_url


def test_providers_by_interface_and_rules_by_name():
    content = read_content(
        f"providers:\n"
        f"  - '{provider_url(11)}'\n"
        f"  - '{provider_name(12)}'\n"
        f"  - 'dubbo://192.0.2.21:1/demo.Pay'\n"
        f"  - 'junk'\n"
        "rules:\n"
        "  cart-app.tag-router: |\n"
        "    {tags: []}\n"
    )
    assert {name: unpack(packed) for name, packed in content.providers.items()} == {
        "demo.Cart": [provider_url(11), provider_name(12)],
        "demo.Pay": ["dubbo://192.0.2.21:1/demo.Pay"],
    }
    assert content.rules == {"cart-app.tag-router": "{tags: []}\n"}
    assert content.strays == 1


def test_the_urls_of_a_large_service_take_little_memory():
    urls = [provider_url(each) for each in range(10_000)]
    text = "providers:\n" + "".join(f"  - '{url}'\n" for url in urls)
    (packed,) = read_content(text).providers.values()
    assert unpack(packed) == urls
    assert len(packed) < len(text) / 10


@pytest.mark.parametrize("text", ["{}", "providers:\nrules:\n", "providers: []"])
def test_nothing_is_an_empty_registry(text):
    content = read_content(text)
    assert not content.providers
    assert not content.rules


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "not a mapping"),
        ("providers: [", "line 2"),
        ("provider: []", "unknown key 'provider'"),
        ("providers: {}", "not a list"),
        ("providers: [1]", "not a list of URLs"),
        ("rules: []", "not a mapping"),
        ("rules: {a.tag-router: {tags: []}}", "write |"),
        ("providers: []\nproviders: []", "duplicate"),
        ("providers: &a []\nrules: *a", "anchors"),
        ("--- {}\n--- {}", "second YAML document"),
        ("providers: !!python/object:os.system []", "not allowed"),
        ("[" * 100, "nested deeper"),
    ],
)
def test_what_is_no_registry(text, words):
    with pytest.raises(FileRegistryError, match=words):
        read_content(text)


def test_a_text_beyond_the_cap(monkeypatch):
    monkeypatch.setattr("sidecar.registry.file.MAX_FILE_SIZE", 10)
    with pytest.raises(FileRegistryError, match="more than the 10 allowed"):
        read_content("providers: []")


async def test_stop_before_start_is_fine():
    settings = Registry(name="m", url="file:///x.yaml")
    registry = FileRegistry(settings, None, RegistryStats(), StillLoop())
    assert not registry.view()["connected"]
    await registry.stop()
