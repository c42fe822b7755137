"""The plainest HTTP/2 server over nghttp2: ``python -m tests.e2e.plain_http2 PORT``.

It answers every request with one byte, when the whole of it is there, and has no rules of its own:
what h2spec finds in it is nghttp2's.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

import ngh2


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
            ended = getattr(event, "end_stream", None) or getattr(event, "stream_ended", None)
            if ended or isinstance(event, ngh2.TrailersReceived):
                # A reset in the same segment has ended the stream already.
                with contextlib.suppress(ngh2.StreamUnavailableError):
                    self._session.send_response(event.stream_id, [(b":status", b"200")])
                    self._session.send_data(event.stream_id, b"x", end_stream=True)

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
