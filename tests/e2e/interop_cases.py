"""The cases of gRPC's interop tests, for the synchronous and the asyncio client of grpcio.

Each case takes a `Stub` and fails by an assertion. The texts and numbers are those of the published
descriptions of the cases.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import grpc
import grpc.aio

from tests.e2e.interop import (
    ECHO_INITIAL,
    ECHO_TRAILING,
    UNIMPLEMENTED_SERVICE,
    EchoStatus,
    Empty,
    InputRequest,
    OutputRequest,
    SimpleRequest,
    Stub,
    output_request,
    payload,
)

LARGE_REQUEST, LARGE_RESPONSE = 271_828, 314_159
REQUESTS = (27_182, 8, 1_828, 45_904)
RESPONSES = (31_415, 9, 2_653, 58_979)
LIMIT = 20.0
"""Seconds for a call that must not hang."""

INITIAL, TRAILING = "test_initial_metadata_value", b"\xab\xab\xab"
METADATA = ((ECHO_INITIAL, INITIAL), (ECHO_TRAILING, TRAILING))
PLAIN_MESSAGE = "test status message"
SPECIAL_MESSAGE = "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n"
UNKNOWN = grpc.StatusCode.UNKNOWN


class Requests:
    """Requests of one streaming call, given one by one; ends at ``close``."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def put(self, request: Any) -> None:
        """Send one more request."""
        self._queue.put(request)

    def close(self) -> None:
        """No more requests follow."""
        self._queue.put(None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._queue.get, None)


def large_request() -> Any:
    return SimpleRequest(response_size=LARGE_RESPONSE, payload=payload(LARGE_REQUEST))


def bodies(responses: Any) -> list[int]:
    """The sizes of the payloads; every byte must be zero."""
    found = [response.payload.body for response in responses]
    assert not any(body.strip(b"\0") for body in found)
    return [len(body) for body in found]


def failed_with(status: int, message: str) -> tuple[Any, Any]:
    """A unary and a streaming request that the server answers with a status."""
    words = {"response_status": EchoStatus(code=status, message=message)}
    return SimpleRequest(**words), OutputRequest(**words)


def check_metadata(initial: Any, trailing: Any) -> None:
    assert dict(initial)[ECHO_INITIAL] == INITIAL
    assert dict(trailing)[ECHO_TRAILING] == TRAILING


class SyncCases:
    """The cases over a synchronous channel."""

    def empty_unary(self, stub: Stub) -> None:
        assert stub.call("EmptyCall", Empty(), timeout=LIMIT) == Empty()

    def large_unary(self, stub: Stub) -> None:
        assert bodies([stub.call("UnaryCall", large_request(), timeout=LIMIT)]) == [LARGE_RESPONSE]

    def client_streaming(self, stub: Stub) -> None:
        requests = (InputRequest(payload=payload(size)) for size in REQUESTS)
        response = stub.call("StreamingInputCall", requests, timeout=LIMIT)
        assert response.aggregated_payload_size == sum(REQUESTS)

    def server_streaming(self, stub: Stub) -> None:
        call = stub.call("StreamingOutputCall", output_request(*RESPONSES), timeout=LIMIT)
        assert bodies(call) == list(RESPONSES)

    def ping_pong(self, stub: Stub) -> None:
        requests = Requests()
        call = stub.call("FullDuplexCall", iter(requests), timeout=LIMIT)
        for sent, size in zip(REQUESTS, RESPONSES, strict=True):
            requests.put(output_request(size, sent=sent))
            assert bodies([next(call)]) == [size]
        requests.close()
        assert not list(call)

    def empty_stream(self, stub: Stub) -> None:
        assert not list(stub.call("FullDuplexCall", iter(()), timeout=LIMIT))

    def cancel_after_begin(self, stub: Stub) -> None:
        requests = Requests()
        call = stub.future("StreamingInputCall", iter(requests), timeout=LIMIT)
        call.cancel()
        assert call.code() == grpc.StatusCode.CANCELLED
        requests.close()

    def cancel_after_first_response(self, stub: Stub) -> None:
        requests = Requests()
        call = stub.call("FullDuplexCall", iter(requests), timeout=LIMIT)
        requests.put(output_request(RESPONSES[0], sent=REQUESTS[0]))
        assert bodies([next(call)]) == [RESPONSES[0]]
        call.cancel()
        assert call.code() == grpc.StatusCode.CANCELLED
        requests.close()

    def timeout_on_sleeping_server(self, stub: Stub) -> None:
        requests = Requests()
        requests.put(output_request(sent=REQUESTS[0]))
        call = stub.call("FullDuplexCall", iter(requests), timeout=0.001)
        assert call.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        requests.close()

    def custom_metadata(self, stub: Stub) -> None:
        call = stub.future("UnaryCall", large_request(), METADATA, timeout=LIMIT)
        assert bodies([call.result()]) == [LARGE_RESPONSE]
        check_metadata(call.initial_metadata(), call.trailing_metadata())
        requests = iter([output_request(RESPONSES[0])])
        stream = stub.call("FullDuplexCall", requests, METADATA, timeout=LIMIT)
        assert bodies(stream) == [RESPONSES[0]]
        check_metadata(stream.initial_metadata(), stream.trailing_metadata())

    def status_code_and_message(self, stub: Stub) -> None:
        self._check_status(stub, PLAIN_MESSAGE)

    def special_status_message(self, stub: Stub) -> None:
        self._check_status(stub, SPECIAL_MESSAGE)

    def _check_status(self, stub: Stub, message: str) -> None:
        unary, streaming = failed_with(UNKNOWN.value[0], message)
        call = stub.future("UnaryCall", unary, timeout=LIMIT)
        assert (call.code(), call.details()) == (UNKNOWN, message)
        stream = stub.call("FullDuplexCall", iter([streaming]), timeout=LIMIT)
        assert (stream.code(), stream.details()) == (UNKNOWN, message)

    def unimplemented_method(self, stub: Stub) -> None:
        call = stub.future("UnimplementedCall", Empty(), timeout=LIMIT)
        assert call.code() == grpc.StatusCode.UNIMPLEMENTED

    def unimplemented_service(self, stub: Stub) -> None:
        self.unimplemented_method(Stub(stub.channel, stub.metadata, UNIMPLEMENTED_SERVICE))


