"""The plainest HTTP/2 server over nghttp2: ``python -m tests.e2e.plain_http2 PORT``.

It answers every request with one byte, when the whole of it is there, and has no rules of its own:
what h2spec finds in it is nghttp2's.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

import ngh2

PAUSE = 0.05
"""Seconds from a request to its answer: what else a peer has sent by then comes first."""


class PlainServer(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._session = ngh2.Connection(ngh2.Role.SERVER, ngh2.Configuration())
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._session.initiate_connection({})
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            self._session.receive_data(data)
            self._answer()
        except ngh2.NGH2Error:
            self._transport.close()
            return
        self._flush()
        if not (self._session.want_read or self._session.want_write):
            self._transport.close()

    def _answer(self) -> None:
        for event in self._session.events():
            if getattr(event, "end_stream", isinstance(event, ngh2.TrailersReceived)):
                asyncio.get_running_loop().call_later(PAUSE, self._respond, event.stream_id)

    def _respond(self, stream_id: int) -> None:
        with contextlib.suppress(ngh2.NGH2Error):  # the stream or the connection may be over
            self._session.send_response(stream_id, [(b":status", b"200")])
            self._session.send_data(stream_id, b"x", end_stream=True)
            self._flush()

    def _flush(self) -> None:
        while output := self._session.data_to_send():
            self._transport.write(output)


async def serve(port: int) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(PlainServer, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
