"""A real gRPC server in a process of its own: ``python -m tests.e2e.interop_server KIND OPTIONS``.

It serves the interop test service with the synchronous or the asyncio server of grpcio, beside it
health checking and reflection, and tells what it saw of a call. It prints ``ready`` when it serves
and ends in order at SIGTERM: it says goodbye to its clients and finishes the calls it has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from tests.e2e.interop import (
    ECHO_INITIAL,
    ECHO_TRAILING,
    FACTS,
    MARK,
    METHODS,
    SERVICE,
    Empty,
    InputResponse,
    OutputResponse,
    SimpleResponse,
    message,
    payload,
)

GRACE = 10.0
"""Seconds that a stopping server leaves its calls."""

THREADS = 64

NOTICE = 0.1
"""Seconds until a server knows that requests ended because the client cancelled; grpcio may end
them as if there were no more."""

METADATA_LIMIT = 64 * 1024
SETTINGS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.max_metadata_size", METADATA_LIMIT),
    ("grpc.absolute_max_metadata_size", METADATA_LIMIT),
)
STATUS_DETAILS = "grpc-status-details-bin"


class Facts:
    """What the server saw of each marked call."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, Any]] = {}

    def begin(self, method: str, context: Any) -> dict[str, Any]:
        """Write a call down; ``state`` of the result is ``active`` until somebody changes it."""
        metadata = [
            (key, value if isinstance(value, str) else value.hex())
            for key, value in context.invocation_metadata()
        ]
        call = {
            "method": method,
            "metadata": metadata,
            "remaining": context.time_remaining(),
            "state": "active",
            "peer": context.peer(),
        }
        self._calls[dict(metadata).get(MARK, "")] = call
        return call

    def tell(self, request: bytes, _: Any) -> bytes:
        """Answer with the call of a mark, as JSON; an unknown mark gives an empty object."""
        return json.dumps(self._calls.get(request.decode(), {})).encode()


def is_marked(context: Any) -> bool:
    """Whether somebody will ask for an account of the call."""
    return any(key == MARK for key, _ in context.invocation_metadata())


def echoed(context: Any) -> tuple[Any, Any]:
    """Return the initial and trailing metadata that the client wants back."""
    metadata = list(context.invocation_metadata())
    initial = tuple((key, value) for key, value in metadata if key == ECHO_INITIAL)
    trailing = tuple((key, value) for key, value in metadata if key == ECHO_TRAILING)
    return initial, trailing


def compression_of(request: Any) -> grpc.Compression:
    """Which compression the request asks for."""
    wants = request.response_compressed.value
    return grpc.Compression.Gzip if wants else grpc.Compression.NoCompression


def finish(call: dict[str, Any], context: Any, request: Any = None) -> None:
    """A handler is at its end: answer with the status that the request asks for.

    Its details are the same once more: the fields of ``google.rpc.Status`` have these numbers.
    """
    if call["state"] == "active":
        call["state"] = "over"
    if request is not None and request.response_status.code:
        status = request.response_status
        context.set_code(next(each for each in grpc.StatusCode if each.value[0] == status.code))
        context.set_details(status.message)
        _, trailing = echoed(context)
        context.set_trailing_metadata((*trailing, (STATUS_DETAILS, status.SerializeToString())))


