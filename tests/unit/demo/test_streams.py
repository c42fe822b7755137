"""The sample service over HTTP/2, both ends in memory."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.demo.streams import GreeterClient, GreeterStreams, message, text_of


class Pipe:
    """What the provider writes is kept."""

    def __init__(self):
        self.written = b""
        self.is_closed = False

    def write(self, data):
        self.written += data

    def close(self):
        self.is_closed = True

    def take(self):
        data, self.written = self.written, b""
        return data


def test_a_message_holds_its_text():
    assert message("hi") == b"\0\0\0\0\4\x0a\2hi"
    assert text_of(message("hello")) == "hello"


async def test_greetings_come_back():
    told = []
    client = GreeterClient("greeter.example", lambda *each: told.append(each))
    pipe = Pipe()
    provider = GreeterStreams("a1")
    provider.connection_made(pipe)
    client.call("demo", "")
    client.call("demo", "gray")
    for _ in range(4):
        provider.data_received(client.take())
        client.feed(pipe.take())
        await asyncio.sleep(0)
    assert told == [(True, "Hello from a1")] * 2


async def test_what_is_no_http2_ends_the_connection():
    client = GreeterClient("greeter.example", lambda *_: None)
    client.take()
    client.feed(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
    client.take()  # says goodbye
    with pytest.raises(ConnectionResetError, match="broken"):
        client.feed(b"anything")
    pipe = Pipe()
    provider = GreeterStreams("a1")
    provider.connection_made(pipe)
    provider.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert pipe.is_closed
