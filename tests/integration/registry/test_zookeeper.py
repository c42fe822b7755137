"""Discovery against a real ZooKeeper."""

from __future__ import annotations

import asyncio
import random

import pytest
from kazoo.security import make_acl, make_digest_acl

from sidecar.model import reason
from sidecar.model.service import ServiceKey
from sidecar.routing.router import Call
from sidecar.settings.schema import Services
from sidecar.settings.units import Duration
from tests.integration.registry.conftest import Providers

pytestmark = pytest.mark.zookeeper

COALESCE = 0.3
SLACK = 1.0  # two cores shared by many


async def test_the_list_follows_the_registry(zookeeper, providers, rigs):
    providers.add(*range(11, 16))
    rig = rigs(zookeeper.url)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11, 12, 13, 14, 15)
    providers.remove(11)
    providers.add(16)
    await rig.until_hosts(12, 13, 14, 15, 16)
    assert rig.stats.connected == 1
    assert rig.stats.parsed == 6
    assert rig.board.failures == {}


async def test_nothing_is_ever_created(zookeeper, rigs):
    rig = rigs(zookeeper.url)
    rig.driver.resolve("demo.Cart")
    await rig.until(lambda: "demo.Cart" in rig.board.snapshots)
    assert rig.board.snapshots["demo.Cart"].empty_reason == reason.EMPTY_REGISTRY
    assert zookeeper.admin.get_children("/") == ["zookeeper"]


async def test_fc_01_a_short_disconnect_loses_nothing(zookeeper, providers, rigs, gate):
    link = gate("127.0.0.1", zookeeper.port)
    providers.add(*range(11, 16))
    rig = rigs(f"zookeeper://{link.address}/dubbo", coalesce=1.0)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11, 12, 13, 14, 15)
    link.refuse()
    await rig.until(lambda: rig.stats.connected == 0)
    resyncs = rig.stats.resyncs
    await asyncio.sleep(0.3)
    providers.remove(11)
    providers.add(16)
    await asyncio.sleep(1.5)
    assert rig.hosts() == {11, 12, 13, 14, 15}
    reads = rig.stats.reads
    link.restore()
    await rig.until_hosts(12, 13, 14, 15, 16, limit=6.0)
    assert rig.stats.connected == 1
    assert rig.stats.resyncs == resyncs + 1
    assert rig.stats.reads <= reads + 20
    await asyncio.sleep(0.2)
    providers.add(17)
    assert await rig.until_hosts(12, 13, 14, 15, 16, 17) <= 1.5 + SLACK


async def test_fc_01_a_silent_link_is_noticed(zookeeper, providers, rigs, gate):
    link = gate("127.0.0.1", zookeeper.port)
    providers.add(11)
    rig = rigs(f"zookeeper://{link.address}/dubbo", session_timeout=2.0)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    link.blackhole()
    providers.add(12)
    await rig.until(lambda: rig.stats.connected == 0)
    assert rig.hosts() == {11}
    link.restore()
    await rig.until_hosts(11, 12)


async def test_an_expired_session_is_replaced(zookeeper, providers, rigs):
    providers.add(11)
    rig = rigs(zookeeper.url)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    client = rig.driver._sources[0]._client._client
    resyncs = rig.stats.resyncs
    await asyncio.to_thread(zookeeper.expire, client.client_id)
    providers.add(12)
    await rig.until_hosts(11, 12)
    assert rig.stats.resyncs > resyncs


async def test_a_dead_client_is_replaced(zookeeper, providers, rigs, monkeypatch):
    monkeypatch.setattr("sidecar.registry.zookeeper.SUPERVISION", 0.2)
    providers.add(11)
    rig = rigs(zookeeper.url)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    client = rig.driver._sources[0]._client._client
    await asyncio.to_thread(client.stop)
    await rig.until(lambda: rig.stats.connected == 0)
    assert rig.hosts() == {11}
    providers.add(12)
    await rig.until_hosts(11, 12)
    assert rig.stats.errors["client"] >= 1
    client.close()