class SyncService:
    """The test service for the threads of a synchronous server."""

    def __init__(self, name: str, facts: Facts) -> None:
        self._name = name
        self._facts = facts

    def _begin(self, method: str, context: Any) -> dict[str, Any]:
        call = self._facts.begin(method, context)

        def end() -> None:
            if call["state"] == "active":
                call["state"] = "cancelled"

        context.add_callback(end)
        initial, trailing = echoed(context)
        if initial:
            context.send_initial_metadata(initial)
        context.set_trailing_metadata(trailing)
        return call

    def _responses(self, request: Any) -> Iterator[Any]:
        for each in request.response_parameters:
            time.sleep(each.interval_us / 1e6)
            yield OutputResponse(payload=payload(each.size))

    def empty_call(self, _: Any, context: Any) -> Any:
        finish(self._begin("EmptyCall", context), context)
        return Empty()

    def unary_call(self, request: Any, context: Any) -> Any:
        context.set_compression(compression_of(request))
        call = self._begin("UnaryCall", context)
        finish(call, context, request)
        return SimpleResponse(payload=payload(request.response_size), hostname=self._name)

    def streaming_output_call(self, request: Any, context: Any) -> Iterator[Any]:
        call = self._begin("StreamingOutputCall", context)
        yield from self._responses(request)
        finish(call, context, request)

    def streaming_input_call(self, requests: Iterator[Any], context: Any) -> Any:
        call = self._begin("StreamingInputCall", context)
        total = sum(len(request.payload.body) for request in requests)
        if is_marked(context):
            time.sleep(NOTICE)
        finish(call, context)
        return InputResponse(aggregated_payload_size=total)

    def full_duplex_call(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        call = self._begin("FullDuplexCall", context)
        for request in requests:
            if request.response_status.code:
                finish(call, context, request)
                return
            yield from self._responses(request)
        finish(call, context)


class AioService:
    """The test service for the event loop of an asyncio server."""

    def __init__(self, name: str, facts: Facts) -> None:
        self._name = name
        self._facts = facts

    async def _begin(self, method: str, context: Any) -> dict[str, Any]:
        call = self._facts.begin(method, context)

        def end(_: Any) -> None:
            if call["state"] == "active":
                call["state"] = "cancelled"

        context.add_done_callback(end)
        initial, trailing = echoed(context)
        if initial:
            await context.send_initial_metadata(initial)
        context.set_trailing_metadata(trailing)
        return call

    async def _responses(self, request: Any) -> AsyncIterator[Any]:
        for each in request.response_parameters:
            await asyncio.sleep(each.interval_us / 1e6)
            yield OutputResponse(payload=payload(each.size))

    async def empty_call(self, _: Any, context: Any) -> Any:
        finish(await self._begin("EmptyCall", context), context)
        return Empty()

    async def unary_call(self, request: Any, context: Any) -> Any:
        context.set_compression(compression_of(request))
        call = await self._begin("UnaryCall", context)
        finish(call, context, request)
        return SimpleResponse(payload=payload(request.response_size), hostname=self._name)

    async def streaming_output_call(self, request: Any, context: Any) -> AsyncIterator[Any]:
        call = await self._begin("StreamingOutputCall", context)
        async for response in self._responses(request):
            yield response
        finish(call, context, request)

    async def streaming_input_call(self, requests: AsyncIterator[Any], context: Any) -> Any:
        call = await self._begin("StreamingInputCall", context)
        total = 0
        async for request in requests:
            total += len(request.payload.body)
        if is_marked(context):
            await asyncio.sleep(NOTICE)
        finish(call, context)
        return InputResponse(aggregated_payload_size=total)

    async def full_duplex_call(
        self, requests: AsyncIterator[Any], context: Any
    ) -> AsyncIterator[Any]:
        call = await self._begin("FullDuplexCall", context)
        async for request in requests:
            if request.response_status.code:
                finish(call, context, request)
                return
            async for response in self._responses(request):
                yield response
        finish(call, context)


def handlers(service: object, facts: Facts) -> list[grpc.GenericRpcHandler]:
    """Describe the service's methods, and the account of them, to grpcio."""
    methods = {}
    for name, (kind, request, response) in METHODS.items():
        behaviour = getattr(service, re.sub("(?<!^)(?=[A-Z])", "_", name).lower(), None)
        if behaviour is not None:
            methods[name] = getattr(grpc, f"{kind}_rpc_method_handler")(
                behaviour,
                request_deserializer=message(request).FromString,
                response_serializer=message(response).SerializeToString,
            )
    _, name, method = FACTS.split("/")
    account = {method: grpc.unary_unary_rpc_method_handler(facts.tell)}
    return [
        grpc.method_handlers_generic_handler(SERVICE, methods),
        grpc.method_handlers_generic_handler(name, account),
    ]


def furnish(server: Any, servicer: Any, options: argparse.Namespace) -> None:
    """Add health checking, reflection and the addresses to a server."""
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    reflection.enable_server_reflection([SERVICE, reflection.SERVICE_NAME], server)
    for address in options.listen:
        if options.certificate:
            pair = (Path(options.key).read_bytes(), Path(options.certificate).read_bytes())
            server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        else:
            server.add_insecure_port(address)


def serve_sync(options: argparse.Namespace) -> None:
    """Serve with threads until SIGTERM."""
    facts, ended = Facts(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server = grpc.server(ThreadPoolExecutor(THREADS), options=SETTINGS)
    server.add_generic_rpc_handlers(handlers(SyncService(options.name, facts), facts))
    servicer = health.HealthServicer()
    for service in ("", SERVICE):
        servicer.set(service, health_pb2.HealthCheckResponse.SERVING)
    furnish(server, servicer, options)
    server.start()
    print("ready", flush=True)
    ended.wait()
    server.stop(GRACE).wait()


async def serve_aio(options: argparse.Namespace) -> None:
    """Serve with an event loop until SIGTERM."""
    facts, ended = Facts(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    server = grpc.aio.server(options=SETTINGS)
    server.add_generic_rpc_handlers(handlers(AioService(options.name, facts), facts))
    servicer = health.aio.HealthServicer()
    for service in ("", SERVICE):
        await servicer.set(service, health_pb2.HealthCheckResponse.SERVING)
    furnish(server, servicer, options)
    await server.start()
    print("ready", flush=True)
    await ended.wait()
    await server.stop(GRACE)


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("sync", "aio"))
    parser.add_argument("--name", default="")
    parser.add_argument("--listen", action="append", required=True)
    parser.add_argument("--certificate", default="")
    parser.add_argument("--key", default="")
    options = parser.parse_args()
    if options.kind == "sync":
        serve_sync(options)
    else:
        asyncio.run(serve_aio(options))


if __name__ == "__main__":
    main()
