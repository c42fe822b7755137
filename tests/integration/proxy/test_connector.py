"""Connections to providers in TLS."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

import pytest

from sidecar.model.errors import SidecarError
from sidecar.proxy import tls
from sidecar.proxy.connector import Connector
from sidecar.proxy.plane import DataPlane
from sidecar.proxy.tls import HTTP2, ProviderTls
from sidecar.settings.schema import Settings, Timeouts, Upstream, UpstreamTls
from sidecar.settings.units import Duration
from sidecar.telemetry.counters import Counters
from tests.fixtures.dubbo_peer import eventually
from tests.fixtures.services import Services

UNKNOWN = "TLS: the certificate is refused: unable to get local issuer certificate"
NO_HTTP2 = "TLS: the provider does not agree to h2 by ALPN"
HOST = "127.0.0.1"


class Link(asyncio.Protocol):
    """Stands for a provider connection."""

    is_closed = False
    transport = None

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, error):
        self.is_closed = True

    async def greeted(self):
        return "closed at once" if self.is_closed else ""

    def abort(self):
        self.is_closed = True
        if self.transport is not None:
            self.transport.abort()


class Endpoint:
    """An address that waits for its connection."""

    def __init__(self, port, is_tls=True, host=HOST):
        self.host = host
        self.port = port
        self.address = f"{host}:{port}"
        self.is_tls = is_tls
        self.link = None
        self.why = asyncio.get_running_loop().create_future()

    def connected(self, link, now):
        self.link = link
        self.why.set_result("")

    def connect_failed(self, why, now):
        self.why.set_result(why)


class Outcome(NamedTuple):
    why: str
    protocol: str | None = None
    name: str | None = None


class Provider(asyncio.Protocol):
    """Says nothing; knows what the handshake told."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        pass


class Bench:
    """Starts providers and dials them."""

    def __init__(self):
        self.counters = Counters()
        self.loop = asyncio.get_running_loop()
        self.servers = []
        self.providers = []
        self.names = []
        self.connectors = []

    def _provider(self):
        self.providers.append(Provider())
        return self.providers[-1]

    async def serve(self, context):
        if context is not None:
            context.sni_callback = lambda _object, name, _context: self.names.append(name)
        server = await self.loop.create_server(self._provider, HOST, 0, ssl=context)
        self.servers.append(server)
        return server.sockets[0].getsockname()[1]

    async def dial(self, endpoint, settings, protocol="", limit=3.0):
        links = []

        def make_link(_endpoint):
            links.append(Link())
            return links[-1]

        connector = Connector(
            self.loop, make_link, limit, time.monotonic, self.counters,
            ProviderTls(settings, protocol),
        )  # fmt: skip
        self.connectors.append(connector)
        connector.start(endpoint)
        why = await endpoint.why
        if why:
            await eventually(lambda: links[0].transport is None or links[0].is_closed)
            return Outcome(why)
        secured = endpoint.link.transport.get_extra_info("ssl_object")
        agreed = None if secured is None else secured.selected_alpn_protocol()
        await eventually(lambda: self.providers)
        names = self.names or [None]
        endpoint.link.transport.abort()
        return Outcome("", agreed, names[-1])

    async def end(self):
        for connector in self.connectors:
            await connector.stop()
        for server in self.servers:
            server.close()
        for provider in self.providers:
            if hasattr(provider, "transport"):
                provider.transport.abort()
        await asyncio.sleep(0.01)


@pytest.fixture
async def bench():
    bench = Bench()
    yield bench
    await bench.end()


@pytest.mark.parametrize(
    ("mode", "is_registered", "is_tls"),
    [
        ("registered", True, True), ("registered", False, False), ("always", False, True),
        ("never", True, False),
    ],
)  # fmt: skip
async def test_who_is_called_in_tls(bench, certificates, mode, is_registered, is_tls):
    port = await bench.serve(certificates.server_context() if is_tls else None)
    settings = UpstreamTls(mode=mode, ca=certificates.authority)
    outcome = await bench.dial(Endpoint(port, is_registered), settings)
    assert outcome.why == ""
    assert len(bench.providers) == 1


@pytest.mark.parametrize("wanted", ["", HTTP2])
@pytest.mark.parametrize("offered", [(), ("h2",), ("http/1.1",), ("http/1.1", "h2")])
async def test_alpn(bench, certificates, wanted, offered):
    port = await bench.serve(certificates.server_context(*offered))
    settings = UpstreamTls(ca=certificates.authority)
    outcome = await bench.dial(Endpoint(port), settings, wanted)
    if wanted and wanted not in offered:
        assert outcome.why == NO_HTTP2
    else:
        assert (outcome.why, outcome.protocol) == ("", wanted or None)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, UNKNOWN),
        ({"ca": "other_authority"}, UNKNOWN),
        ({"ca": "authority"}, ""),
        ({"verify": False}, ""),
        (
            {"ca": "authority", "server_name": "elsewhere.example"},
            "TLS: the certificate is refused: Hostname mismatch, certificate is not valid for"
            " 'elsewhere.example'",
        ),
        ({"verify": False, "server_name": "elsewhere.example"}, ""),
    ],
)
async def test_who_is_trusted(bench, certificates, settings, why):
    port = await bench.serve(certificates.server_context())
    words = dict(settings)
    if "ca" in words:
        words["ca"] = getattr(certificates, words["ca"])
    outcome = await bench.dial(Endpoint(port), UpstreamTls(**words))
    assert outcome.why == why
    assert bench.counters.named.get(("sidecar_connect_failures_total", ""), 0) == bool(why)


