"""Real Triple peers of Dubbo for Python, each a process of its own.

    python -m tests.e2e.dubbo_python server PORT NAME [ZOOKEEPER]
    python -m tests.e2e.dubbo_python client ADDRESS CASE...

The server prints ``ready`` and serves until it is killed. The client runs each case and prints one
JSON object: for each case ``good`` or what went wrong.
"""

from __future__ import annotations

import json
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dubbo
import pytest
from dubbo.classes import EOF
from dubbo.configs import ReferenceConfig, RegistryConfig, ServiceConfig
from dubbo.proxy.handlers import RpcMethodHandler, RpcServiceHandler

SERVICE = "org.example.peer.PythonGreeter"
LARGE = 1_000_000


def greet(name: str) -> Any:
    """Answer with the server's name, so that a caller knows who it was."""

    def hello(request: bytes) -> bytes:
        return b"hello " + request + b" from " + name.encode()

    return hello


def echo(request: bytes) -> bytes:
    """Answer with the request."""
    return request


def fail(request: bytes) -> bytes:
    """Fail with the request as the reason."""
    raise ValueError(request.decode())


def count(stream: Any) -> Any:
    """One request, as many responses as it says."""
    for number in range(int(stream.read())):
        yield str(number).encode()


def gather(stream: Any) -> bytes:
    """Many requests, one response."""
    return b",".join(stream)


def chat(stream: Any) -> Any:
    """A response for each request."""
    for request in stream:
        yield b"re: " + request


def serve(port: int, name: str, zookeeper: str) -> None:
    """Serve, in ZooKeeper when one is given."""
    methods = [
        RpcMethodHandler.unary(greet(name), "hello"),
        RpcMethodHandler.unary(echo, "echo"),
        RpcMethodHandler.unary(fail, "fail"),
        RpcMethodHandler.server_stream(count, "count"),
        RpcMethodHandler.client_stream(gather, "gather"),
        RpcMethodHandler.bi_stream(chat, "chat"),
    ]
    service = ServiceConfig(RpcServiceHandler(SERVICE, methods), host="127.0.0.1", port=port)
    registry = RegistryConfig.from_url(zookeeper) if zookeeper else None
    bootstrap = dubbo.Dubbo(registry_config=registry)
    bootstrap.create_server(service).start()
    print("ready", flush=True)
    signal.pause()


class Cases:
    """What a client does; each fails by an assertion."""

    def __init__(self, address: str) -> None:
        reference = ReferenceConfig.from_url(f"tri://{address}/{SERVICE}")
        self._client = dubbo.Dubbo().create_client(reference)

    def unary(self) -> None:
        answer = self._client.unary("hello")(b"bob")
        assert answer.startswith(b"hello bob from "), answer

    def large(self) -> None:
        request = bytes(range(250)) * (LARGE // 250)
        assert self._client.unary("echo")(request) == request

    def failure(self) -> None:
        with pytest.raises(Exception, match="no tea"):
            self._client.unary("fail")(b"no tea")

    def server_stream(self) -> None:
        answers = list(self._client.server_stream("count")(b"5"))
        assert answers == [b"0", b"1", b"2", b"3", b"4"], answers

    def client_stream(self) -> None:
        stream = self._client.client_stream("gather")()
        for word in (b"a", b"b", b"c"):
            stream.write(word)
        stream.done_writing()
        assert stream.read() == b"a,b,c"

    def bi_stream(self) -> None:
        stream = self._client.bi_stream("chat")()
        for word in (b"a", b"b"):
            stream.write(word)
            answer = stream.read()
            assert answer == b"re: " + word, answer
        stream.done_writing()
        assert stream.read() is EOF

    def parallel(self) -> None:
        call = self._client.unary("hello")
        with ThreadPoolExecutor(8) as pool:
            words = [str(number).encode() for number in range(200)]
            for word, answer in zip(words, pool.map(call, words), strict=True):
                assert answer.startswith(b"hello " + word + b" from "), answer


CASES = tuple(name for name in vars(Cases) if not name.startswith("_"))


def run(cases: Cases, name: str) -> str:
    """Run one case and tell how it went."""
    try:
        getattr(cases, name)()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "good"


def main() -> None:
    """Be what the arguments say."""
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]), sys.argv[3], "".join(sys.argv[4:]))
    else:
        cases = Cases(sys.argv[2])
        print(json.dumps({name: run(cases, name) for name in sys.argv[3:]}), flush=True)


if __name__ == "__main__":
    main()