class AioCases:
    """The cases over an asyncio channel."""

    async def empty_unary(self, stub: Stub) -> None:
        assert await stub.call("EmptyCall", Empty(), timeout=LIMIT) == Empty()

    async def large_unary(self, stub: Stub) -> None:
        response = await stub.call("UnaryCall", large_request(), timeout=LIMIT)
        assert bodies([response]) == [LARGE_RESPONSE]

    async def client_streaming(self, stub: Stub) -> None:
        call = stub.call("StreamingInputCall", None, timeout=LIMIT)
        for size in REQUESTS:
            await call.write(InputRequest(payload=payload(size)))
        await call.done_writing()
        assert (await call).aggregated_payload_size == sum(REQUESTS)

    async def server_streaming(self, stub: Stub) -> None:
        call = stub.call("StreamingOutputCall", output_request(*RESPONSES), timeout=LIMIT)
        assert bodies([response async for response in call]) == list(RESPONSES)

    async def ping_pong(self, stub: Stub) -> None:
        call = stub.call("FullDuplexCall", None, timeout=LIMIT)
        for sent, size in zip(REQUESTS, RESPONSES, strict=True):
            await call.write(output_request(size, sent=sent))
            assert bodies([await call.read()]) == [size]
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF

    async def empty_stream(self, stub: Stub) -> None:
        call = stub.call("FullDuplexCall", None, timeout=LIMIT)
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() == grpc.StatusCode.OK

    async def cancel_after_begin(self, stub: Stub) -> None:
        call = stub.call("StreamingInputCall", None, timeout=LIMIT)
        call.cancel()
        assert await call.code() == grpc.StatusCode.CANCELLED

    async def cancel_after_first_response(self, stub: Stub) -> None:
        call = stub.call("FullDuplexCall", None, timeout=LIMIT)
        await call.write(output_request(RESPONSES[0], sent=REQUESTS[0]))
        assert bodies([await call.read()]) == [RESPONSES[0]]
        call.cancel()
        assert await call.code() == grpc.StatusCode.CANCELLED

    async def timeout_on_sleeping_server(self, stub: Stub) -> None:
        call = stub.call("FullDuplexCall", None, timeout=0.001)
        assert await call.code() == grpc.StatusCode.DEADLINE_EXCEEDED

    async def custom_metadata(self, stub: Stub) -> None:
        call = stub.call("UnaryCall", large_request(), METADATA, timeout=LIMIT)
        assert bodies([await call]) == [LARGE_RESPONSE]
        check_metadata(await call.initial_metadata(), await call.trailing_metadata())
        stream = stub.call("FullDuplexCall", None, METADATA, timeout=LIMIT)
        await stream.write(output_request(RESPONSES[0]))
        await stream.done_writing()
        assert bodies([response async for response in stream]) == [RESPONSES[0]]
        check_metadata(await stream.initial_metadata(), await stream.trailing_metadata())

    async def status_code_and_message(self, stub: Stub) -> None:
        await self._check_status(stub, PLAIN_MESSAGE)

    async def special_status_message(self, stub: Stub) -> None:
        await self._check_status(stub, SPECIAL_MESSAGE)

    async def _check_status(self, stub: Stub, message: str) -> None:
        unary, streaming = failed_with(UNKNOWN.value[0], message)
        call = stub.call("UnaryCall", unary, timeout=LIMIT)
        assert (await call.code(), await call.details()) == (UNKNOWN, message)
        stream = stub.call("FullDuplexCall", None, timeout=LIMIT)
        await stream.write(streaming)
        assert (await stream.code(), await stream.details()) == (UNKNOWN, message)

    async def unimplemented_method(self, stub: Stub) -> None:
        call = stub.call("UnimplementedCall", Empty(), timeout=LIMIT)
        assert await call.code() == grpc.StatusCode.UNIMPLEMENTED

    async def unimplemented_service(self, stub: Stub) -> None:
        await self.unimplemented_method(Stub(stub.channel, stub.metadata, UNIMPLEMENTED_SERVICE))


CASES = [name for name in vars(SyncCases) if not name.startswith("_")]
OPTIONS = (("grpc.max_receive_message_length", -1),)


def run_sync(case: str, target: str, metadata: tuple[tuple[str, str], ...] = ()) -> None:
    """Run one case with the synchronous client."""
    with grpc.insecure_channel(target, options=OPTIONS) as channel:
        getattr(SyncCases(), case)(Stub(channel, metadata))


async def run_aio(case: str, target: str, metadata: tuple[tuple[str, str], ...] = ()) -> None:
    """Run one case with the asyncio client."""
    async with grpc.aio.insecure_channel(target, options=OPTIONS) as channel:
        await getattr(AioCases(), case)(Stub(channel, metadata))
