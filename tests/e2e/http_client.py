"""A blocking HTTP client of either version, for calls without any Dubbo in them."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h2.config
import h2.connection
import h2.events

HOST = "127.0.0.1"
LIMIT = 10.0
RECEIVE = 64 * 1024


@dataclass(frozen=True)
class Answer:
    """A complete answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def events(self) -> list[str]:
        """The data of each event of an event stream."""
        lines = self.body.decode().splitlines()
        return [line.removeprefix("data:") for line in lines if line.startswith("data:")]


Fetch = Callable[..., Answer]
"""From port, HTTP method, path, body and headers."""


def fetch_http1(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
    """Make one request over HTTP/1.1."""
    connection = http.client.HTTPConnection(HOST, port, timeout=LIMIT)
    try:
        connection.request(method, path, body or None, _names(headers))
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, names, answer.read())
    finally:
        connection.close()


def fetch_http2(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
    """Make one request over HTTP/2 with prior knowledge."""
    engine = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    with socket.create_connection((HOST, port), LIMIT) as transport:
        engine.initiate_connection()
        pseudo = {":method": method, ":path": path, ":scheme": "http", ":authority": HOST}
        stream = engine.get_next_available_stream_id()
        engine.send_headers(stream, list({**pseudo, **_names(headers)}.items()), not body)
        return _exchange(engine, transport, stream, body)


def _exchange(
    engine: h2.connection.H2Connection, transport: socket.socket, stream: int, body: bytes
) -> Answer:
    names: dict[str, str] = {}
    content = b""
    while True:
        while body and (window := engine.local_flow_control_window(stream)):
            chunk = body[: min(window, engine.max_outbound_frame_size)]
            body = body[len(chunk) :]
            engine.send_data(stream, chunk, end_stream=not body)
        transport.sendall(engine.data_to_send())
        for event in engine.receive_data(transport.recv(RECEIVE)):
            if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                names.update(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                content += event.data
                engine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                return Answer(int(names.pop(":status")), names, content)
            elif isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                raise ConnectionError(f"no answer: {event}")


def _names(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", ".").replace("_", "-"): value for name, value in headers.items()}
