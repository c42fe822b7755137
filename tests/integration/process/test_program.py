"""The sidecar as a process: start, readiness, calls, admin, metrics, bind failures, the end."""

import asyncio
import json
import resource
import shutil
import signal
import subprocess
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.demo.consumer import DubboConsumer
from sidecar.demo.stage import python, same_package
from sidecar.demo.wire import INTERFACE, METHOD
from sidecar.protocol.hessian.write import write_map, write_string
from tests.fixtures.zookeeper import free_port

REGISTRY = """\
registries:
  - name: main
    url: "file://{path}"
    allow_networks: ["127.0.0.0/8"]
    required: true
"""


class Providers:
    """Sample providers as processes, and the registry file that lists them."""

    def __init__(self, path):
        self.path = path
        self.urls = {}
        self.processes = {}

    def add(self, name, zone="bj-a", tag=""):
        process = subprocess.Popen(
            python("sidecar.demo.provider", name, zone, tag, ""),
            env=same_package(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes[name] = process
        self.urls[name] = process.stdout.readline().strip()

    def address(self, name):
        return self.urls[name].split("/")[2]

    def list_all(self):
        self.path.write_text(json.dumps({"providers": list(self.urls.values())}))

    def close(self):
        for process in self.processes.values():
            process.communicate(timeout=10)  # the end of its input is its end


@pytest.fixture
def providers(tmp_path):
    made = Providers(tmp_path / "registry.yaml")
    made.add("a1")
    made.list_all()
    yield made
    made.close()


@pytest.fixture
def configuration(providers):
    return REGISTRY.format(path=providers.path) + f'services: {{preload: ["{INTERFACE}"]}}\n'


async def call(program, count=1, tag=""):
    consumer = DubboConsumer("127.0.0.1", program.port)
    tally = await consumer.call(count, tag)
    await consumer.close()
    return tally


def samples(program):
    status, text = program.get("/metrics")
    assert status == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_call_and_what_can_be_seen_of_it(run_program, configuration, providers):
    program = run_program(configuration)
    program.wait_ready()
    tally = await call(program, 10)
    assert (tally.answered, tally.failures) == ({"a1": 10}, [])
    assert program.log.count(f"service {INTERFACE}: 1 instances known") == 1

    assert program.get("/livez") == (200, {"alive": True})
    address = providers.address("a1")
    (summary,) = program.get("/services")[1]["services"]
    assert (summary["service"], summary["instances"], summary["reason"]) == (INTERFACE, 1, "")
    shown = program.get(f"/services/{INTERFACE}")[1]
    assert shown["instances_shown"][0]["address"] == address
    assert shown["instances_shown"][0]["state"] == "available"
    assert program.get("/services/org.example.Other")[0] == 404
    assert program.get("/registries")[1]["registries"][0]["name"] == "main"
    assert program.get("/rules") == (200, {"rules": []})
    explained = program.get(f"/explain?service={INTERFACE}&method={METHOD}")[1]
    assert (explained["eligible"], explained["picked_by"]) == ([address], "random")

    found = samples(program)
    labels = (("method", METHOD), ("outcome", "ok"), ("protocol", "dubbo"), ("service", INTERFACE))
    assert found["sidecar_requests_total", labels] == 10
    assert found["sidecar_registry_connected", (("registry", "main"),)] == 1
    assert found["sidecar_registry_parsed_total", (("registry", "main"),)] == 1
    assert found["sidecar_instances", (("service", INTERFACE), ("state", "matching"))] == 1
    assert found["sidecar_services", ()] == 1
    assert found["sidecar_services_unresolved", ()] == 0
    assert found["sidecar_inflight", (("protocol", "dubbo"),)] == 0
    assert found["sidecar_upstream_connections", (("state", "ready"),)] == 1


def test_all_open_files_that_the_system_allows_are_used(run_program, configuration):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
    try:
        program = run_program(configuration)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    program.wait_ready()
    assert resource.prlimit(program.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)


async def test_ready_waits_for_the_list_of_a_required_registry(
    run_program, configuration, providers
):
    providers.path.unlink()
    program = run_program(configuration)
    program.wait_until(lambda: program.get("/livez")[0] == 200)
    await asyncio.sleep(0.3)
    status, body = program.get("/readyz")
    assert (status, body["ready"], body["services_without_list"]) == (503, False, [INTERFACE])
    providers.list_all()
    program.wait_ready()


async def test_ready_at_once_when_no_registry_is_required(run_program, configuration, providers):
    providers.path.unlink()
    program = run_program(configuration.replace("required: true", "required: false"))
    program.wait_ready()
    tally = await call(program)
    assert tally.failures[0].startswith("REGISTRY_UNAVAILABLE")


async def test_fc_82_invented_services_and_methods_make_no_series(run_program, providers):
    text = REGISTRY.format(path=providers.path) + "services: {max_services: 50}\n"
    program = run_program(text)
    program.wait_ready()
    before = len(samples(program))
    reader, writer = await asyncio.open_connection("127.0.0.1", program.port)
    for number in range(2000):
        writer.write(invented_call(number))
        if number % 100 == 99:
            await writer.drain()
    answered = 0
    while answered < 2000:
        answered += (await asyncio.wait_for(reader.read(1 << 16), 20)).count(b"\xda\xbb\x02")
    writer.close()
    await writer.wait_closed()
    found = samples(program)
    assert len(found) - before < 40
    unknown = [
        value
        for (name, labels), value in found.items()
        if name == "sidecar_requests_total" and ("service", "_unknown") in labels
    ]
    assert sum(unknown) == 2000
    reasons = {
        dict(labels)["reason"]: value
        for (name, labels), value in found.items()
        if name == "sidecar_no_eligible_total"
    }
    assert reasons == {"EMPTY_REGISTRY": 50, "UNKNOWN_SERVICE": 1950}, "nobody waits in vain"


def invented_call(number):
    """A request for a service and a method that nobody has."""
    texts = ("2.0.2", f"x.Service{number}", "0.0.0", f"method{number}", "")
    body = b"".join(map(write_string, texts)) + write_map([("path", f"x.Service{number}")])
    return b"\xda\xbb\xc2\x00" + number.to_bytes(8, "big") + len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("taken", ["listener", "admin"])
def test_an_address_in_use_ends_the_start_with_1_and_a_sentence(
    run_program, configuration, taken, tmp_path
):
    program = run_program(configuration)
    program.wait_ready()
    ports = {"listener": free_port(), "admin": free_port()}
    ports[taken] = program.port if taken == "listener" else program.admin_port
    path = tmp_path / "other.yaml"
    path.write_text(
        configuration
        + f'listeners: [{{address: "127.0.0.1:{ports["listener"]}"}}]\n'
        + f'admin: {{address: "127.0.0.1:{ports["admin"]}"}}\n'
    )
    command = python("sidecar", "run", "--config", str(path))
    done = subprocess.run(
        command, env=same_package(), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"cannot listen on 127.0.0.1:{ports[taken]}")
    assert "in use" in last.lower()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("side", ["listener", "upstream"])
def test_a_certificate_that_cannot_be_used_ends_the_start_with_1_and_a_sentence(
    configuration, side, tmp_path
):
    path = tmp_path / "tls.yaml"
    none = str(tmp_path / "none.pem")
    tls = {"listener": f'tls: {{certificate: "{none}", key: "{none}"}}', "upstream": ""}[side]
    path.write_text(
        configuration
        + f'listeners: [{{address: "127.0.0.1:{free_port()}", {tls}}}]\n'
        + (f'upstream: {{tls: {{ca: "{none}"}}}}\n' if side == "upstream" else "")
    )
    command = python("sidecar", "run", "--config", str(path))
    done = subprocess.run(
        command, env=same_package(), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(("cannot listen on 127.0.0.1:", "cannot call providers in TLS: "))
    assert last.endswith(f"{none}: No such file or directory")
    assert "Traceback" not in done.stderr


def test_an_idle_sidecar_ends_soon(run_program, configuration):
    program = run_program(configuration + "drain: {idle: 200ms}\n")
    program.wait_ready()
    started = time.monotonic()
    program.terminate()
    assert program.wait_end() == 0
    assert time.monotonic() - started < 5
    assert "Traceback" not in program.log


class SteadyCaller:
    """Calls 20 times a second, one call after the other, on one connection, and counts."""

    def __init__(self, port):
        self.port = port
        self.answered = 0
        self.failures = []

    async def run(self, seconds):
        consumer = DubboConsumer("127.0.0.1", self.port)
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                tally = await consumer.call(1)
                self.answered += tally.answered.total()
                self.failures += tally.failures
                await asyncio.sleep(0.05)
        finally:
            await consumer.close()


async def test_fc_77_calls_are_served_after_sigterm_until_the_consumer_is_quiet(
    run_program, configuration
):
    program = run_program(configuration + "drain: {idle: 1s, grace: 20s}\n")
    program.wait_ready()
    caller = SteadyCaller(program.port)
    calling = asyncio.ensure_future(caller.run(3))
    await asyncio.sleep(0.5)
    program.terminate()
    await asyncio.sleep(0.3)
    status, body = await asyncio.to_thread(program.get, "/readyz")
    assert (status, body["draining"]) == (503, True)
    # New connections are served too: the application still does its work.
    assert (await call(program)).failures == []
    await calling
    ended = time.monotonic()
    assert await asyncio.to_thread(program.wait_end) == 0
    assert 0.5 < time.monotonic() - ended < 4
    assert caller.failures == []
    assert caller.answered > 30


async def test_fc_77_the_grace_period_ends_the_waiting(run_program, configuration):
    program = run_program(configuration + "drain: {idle: 1s, grace: 2s}\n")
    program.wait_ready()
    caller = SteadyCaller(program.port)
    calling = asyncio.ensure_future(caller.run(6))
    await asyncio.sleep(0.3)
    started = time.monotonic()
    program.terminate()
    assert await asyncio.to_thread(program.wait_end) == 0
    assert 1.5 < time.monotonic() - started < 5
    calling.cancel()
    await asyncio.wait([calling])


async def test_fc_77_a_second_sigterm_is_quick(run_program, configuration):
    program = run_program(configuration + "drain: {idle: 5s, grace: 25s}\n")
    program.wait_ready()
    caller = SteadyCaller(program.port)
    calling = asyncio.ensure_future(caller.run(10))
    await asyncio.sleep(0.3)
    program.terminate()
    await asyncio.sleep(0.3)
    started = time.monotonic()
    program.terminate()
    assert await asyncio.to_thread(program.wait_end) == 0
    assert time.monotonic() - started < 3
    calling.cancel()
    await asyncio.wait([calling])


async def test_fc_77_a_signal_after_a_drain_does_not_cut_it_short(run_program, configuration):
    program = run_program(configuration + "drain: {idle: 1s, grace: 20s}\n")
    program.wait_ready()
    caller = SteadyCaller(program.port)
    calling = asyncio.ensure_future(caller.run(3))
    await asyncio.sleep(0.3)
    for _ in range(2):
        assert (await asyncio.to_thread(program.get, "/drain", "POST"))[0] == 202
    program.terminate()
    await calling
    assert caller.failures == []
    assert await asyncio.to_thread(program.wait_end) == 0


def test_fc_77_sigterm_before_the_first_list(run_program):
    url = f"zookeeper://127.0.0.1:{free_port()}"
    text = f'registries: [{{name: main, url: "{url}", required: true}}]\n'
    text += f'services: {{preload: ["{INTERFACE}"]}}\ndrain: {{idle: 200ms}}\n'
    program = run_program(text)
    program.wait_until(lambda: program.get("/livez")[0] == 200)
    assert samples(program)["sidecar_services_unresolved", ()] == 1
    program.terminate()
    assert program.wait_end(15) == 0
    assert "Traceback" not in program.log


def test_sigint_ends_as_sigterm_does(run_program, configuration):
    program = run_program(configuration + "drain: {idle: 100ms}\n")
    program.wait_ready()
    program.process.send_signal(signal.SIGINT)
    assert program.wait_end() == 0


def test_drain_by_post(run_program, configuration):
    program = run_program(configuration + "drain: {idle: 500ms}\n")
    program.wait_ready()
    assert program.get("/drain") == (405, {"error": "405 Method Not Allowed"})
    assert program.get("/drain", "POST") == (202, {"draining": True})
    assert program.wait_end() == 0


def test_json_logs_are_one_object_per_line(run_program, configuration):
    program = run_program(configuration + "log: {format: json}\ndrain: {idle: 100ms}\n")
    program.wait_ready()
    program.terminate()
    program.wait_end()
    records = [json.loads(line) for line in program.log.splitlines()]
    assert records[0]["message"].startswith("sidecar ")
    assert records[-1]["message"] == "ended"
    assert all(record["ts"].endswith("Z") for record in records)


@pytest.mark.skipif(shutil.which("ss") is None, reason="no ss on this machine")
@pytest.mark.parametrize(("same_machine", "host"), [(True, "0.0.0.0"), (False, "127.0.0.1")])
def test_where_it_listens(run_program, configuration, same_machine, host):
    program = run_program(configuration, same_machine=same_machine)
    program.wait_ready()
    listening = subprocess.run(
        ["ss", "-Hltnp"], capture_output=True, text=True, check=False
    ).stdout.splitlines()
    mine = [line.split()[3] for line in listening if f"pid={program.process.pid}," in line]
    assert sorted(mine) == sorted([f"{host}:{program.port}", f"127.0.0.1:{program.admin_port}"])
