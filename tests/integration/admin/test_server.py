"""The admin server over real sockets."""

import asyncio
import contextlib
import json

import aiohttp
import pytest

from sidecar.admin import server as admin
from sidecar.admin.server import AdminServer


class State:
    """What a test shows through the server."""

    def __init__(self):
        self.ready = True
        self.drained = 0

    def readiness(self):
        return {"ready": self.ready, "waiting_for": []}

    def services(self):
        return [{"service": "a.B"}]

    def service(self, key, limit):
        if key == "broken":
            raise RuntimeError("secret detail")
        return {"service": key, "limit": limit} if key in ("a.B", "gray/a.B:1.0.0") else None

    def registries(self):
        return [{"name": "main"}]

    def rules(self):
        return [{"name": "greeter.tag-router"}]

    def explain(self, key, method, attachments, protocol):
        if key != "a.B":
            return None
        return {
            "service": key, "method": method, "attachments": attachments, "protocol": protocol
        }  # fmt: skip

    def drain(self):
        self.drained += 1

    async def metrics(self):
        return b"# HELP x y\n"


@pytest.fixture
async def state():
    return State()


@pytest.fixture
async def url(state):
    server = AdminServer(state)
    port = await server.start("127.0.0.1", 0)
    yield f"http://127.0.0.1:{port}"
    await server.stop()


async def ask(url, path, method="GET", **options):
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url + path, **options) as answer,
    ):
        return answer.status, await answer.json(), answer.headers


async def test_probes(url, state):
    assert (await ask(url, "/livez"))[:2] == (200, {"alive": True})
    assert (await ask(url, "/readyz"))[:2] == (200, {"ready": True, "waiting_for": []})
    state.ready = False
    assert (await ask(url, "/readyz"))[0] == 503


async def test_metrics(url):
    async with aiohttp.ClientSession() as session, session.get(url + "/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        assert await answer.read() == b"# HELP x y\n"


async def test_services(url):
    status, body, headers = await ask(url, "/services")
    assert (status, body) == (200, {"services": [{"service": "a.B"}]})
    assert headers["Content-Type"] == "application/json"
    assert headers["Cache-Control"] == "no-store"
    key = "gray/a.B:1.0.0"
    assert (await ask(url, f"/services/{key}"))[:2] == (
        200,
        {"service": key, "limit": admin.MAX_SHOWN},
    )
    assert (await ask(url, "/services/a.B?limit=7"))[1]["limit"] == 7
    assert (await ask(url, "/services/a.C"))[0] == 404
    for limit in ("x", "-1", "99999999", "1.5"):
        assert (await ask(url, f"/services/a.B?limit={limit}"))[0] == 400


async def test_registries_and_rules(url):
    assert (await ask(url, "/registries"))[:2] == (200, {"registries": [{"name": "main"}]})
    assert (await ask(url, "/rules"))[:2] == (200, {"rules": [{"name": "greeter.tag-router"}]})


async def test_explain(url):
    status, body, _ = await ask(
        url, "/explain?service=a.B&method=m&attachment=dubbo.tag%3Dgray&attachment=k%3Da%3Db"
    )
    assert status == 200
    assert body["attachments"] == {"dubbo.tag": "gray", "k": "a=b"}
    assert (await ask(url, "/explain?service=a.C"))[0] == 404
    assert (await ask(url, "/explain"))[0] == 400
    assert (await ask(url, "/explain?service=a.B&attachment=x"))[0] == 400
    assert (await ask(url, "/explain?service=a.B&protocol=triple"))[1]["protocol"] == "triple"
    assert (await ask(url, "/explain?service=a.B&protocol=tri"))[0] == 400
    assert (await ask(url, "/explain?service=a.B&attachment=%3Dx"))[0] == 400


async def test_fc_74_drain_is_a_post_from_this_machine(url, state):
    assert (await ask(url, "/drain", "POST"))[:2] == (202, {"draining": True})
    status, _, headers = await ask(url, "/drain")
    assert (status, headers["Allow"]) == (405, "POST")
    assert (await ask(url, "/drain", "POST", headers={"Host": "evil.example"}))[0] == 403
    assert (await ask(url, "/drain", "POST", headers={"Origin": "http://127.0.0.1"}))[0] == 403
    assert state.drained == 1


async def test_other_methods_and_paths(url):
    status, body, headers = await ask(url, "/services", "POST")
    assert (status, body, headers["Allow"]) == (405, {"error": "405 Method Not Allowed"}, "GET")
    assert (await ask(url, "/"))[:2] == (404, {"error": "404 Not Found"})


async def test_a_fault_is_answered_without_its_detail(url, caplog):
    status, body, _ = await ask(url, "/services/broken")
    assert (status, body) == (500, {"error": "internal error; see the log"})
    assert "secret detail" in caplog.text


async def raw(url, data):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(data)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await writer.wait_closed()
    return answer


async def test_large_lines_and_headers_are_refused(url):
    close = b"Connection: close\r\n\r\n"
    line = b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n" + close
    header = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 20_000 + b"\r\n" + close
    assert (await raw(url, line)).startswith(b"HTTP/1.0 400")
    assert (await raw(url, header)).startswith(b"HTTP/1.0 400")
    assert (await raw(url, b"\xda\xbb\xc2\x00" + b"\x00" * 12)).startswith(b"HTTP/1.0 400")
    assert (await ask(url, "/livez"))[0] == 200


@pytest.mark.parametrize(
    "junk",
    [
        b"GET * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\xff\r\n\r\n",
        b"\x16\x03\x01\x00\xa5",
    ],
)
async def test_what_is_not_http_leaves_no_traceback_in_the_log(url, junk, caplog):
    assert (await raw(url, junk)).startswith(b"HTTP/1.0 400")
    assert caplog.records == []


async def test_fc_74_idle_connections_are_capped_and_expire(url, monkeypatch):
    monkeypatch.setattr(admin, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(admin, "FIRST_REQUEST", 0.3)
    port = int(url.rpartition(":")[2])
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
    await asyncio.sleep(0.05)
    assert (await ask(url, "/livez"))[0] == 200
    oldest, *idle = idle
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(oldest[0].read(), 0.2) == b""
    oldest[1].close()
    with contextlib.suppress(ConnectionResetError):
        await oldest[1].wait_closed()
    for reader, writer in idle:
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        await writer.wait_closed()
    assert (await ask(url, "/livez"))[0] == 200


async def test_a_body_that_never_comes_costs_no_slot(url, monkeypatch):
    monkeypatch.setattr(admin, "MAX_CONNECTIONS", 4)
    request = b"POST /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
    for _ in range(8):
        assert (await raw(url, request)).startswith(b"HTTP/1.1 405")
    assert (await ask(url, "/livez"))[0] == 200


async def test_a_used_connection_stays_open(url, monkeypatch):
    monkeypatch.setattr(admin, "FIRST_REQUEST", 0.1)
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.get(url + "/livez") as answer:
                assert json.loads(await answer.text()) == {"alive": True}
            await asyncio.sleep(0.2)


async def test_an_address_in_use_is_an_error(url):
    other = AdminServer(State())
    with pytest.raises(OSError, match="in use"):
        await other.start("127.0.0.1", int(url.rpartition(":")[2]))
    await other.stop()