async def test_fc_03_the_providers_node_comes_back(zookeeper, providers, rigs):
    providers.add(*range(11, 16))
    rig = rigs(zookeeper.url)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11, 12, 13, 14, 15)
    providers.clear()
    await rig.until_hosts()
    await asyncio.sleep(0.5)
    providers.add(21)
    assert await rig.until_hosts(21) <= COALESCE + 0.5 + SLACK


async def test_fc_04_everything_is_absent_at_the_start(zookeeper, providers, rigs):
    rig = rigs(zookeeper.url, services=Services(preload=["demo.Cart"]))
    await rig.until(lambda: "demo.Cart" in rig.board.snapshots)
    assert rig.board.snapshots["demo.Cart"].empty_reason == reason.EMPTY_REGISTRY
    assert rig.driver.unready() == []
    assert zookeeper.admin.exists("/dubbo") is None
    providers.add(11)
    assert await rig.until_hosts(11) <= COALESCE + 0.5 + SLACK


async def test_fc_05_no_permission_on_one_path(zookeeper, providers, rigs):
    providers.add(*range(11, 16))
    secret = [make_digest_acl("ops", "secret", all=True)]
    owner = zookeeper.client()
    owner.add_auth("digest", "ops:secret")
    owner.ensure_path("/dubbo/demo.Pay")
    owner.create("/dubbo/demo.Pay/providers", acl=secret)
    Providers(owner, "demo.Pay").add(21)
    try:
        rig = rigs(zookeeper.url)
        rig.driver.resolve("demo.Pay")
        rig.driver.resolve("demo.Cart")
        await rig.until_hosts(11, 12, 13, 14, 15)
        await rig.until(lambda: rig.board.failures.get("demo.Pay") == reason.REGISTRY_NOAUTH)
        await asyncio.sleep(2.5)
        assert rig.stats.errors["noauth"] <= 4
        providers.add(16)
        await rig.until_hosts(11, 12, 13, 14, 15, 16)
        owner.set_acls(
            "/dubbo/demo.Pay/providers", [*secret, make_acl("world", "anyone", read=True)]
        )
        await rig.until_hosts(21, service="demo.Pay", limit=12.0)
        assert rig.board.failures == {}
    finally:
        zookeeper.discard(owner)


async def test_credentials_are_presented_before_the_first_read(zookeeper, rigs):
    owner = zookeeper.client()
    owner.add_auth("digest", "ops:secret")
    owner.ensure_path("/dubbo/demo.Pay")
    owner.create("/dubbo/demo.Pay/providers", acl=[make_digest_acl("ops", "secret", all=True)])
    Providers(owner, "demo.Pay").add(21)
    try:
        rig = rigs(zookeeper.url, username="ops", password="secret")
        rig.driver.resolve("demo.Pay")
        await rig.until_hosts(21, service="demo.Pay")
        assert rig.stats.errors == {}
    finally:
        zookeeper.discard(owner)


async def test_fc_10_a_twin_of_an_old_session(zookeeper, providers, rigs):
    providers.add(11)
    rig = rigs(zookeeper.url)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    (ordinal,) = rig.board.snapshots["demo.Cart"].members
    newer = {"started": 1_700_000_600_000, "pid": "9"}
    providers.add(11, **newer)
    await rig.until(lambda: rig.board.instances()[0].started_ms == newer["started"])
    providers.remove(11)
    providers.add(12)
    await rig.until_hosts(11, 12)
    assert rig.board.instances()[0].id == ordinal
    assert rig.board.gone == []


async def test_fc_12_a_node_that_is_deleted_and_made_again_at_once(zookeeper, providers, rigs):
    providers.add(*range(11, 16))
    rig = rigs(zookeeper.url, coalesce=1.0)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11, 12, 13, 14, 15)
    await asyncio.sleep(0.3)
    published, rows = rig.board.count("publish"), rig.stats.rows
    providers.clear()
    await asyncio.sleep(0.4)
    providers.add(*range(11, 16))
    await asyncio.sleep(1.5)
    assert rig.hosts() == {11, 12, 13, 14, 15}
    assert rig.board.count("publish") == published
    assert rig.stats.rows - rows == 5


