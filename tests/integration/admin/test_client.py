import asyncio

import pytest

from sidecar.admin.client import ask
from sidecar.model.errors import SidecarError


async def answer_once(response):
    """Serve one answer to whatever is asked; returns the URL."""

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/explain?service=a.B"


def response(status, body):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


async def asked(answer):
    server, url = await answer_once(answer)
    async with server:
        return await asyncio.to_thread(ask, url)


async def test_a_json_answer(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert await asked(response("200 OK", '{"a": 1}')) == {"a": 1}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (response("404 Not Found", '{"error": "a.B is not watched"}'), "answered 404: a.B is not"),
        (response("500 Oops", "{}"), "answered 500: Oops"),
        (response("200 OK", "<html>"), "not JSON"),
        (response("200 OK", "[]"), "not JSON"),
        (response("502 Bad", "<html>"), "not JSON"),
    ],
)
async def test_other_answers_are_a_sentence(answer, words):
    with pytest.raises(SidecarError, match=words):
        await asked(answer)


def test_no_answer_is_a_sentence():
    with pytest.raises(
        SidecarError, match=r"no sidecar answers at http://127\.0\.0\.1:1/x: .*refused"
    ):
        ask("http://127.0.0.1:1/x?y=z")
    with pytest.raises(SidecarError, match="starts with http"):
        ask("file:///etc/passwd")