async def test_a_name_that_the_certificate_has(bench, certificates):
    context = certificates.server_context(pair=certificates.elsewhere)
    port = await bench.serve(context)
    settings = UpstreamTls(ca=certificates.authority, server_name="elsewhere.example")
    assert await bench.dial(Endpoint(port), settings) == Outcome("", None, "elsewhere.example")
    without = UpstreamTls(ca=certificates.authority)
    outcome = await bench.dial(Endpoint(port), without)
    assert outcome.why == (
        "TLS: the certificate is refused: IP address mismatch, certificate is not valid for"
        " '127.0.0.1'"
    )


async def test_a_host_name_is_what_the_certificate_must_have(bench, certificates):
    port = await bench.serve(certificates.server_context())
    settings = UpstreamTls(ca=certificates.authority)
    outcome = await bench.dial(Endpoint(port, host="localhost"), settings)
    assert outcome == Outcome("", None, "localhost")


async def test_own_certificate(bench, certificates):
    context = certificates.server_context()
    context.verify_mode = 2
    context.load_verify_locations(certificates.authority)
    port = await bench.serve(context)
    chain, key = certificates.client
    settings = UpstreamTls(ca=certificates.authority, certificate=chain, key=key)
    assert (await bench.dial(Endpoint(port), settings)).why == ""
    transport = bench.providers[0].transport
    assert transport.get_extra_info("peercert")["subject"] == ((("commonName", "client"),),)


async def test_a_provider_that_speaks_no_tls(bench, certificates):
    class Plain(Provider):
        def data_received(self, data):
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    server = await bench.loop.create_server(Plain, HOST, 0)
    bench.servers.append(server)
    settings = UpstreamTls(ca=certificates.authority)
    endpoint = Endpoint(server.sockets[0].getsockname()[1])
    assert (await bench.dial(endpoint, settings)).why == "TLS: wrong version number"


async def test_a_provider_that_is_silent(bench, certificates):
    port = await bench.serve(None)
    settings = UpstreamTls(ca=certificates.authority)
    assert (await bench.dial(Endpoint(port), settings, limit=0.1)).why == "timed out"
    await eventually(lambda: bench.providers[0].transport.is_closing())


async def test_the_authorities_of_the_system_are_loaded_once_and_when_they_are_needed(
    bench, certificates, monkeypatch
):
    made = []

    def make(settings, protocol):
        made.append(protocol)
        return certificates.client_context()

    monkeypatch.setattr(tls, "upstream_context", make)
    port = await bench.serve(certificates.server_context())
    provider_tls = ProviderTls(UpstreamTls(), "x")
    assert made == []
    contexts = await asyncio.gather(*[provider_tls.context(bench.loop) for _ in range(3)])
    assert made == ["x"]
    assert contexts[0] is contexts[2]
    assert (await bench.dial(Endpoint(port), UpstreamTls())).why == ""


async def test_a_file_that_cannot_be_used_is_told_at_the_start(tmp_path):
    path = str(tmp_path / "none")
    settings = Settings(upstream=Upstream(tls=UpstreamTls(ca=path)))
    counters = Counters()
    directory = Services(settings, counters).directory
    with pytest.raises(SidecarError) as caught:
        DataPlane(settings, directory, None, counters, asyncio.get_running_loop())
    expected = f"cannot call providers in TLS: {path}: No such file or directory"
    assert str(caught.value) == expected
    ProviderTls(UpstreamTls(ca=path, mode="never"), "")


async def test_dubbo_calls_in_tls(worlds, certificates):
    upstream = Upstream(tls=UpstreamTls(ca=certificates.authority))
    world = await worlds(upstream=upstream, timeouts=Timeouts(connect=Duration(3.0)))
    secure = await world.provider("secure", context=certificates.server_context())
    world.services.publish(secure.port, parameters={"ssl-enabled": "true"})
    consumer = await world.consumer()
    for _ in range(3):
        assert (await consumer.call()).value == "secure"
    assert len(secure.links) == 1
    await world.settled()


async def test_a_provider_that_is_not_trusted_gets_no_call(worlds, certificates):
    upstream = Upstream(tls=UpstreamTls(ca=certificates.other_authority, mode="always"))
    world = await worlds(upstream=upstream)
    provider = await world.provider(context=certificates.server_context())
    consumer = await world.serve(provider)
    refused = await consumer.call()
    assert refused.status == 80
    assert world.plane.connect_error(provider.address) == UNKNOWN
    assert provider.calls == []