async def test_fc_12_flapping_costs_one_read_per_delay(zookeeper, providers, rigs):
    providers.add(*range(11, 16))
    rig = rigs(zookeeper.url, coalesce=0.5)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11, 12, 13, 14, 15)
    ids = {each.address: each.id for each in rig.board.instances()}
    reads = rig.stats.reads
    for k in range(25):
        providers.remove(11 + k % 5)
        await asyncio.sleep(0.05)
        providers.add(11 + k % 5)
        await asyncio.sleep(0.05)
        assert len(rig.hosts()) >= 4
    await asyncio.sleep(0.7)
    assert rig.stats.reads - reads <= 7
    await rig.until_hosts(11, 12, 13, 14, 15)
    assert {each.address: each.id for each in rig.board.instances()} == ids


async def test_fc_14_and_15_odd_names_among_good_ones(zookeeper, providers, rigs):
    providers.add(11)
    providers.add(0, host="[2001:db8::11]")
    providers.add(12, note="why%3F", owner="a%26b%3Dc")
    for junk in ("junk", "dubbo%3A%2F%2F", "%00", "rest%3A%2F%2F192.0.2.9%3A1%2Fdemo.Cart"):
        providers.client.create(f"{providers.path}/{junk}")
    rig = rigs(zookeeper.url)
    rig.driver.resolve("demo.Cart")
    await rig.until(lambda: "demo.Cart" in rig.board.snapshots)
    found = {each.address: each for each in rig.board.instances()}
    assert set(found) == {"192.0.2.11:20880", "[2001:db8::11]:20880", "192.0.2.12:20880"}
    assert found["192.0.2.12:20880"].parameters["owner"] == "a&b=c"
    assert found["192.0.2.12:20880"].parameters["note"] == "why?"
    assert rig.stats.refused == {"unparsable": 3, "unsupported_protocol": 1}


async def test_rules_are_there_with_the_list_and_follow_changes(zookeeper, providers, rigs):
    providers.add(11, 12, 13)
    node = "/dubbo/config/dubbo/cart-app.tag-router"
    zookeeper.admin.create(node, rule_text(11), makepath=True)
    rig = rigs(zookeeper.url, coalesce=5.0)
    rig.driver.resolve("demo.Cart")
    await rig.until(lambda: "demo.Cart" in rig.board.snapshots)
    assert untagged(rig) == {12, 13}
    zookeeper.admin.set(node, rule_text(12))
    assert await rig.until(lambda: untagged(rig) == {11, 13}) <= 0.5 + SLACK
    zookeeper.admin.set(node, b"{tags: [")
    await rig.until(lambda: rig.counters.named.get(("rule_invalid", "tag")) == 1)
    assert untagged(rig) == {11, 13}
    zookeeper.admin.delete(node)
    await rig.until(lambda: untagged(rig) == {11, 12, 13})
    zookeeper.admin.create(node, rule_text(13))
    await rig.until(lambda: untagged(rig) == {11, 12})
    zookeeper.admin.create("/dubbo/config/dubbo/demo.Cart.tag-router", rule_text(12))
    await rig.until(lambda: untagged(rig) == {11})
    assert rig.stats.rows == 3


def rule_text(n):
    return f"{{tags: [{{name: gray, addresses: ['192.0.2.{n}:20880']}}]}}".encode()


def untagged(rig):
    snapshot = rig.board.snapshots["demo.Cart"]
    out = snapshot.dubbo.chain.route(Call(), snapshot.members, rig.counters).out
    return {int(snapshot.instances[each].host.rpartition(".")[2]) for each in out}


async def test_another_root(zookeeper, rigs):
    Providers(zookeeper.admin, root="/prod/blue").add(11)
    zookeeper.admin.create(
        "/prod/blue/config/dubbo/cart-app.tag-router", rule_text(11), makepath=True
    )
    rig = rigs(f"zookeeper://{zookeeper.hosts}/prod/blue")
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    assert untagged(rig) == set()
    zookeeper.wipe()


