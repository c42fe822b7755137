"""`sidecar demo` as users run it, with every kind of registry; nothing is left behind."""

import asyncio
import subprocess

import pytest

from sidecar.demo import stage, zookeeper
from sidecar.demo.consumer import DubboConsumer, TripleConsumer
from sidecar.demo.nodes import ZooKeeperNodes
from sidecar.demo.story import tell
from sidecar.demo.zookeeper import PrivateZooKeeper, find_class_path
from sidecar.model.errors import RegistryError, SidecarError

pytestmark = pytest.mark.timeout(90)
STEPS = 8


def demo(*arguments):
    return subprocess.run(
        stage.python("sidecar", "demo", *arguments),
        env=stage.same_package(), capture_output=True, text=True, timeout=80, check=False,
    )  # fmt: skip


def assert_good(done):
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.split(".")[0].isdigit() for line in lines) == STEPS
    assert lines[-1].startswith("All steps did what they say")
    assert done.stderr == ""


def test_with_a_file():
    assert_good(demo("--registry", "file"))


@pytest.mark.zookeeper
def test_with_a_zookeeper_that_runs(zookeeper):
    assert_good(demo("--registry", f"zookeeper://{zookeeper.hosts}"))
    left = [name for name in zookeeper.admin.get_children("/") if name.startswith("sidecar-demo")]
    assert left == []


@pytest.mark.zookeeper
@pytest.mark.skipif(not find_class_path(), reason="no ZooKeeper on this machine")
def test_with_a_private_zookeeper():
    done = demo()
    assert_good(done)
    assert "private ZooKeeper at 127.0.0.1:" in done.stdout


def test_without_the_means_a_file_is_used(monkeypatch):
    monkeypatch.setenv("PATH", "")
    said = []
    assert find_class_path() == ""
    monkeypatch.setattr(stage, "PLANS", ())
    assert tell("", said.append) == 1
    assert said[0].startswith("registry   file /")


@pytest.mark.parametrize(
    ("registry", "words"),
    [
        ("nacos://127.0.0.1:1", "no Nacos registry"),
        ("file:///x", "takes a zookeeper:// URL"),
        ("here", "is not a URL"),
    ],
)
def test_a_registry_it_cannot_use(registry, words):
    done = demo("--registry", registry)
    assert done.returncode == 1
    assert words in done.stdout
    assert "Traceback" not in done.stderr


def test_a_zookeeper_that_does_not_answer(monkeypatch):
    monkeypatch.setattr("sidecar.demo.nodes.CONNECT", 0.3)
    with pytest.raises(RegistryError, match="no ZooKeeper answers at"):
        ZooKeeperNodes(f"zookeeper://127.0.0.1:{zookeeper.free_port()}/x")


def test_class_path_of_a_release(monkeypatch):
    monkeypatch.setenv("ZOOKEEPER_HOME", "/opt/zk")
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/java")
    assert find_class_path() == "/opt/zk/lib/*"
    monkeypatch.delenv("ZOOKEEPER_HOME")
    monkeypatch.setattr(zookeeper, "DEBIAN_JARS", zookeeper.Path("/nowhere"))
    assert find_class_path() == ""


async def test_a_server_that_ends_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(zookeeper, "START_LIMIT", 5.0)
    script = tmp_path / "java"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    server = PrivateZooKeeper(tmp_path, "x")
    with pytest.raises(RegistryError, match="ended at once"):
        await server.start()
    await server.stop()


async def test_a_server_that_never_serves_and_will_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr(zookeeper, "START_LIMIT", 0.5)
    monkeypatch.setattr(zookeeper, "STOP_LIMIT", 0.2)
    script = tmp_path / "java"
    script.write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do :; done\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    server = PrivateZooKeeper(tmp_path, "x")
    with pytest.raises(RegistryError, match="did not start in time"):
        await server.start()
    await server.stop()


async def test_what_goes_wrong_is_told(monkeypatch):
    monkeypatch.setattr(stage, "READY_LIMIT", 0.3)
    with pytest.raises(SidecarError, match=r"waited 0\.3 s for the moon\nclouds"):
        await stage.wait_for(never, "the moon", lambda: "clouds")


async def never():
    return False


@pytest.mark.parametrize("kind", [DubboConsumer, TripleConsumer])
async def test_a_consumer_counts_lost_connections_and_goes_on(kind):
    async def hang_up(reader, writer):
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        consumer = kind("127.0.0.1", server.sockets[0].getsockname()[1])
        tally = await consumer.call(40)
        await consumer.close()
    assert len(tally.failures) == 2
    assert not tally.answered
