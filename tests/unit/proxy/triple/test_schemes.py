"""What a provider is told of how it is called, and what is never passed on."""

from __future__ import annotations

from typing import Any

from sidecar.settings.schema import Listener
from tests.fixtures.http2_ends import ProviderEnd, Stream
from tests.fixtures.triple_rig import SERVICE, Rig


def open_over_tls(rig: Rig) -> ProviderEnd:
    """Let the attempt to connect succeed, with a transport that is a TLS one."""
    endpoint = rig.connects.pop()
    link = rig.engine._make_link(endpoint)
    made: Any = link.connection_made

    def connection_made(transport: Any) -> None:
        transport.sslcontext = object()
        made(transport)

    class Protocol:
        def __getattr__(self, name: str) -> Any:
            return connection_made if name == "connection_made" else getattr(link, name)

    provider = ProviderEnd(Protocol(), endpoint.port, {})
    rig.ends.append(provider)
    endpoint.connected(link, rig.loop.now)
    rig.settle()
    return provider


def test_a_provider_in_tls_is_called_by_https():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    consumer.ask()
    rig.settle()
    stream = open_over_tls(rig).request()
    assert stream.head[:4] == (
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":path", b"/com.x.Demo/hi"),
        (b":authority", b"127.0.0.1:50051"),
    )


def test_a_provider_without_tls_is_called_as_the_consumer_says():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer()
    consumer.ask()
    rig.settle()
    assert (b":scheme", b"http") in rig.open().request().head


def test_no_tunnel_is_opened():
    rig = Rig()
    rig.publish(20880)
    consumer = rig.consumer(Listener(protocol="triple", default_service=SERVICE))
    headers = [(b":method", b"CONNECT"), (b":authority", b"192.0.2.1:443")]
    asked = Stream(consumer.connection.send_request(headers))
    consumer.streams[asked.id] = asked
    rig.settle()
    assert asked.http_status == 404
    assert rig.connects == []