async def test_the_registry_is_down_at_the_start(zookeeper, providers, rigs, gate):
    providers.add(11)
    link = gate("127.0.0.1", zookeeper.port)
    link.refuse()
    rig = rigs(
        f"zookeeper://{link.address}/dubbo",
        services=Services(wait=Duration(0.3), preload=["demo.Cart"]),
        required=True,
    )
    await rig.until(lambda: rig.board.failures == {"demo.Cart": reason.REGISTRY_UNAVAILABLE})
    assert rig.driver.unready() == ["demo.Cart"]
    assert rig.driver.unresolved() == 1
    link.restore()
    await rig.until_hosts(11, limit=8.0)
    assert rig.driver.unready() == []
    assert rig.driver.unresolved() == 0


async def test_a_list_beyond_the_cap_keeps_the_last_good_one(
    zookeeper, providers, rigs, monkeypatch
):
    providers.add(11, 12)
    rig = rigs(zookeeper.url)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11, 12)
    monkeypatch.setattr(rig.driver._sources[0]._client, "_max_list", 600)
    providers.add(*range(13, 33))
    await rig.until(lambda: rig.stats.errors.get("oversize") == 1)
    assert rig.hosts() == {11, 12}
    monkeypatch.undo()
    await rig.until_hosts(*range(11, 33), limit=12.0)


async def test_a_released_service_is_read_no_more(zookeeper, providers, rigs):
    providers.add(11)
    rig = rigs(zookeeper.url, services=Services(idle_release=Duration(0.3)))
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    await rig.until(lambda: rig.board.removed == ["demo.Cart"])
    reads = rig.stats.reads
    providers.add(12)
    await asyncio.sleep(COALESCE + 0.3)
    assert rig.stats.reads == reads
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11, 12)
    assert rig.driver.service(ServiceKey("demo.Cart"))["instances"] == 2


async def test_a_hundred_starting_providers_cost_a_tenth_of_the_rows(zookeeper, providers, rigs):
    """100 providers in 5 s read at each change are 5,050 rows; the delay makes it about 6 %."""
    scale = 0.5  # half the time, the same ratio of delay to duration
    count, duration = 100, 5.0 * scale
    providers.add(250)
    rig = rigs(zookeeper.url, coalesce=1.0 * scale)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(250)
    providers.remove(250)
    await rig.until_hosts()
    rows = rig.stats.rows
    rng = random.Random(1)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    pending = []
    for k, at in enumerate(sorted(rng.uniform(0, duration) for _ in range(count))):
        await asyncio.sleep(max(0.0, begin + at - loop.time()))
        pending.append(asyncio.to_thread(providers.add, k + 1))
        await pending[-1]
    lag = await rig.until_hosts(*range(1, count + 1))
    assert lag <= 1.0 * scale + 0.2 + SLACK
    assert rig.stats.rows - rows <= 0.10 * 5050
    assert rig.stats.parsed == count + 1


# A server that is starting may swallow the first handshake, which lasts until it times out.
@pytest.mark.timeout(100)
async def test_a_server_restart_is_survived(zookeeper, providers, rigs):
    zookeeper.admin.ensure_path(providers.path)
    Providers(zookeeper.admin).add(11)
    rig = rigs(zookeeper.url)
    rig.driver.resolve("demo.Cart")
    await rig.until_hosts(11)
    await asyncio.to_thread(zookeeper.stop)
    await rig.until(lambda: rig.stats.connected == 0)
    await asyncio.sleep(0.3)
    assert rig.hosts() == {11}
    await asyncio.to_thread(zookeeper.start)
    await rig.until(lambda: rig.stats.connected == 1, limit=35.0)
    await asyncio.to_thread(zookeeper.admin.retry, Providers(zookeeper.admin).add, 12)
    await rig.until(lambda: 12 in rig.hosts(), limit=35.0)
