"""The file registry on a real file."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from sidecar.model import reason
from sidecar.model.service import ServiceKey
from sidecar.registry import file
from sidecar.settings.schema import Services
from sidecar.settings.units import Duration
from tests.fixtures.provider_names import provider_url
from tests.integration.registry.test_zookeeper import rule_text, untagged

PERIOD = 0.05


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    defaults = file.FileRegistry.__init__.__defaults__
    assert defaults == (file.PERIOD, file.SETTLE)
    monkeypatch.setattr(file.FileRegistry.__init__, "__defaults__", (PERIOD, 0.02))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "registry.yaml"


def text_of(*octets, rule=None, **more):
    lines = ["providers:", *[f"  - '{provider_url(n, **more)}'" for n in octets]]
    if rule is not None:
        lines += ["rules:", "  cart-app.tag-router: |", f"    {rule_text(rule).decode()}"]
    return "\n".join(lines) + "\n"


async def test_the_list_follows_the_file(path, rigs):
    path.write_text(text_of(11, 12))
    rig = rigs(f"file://{path}")
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11, 12)
    ids = {each.address: each.id for each in rig.board.instances()}
    path.write_text(text_of(12, 13))
    await rig.until_hosts(12, 13)
    assert rig.board.instances()[0].id in ids.values()
    assert rig.stats.parsed == 3
    assert rig.stats.connected == 1
    assert rig.stats.events == 1


async def test_a_defect_does_not_end_the_reading(path, rigs, monkeypatch, caplog):
    path.write_text(text_of(11))
    rig = rigs(f"file://{path}")
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    with monkeypatch.context() as patch:
        patch.setattr(file, "read_content", lambda text: 1 / 0)
        path.write_text(text_of(12))
        await rig.until(lambda: "internal" in rig.stats.errors)
        assert "is not taken in" in caplog.text
    await rig.until_hosts(12)


async def test_unknown_services_are_empty(path, rigs):
    path.write_text(text_of(11))
    rig = rigs(f"file://{path}")
    rig.driver.resolve("demo.Other")
    await rig.until(lambda: "demo.Other" in rig.board.snapshots)
    assert rig.board.snapshots["demo.Other"].empty_reason == reason.EMPTY_REGISTRY
    rig.driver.resolve("demo.Cart:9.9")
    await rig.until(lambda: "demo.Cart:9.9" in rig.board.snapshots)
    assert rig.board.snapshots["demo.Cart:9.9"].empty_reason == reason.VERSION_MISMATCH


async def test_rules_follow_the_file(path, rigs):
    path.write_text(text_of(11, 12, rule=11))
    rig = rigs(f"file://{path}")
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11, 12)
    assert untagged(rig) == {12}
    path.write_text(text_of(11, 12, rule=12))
    await rig.until(lambda: untagged(rig) == {11})
    path.write_text(text_of(11, 12))
    await rig.until(lambda: untagged(rig) == {11, 12})
    assert rig.driver.rules() == []


async def test_a_file_that_comes_later(path, rigs):
    services = Services(wait=Duration(0.1), preload=["demo.Cart"])
    rig = rigs(f"file://{path}", services=services)
    await rig.until(lambda: rig.board.failures == {"demo.Cart": reason.REGISTRY_UNAVAILABLE})
    assert rig.stats.connected == 0
    assert rig.stats.errors["unreadable"] >= 1
    assert "No such file" in rig.driver.registries()[0]["problem"]
    path.write_text(text_of(11))
    await rig.until_hosts(11)
    assert rig.driver.registries()[0]["problem"] == ""


@pytest.mark.parametrize("damage", ["providers: [", b"\xff\xfe", "", "# cut o", None, os.mkfifo])
async def test_the_last_good_content_stays(path, rigs, damage, caplog, monkeypatch):
    parsed = []
    read = file.read_content
    monkeypatch.setattr(file, "read_content", lambda text: (parsed.append(text), read(text))[1])
    path.write_text(text_of(11))
    rig = rigs(f"file://{path}")
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    if damage is None:
        path.unlink()
    elif damage is os.mkfifo:
        path.unlink()
        os.mkfifo(path)
    elif isinstance(damage, bytes):
        path.write_bytes(damage)
    else:
        path.write_text(damage)
    await rig.until(lambda: sum(rig.stats.errors.values()) >= 3)
    assert rig.hosts() == {11}
    assert sum("stays in use" in record.message for record in caplog.records) == 1
    assert len(parsed) <= 2
    rig.driver.resolve("demo.Cart:1.0")
    await rig.until(lambda: "demo.Cart:1.0" in rig.board.snapshots)
    path.unlink(missing_ok=True)
    path.write_text(text_of(12))
    await rig.until_hosts(12)


async def test_the_same_content_again_ends_a_problem(path, rigs):
    path.write_text(text_of(11))
    rig = rigs(f"file://{path}")
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    path.unlink()
    await rig.until(lambda: rig.driver.registries()[0]["problem"])
    path.write_text(text_of(11))
    await rig.until(lambda: not rig.driver.registries()[0]["problem"])
    assert rig.board.count("publish") == 1
    assert rig.stats.reads == 1


async def test_symlink_swaps_are_seen(tmp_path, path, rigs):
    """Kubernetes replaces a symlink to a directory, so no file in sight ever changes."""
    for name, n in (("one", 11), ("two", 12)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "registry.yaml").write_text(text_of(n))
    (tmp_path / "data").symlink_to("one")
    path.symlink_to("data/registry.yaml")
    rig = rigs(f"file://{path}")
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(tmp_path / "data")
    await rig.until_hosts(12)


async def test_a_change_that_keeps_size_and_time_is_seen(path, rigs):
    path.write_text(text_of(11))
    stamp = (time.time_ns(), time.time_ns())
    os.utime(path, ns=stamp)
    rig = rigs(f"file://{path}")
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    path.write_text(text_of(12))
    os.utime(path, ns=stamp)
    await rig.until_hosts(12)


async def test_a_file_is_not_taken_in_while_it_is_written(path, rigs):
    path.write_text(text_of(11, 12))
    rig = rigs(f"file://{path}")
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11, 12)
    with path.open("w") as writer:
        for piece in text_of(*range(21, 71)).splitlines(keepends=True):
            writer.write(piece)
            writer.flush()
            await asyncio.sleep(0.008)
            assert rig.hosts() == {11, 12}
    await rig.until_hosts(*range(21, 71))


async def test_junk_among_the_providers_is_counted(path, rigs):
    path.write_text(
        "providers: ['junk', 'dubbo://127.0.0.1:1/demo.Cart', 'dubbo://192.0.2.7:1/demo.Cart']"
    )
    rig = rigs(f"file://{path}")
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(7)
    assert rig.stats.refused == {"unparsable": 1, "loopback": 1}
    assert rig.driver.service(ServiceKey("demo.Cart"))["refused_total"] == 1


async def test_loopback_is_accepted_where_it_is_allowed(path, rigs):
    path.write_text("providers: ['dubbo://127.0.0.1:1/demo.Cart']")
    rig = rigs(f"file://{path}", allow_networks=["127.0.0.0/8"])
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(1)


async def test_a_file_beyond_the_cap_is_not_read(path, rigs, monkeypatch):
    path.write_text(text_of(11))
    rig = rigs(f"file://{path}")
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    monkeypatch.setattr(file, "MAX_FILE_SIZE", 500)
    path.write_text(text_of(*range(20, 40)))
    await rig.until(lambda: rig.stats.errors.get("invalid", 0) >= 1)
    assert rig.hosts() == {11}


async def test_configurators_and_routers_are_empty_and_a_release_ends_the_telling(path, rigs):
    path.write_text(text_of(11))
    rig = rigs(f"file://{path}")
    await rig.until(lambda: rig.stats.connected == 1)
    rig.driver.resolve("demo.Cart")
    rig.driver.release(ServiceKey("demo.Cart"))
    path.write_text(text_of(12))
    await rig.until(lambda: rig.stats.events == 1)
    assert rig.board.snapshots == {}
