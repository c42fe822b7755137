"""A relay that moves HTTP/2 streams and decides nothing: the price of runtime and engine alone.

`python null_relay_http2.py LISTEN_PORT PROVIDER_PORT...`; one connection to each provider, shared
by all consumers, and streams take the providers in turn. Headers, data and trailers pass as they
come; there is no routing, deadline, retry or limit, and back-pressure is crude: while one side is
slow, nothing is read from the others it has streams with. What a proxy in this runtime adds is its
distance from this one.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvloop
from ngh2 import Connection, events
from ngh2.config import Configuration, Role
from ngh2.enums import Setting

STREAMS = 2**31 - 1  # no limit of its own
STREAM_WINDOW = 2**20
CONNECTION_WINDOW = 2**24
CONFIGURATION = Configuration(peer_max_concurrent_streams=STREAMS)
SETTINGS = {
    Setting.MAX_CONCURRENT_STREAMS: STREAMS,
    Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
}


class Flush:
    """The sides that have something to write in this loop turn."""

    def __init__(self) -> None:
        self.sides: list[Side] = []

    def add(self, side: Side) -> None:
        """Write for this side when everything that is ready was read."""
        if not self.sides:
            asyncio.get_running_loop().call_soon(self.run)
        self.sides.append(side)

    def run(self) -> None:
        """Write once for each side."""
        sides, self.sides = self.sides, []
        for side in sides:
            side.is_armed = False
            data = side.session.data_to_send()
            if data and not side.transport.is_closing():
                side.transport.write(data)


class Side(asyncio.Protocol):
    """One HTTP/2 connection; `peers` says where each of its streams goes on."""

    def __init__(self, role: Role, flush: Flush) -> None:
        self.session = Connection(role, CONFIGURATION)
        self.flush = flush
        self.is_armed = False
        self.transport: Any = None
        self.peers: dict[int, tuple[Side, int]] = {}
        self.waits_for: set[Side] = set()
        self.holds: set[Side] = set()
        self.handlers: dict[type, Callable[[Any], None]] = {
            events.DataReceived: self.data,
            events.TrailersReceived: self.trailers,
            events.StreamClosed: self.closed,
        }

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.session.initiate_connection(SETTINGS)
        self.session.set_local_window_size(CONNECTION_WINDOW)
        self.arm()

    def data_received(self, data: bytes) -> None:
        self.session.receive_data(data)
        for event in self.session.events():
            handler = self.handlers.get(type(event))
            if handler is not None:
                handler(event)
        self.arm()

    def pause_writing(self) -> None:
        self.holds = {peer for peer, _ in self.peers.values()}
        for peer in self.holds:
            peer.waits_for.add(self)
            peer.transport.pause_reading()

    def resume_writing(self) -> None:
        for peer in self.holds:
            peer.waits_for.discard(self)
            if not peer.waits_for and not peer.transport.is_closing():
                peer.transport.resume_reading()
        self.holds = set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        for peer, stream_id in self.peers.values():
            if peer.peers.pop(stream_id, None) is not None:
                peer.session.reset_stream(stream_id)
                peer.arm()

    def arm(self) -> None:
        """Write at the end of this turn."""
        if not self.is_armed:
            self.is_armed = True
            self.flush.add(self)

    def data(self, event: Any) -> None:
        """Pass data on."""
        found = self.peers.get(event.stream_id)
        if found is not None:
            peer, stream_id = found
            peer.session.send_data(stream_id, event.data, end_stream=event.end_stream)
            peer.arm()

    def trailers(self, event: Any) -> None:
        """Pass trailers on."""
        found = self.peers.get(event.stream_id)
        if found is not None:
            peer, stream_id = found
            peer.session.send_trailers(stream_id, event.headers)
            peer.arm()

    def closed(self, event: Any) -> None:
        """Forget a stream; one that was cut off is cut off on the other side too."""
        found = self.peers.pop(event.stream_id, None)
        if found is not None and event.error_code != 0:
            peer, stream_id = found
            if peer.peers.pop(stream_id, None) is not None:
                peer.session.reset_stream(stream_id, event.error_code)
                peer.arm()


class Upstream(Side):
    """A connection to a provider."""

    def __init__(self, flush: Flush) -> None:
        super().__init__(Role.CLIENT, flush)
        self.handlers[events.ResponseReceived] = self.response

    def response(self, event: Any) -> None:
        """Pass the head of a response on."""
        found = self.peers.get(event.stream_id)
        if found is not None:
            peer, stream_id = found
            peer.session.send_response(stream_id, event.headers, end_stream=event.end_stream)
            peer.arm()


class Downstream(Side):
    """A connection of a consumer."""

    def __init__(self, flush: Flush, providers: Iterator[Upstream]) -> None:
        super().__init__(Role.SERVER, flush)
        self.providers = providers
        self.handlers[events.RequestReceived] = self.request

    def request(self, event: Any) -> None:
        """Open a stream to the next provider for a request."""
        peer = next(self.providers)
        stream_id = peer.session.send_request(event.headers, end_stream=event.end_stream)
        self.peers[event.stream_id] = peer, stream_id
        peer.peers[stream_id] = self, event.stream_id
        peer.arm()


async def serve(port: int, providers: list[int]) -> None:
    """Relay until the process ends."""
    loop = asyncio.get_running_loop()
    flush = Flush()
    upstreams = [
        (await loop.create_connection(lambda: Upstream(flush), "127.0.0.1", provider))[1]
        for provider in providers
    ]
    turns = itertools.cycle(upstreams)
    server = await loop.create_server(lambda: Downstream(flush, turns), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), [int(word) for word in sys.argv[2:]]))
