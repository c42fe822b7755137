"""What gRPC promises beyond the interop cases: through the sidecar as without it."""

from __future__ import annotations

import asyncio
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.e2e.grpc_scene import GROUP
from tests.e2e.interop import (
    ECHO_INITIAL,
    ECHO_TRAILING,
    MARK,
    EchoStatus,
    Empty,
    InputRequest,
    OutputRequest,
    SimpleRequest,
    Stub,
    output_request,
    payload,
)
from tests.e2e.interop_cases import LIMIT, Requests, bodies
from tests.e2e.interop_server import STATUS_DETAILS
from tests.e2e.peers import wait_until

LARGE = 5_000_000
"""More than the windows of streams and connections of every peer."""

GZIP, DEFLATE = grpc.Compression.Gzip, grpc.Compression.Deflate
CENTURY = 3.2e9
"""The synchronous server says that many seconds, and more, are left when there is no deadline."""

SLOW = 100
"""Responses that come one by one, each after a tenth of a second."""


@pytest.fixture(params=["sync", "aio"])
def server(request):
    return request.param


@pytest.fixture
def stub(scene, route, server):
    with scene.stub(route, server) as stub:
        yield stub


def marked() -> tuple[str, tuple[tuple[str, str], ...]]:
    """A new mark and the metadata that carries it."""
    mark = uuid.uuid4().hex
    return mark, ((MARK, mark),)


def slow_request() -> Any:
    return output_request(*[1] * SLOW, interval_us=100_000)


class TestLargeMessages:
    def test_unary(self, stub):
        request = SimpleRequest(response_size=LARGE, payload=payload(LARGE))
        assert bodies([stub.call("UnaryCall", request, timeout=LIMIT)]) == [LARGE]

    def test_from_the_server(self, stub):
        call = stub.call("StreamingOutputCall", output_request(*[LARGE] * 3), timeout=LIMIT)
        assert bodies(call) == [LARGE] * 3

    def test_from_the_client(self, stub):
        requests = (InputRequest(payload=payload(LARGE)) for _ in range(3))
        response = stub.call("StreamingInputCall", requests, timeout=LIMIT)
        assert response.aggregated_payload_size == 3 * LARGE

    def test_both_ways_at_once(self, stub):
        requests = (output_request(LARGE, sent=LARGE) for _ in range(3))
        assert bodies(stub.call("FullDuplexCall", requests, timeout=LIMIT)) == [LARGE] * 3

    def test_one_that_is_read_slowly_holds_no_other_call_up(self, stub):
        slow = stub.call("StreamingOutputCall", output_request(*[LARGE] * 4), timeout=LIMIT)
        assert bodies([next(slow)]) == [LARGE]
        assert bodies([stub.call("UnaryCall", SimpleRequest(response_size=9), timeout=5)]) == [9]
        assert bodies(slow) == [LARGE] * 3


class TestMetadata:
    SENT = (
        ("x-first", "1"), ("x-twice", "a, b"), ("x-bytes-bin", b"\x00\xff\xfe"), ("x-twice", "c"),
        ("x-empty", ""), ("x-empty-bin", b""), ("x-bytes-bin", b"\x01"), ("x-blank", "a  b"),
    )  # fmt: skip

    def test_the_server_sees_what_the_client_sent(self, scene, stub, server):
        mark, metadata = marked()
        stub.call("EmptyCall", Empty(), (*metadata, *self.SENT), timeout=LIMIT)
        seen = scene.facts(server, mark)["metadata"]
        for name in {name for name, _ in self.SENT}:
            expected = [
                value if isinstance(value, str) else value.hex()
                for key, value in self.SENT
                if key == name
            ]
            assert [value for key, value in seen if key == name] == expected
        assert dict(seen)["user-agent"].startswith("grpc-python")

    def test_the_client_sees_what_the_server_sent(self, stub):
        metadata = (
            (ECHO_INITIAL, "1"), (ECHO_TRAILING, b"\xff\x00"), (ECHO_INITIAL, "2"),
            (ECHO_TRAILING, b""),
        )  # fmt: skip
        call = stub.future("EmptyCall", Empty(), metadata, timeout=LIMIT)
        call.result()
        initial = [value for key, value in call.initial_metadata() if key == ECHO_INITIAL]
        trailing = [value for key, value in call.trailing_metadata() if key == ECHO_TRAILING]
        assert (initial, trailing) == (["1", "2"], [b"\xff\x00", b""])

    def test_a_status_keeps_its_details(self, stub):
        status = EchoStatus(code=9, message="not now")
        call = stub.future("UnaryCall", SimpleRequest(response_status=status), timeout=LIMIT)
        assert (call.code(), call.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "not now")
        assert dict(call.trailing_metadata())[STATUS_DETAILS] == status.SerializeToString()

    @pytest.mark.parametrize("code", grpc.StatusCode, ids=lambda code: code.name)
    def test_every_status(self, stub, code):
        if code is grpc.StatusCode.OK:
            return
        status = EchoStatus(code=code.value[0], message="as it is: %41")
        call = stub.future("UnaryCall", SimpleRequest(response_status=status), timeout=LIMIT)
        assert (call.code(), call.details()) == (code, "as it is: %41")

    def test_fc_67_twenty_kilobytes_of_it(self, scene, route, server):
        value = "v" * 20_000
        words = {"max_metadata_size": 65_536, "absolute_max_metadata_size": 65_536}
        with scene.stub(route, server, **words) as stub:
            call = stub.future("EmptyCall", Empty(), ((ECHO_INITIAL, value),), timeout=LIMIT)
            call.result()
            assert dict(call.initial_metadata())[ECHO_INITIAL] == value


class TestDeadlines:
    def test_a_deadline_ends_the_call_on_both_sides(self, scene, stub, server):
        mark, metadata = marked()
        begin = time.monotonic()
        call = stub.call("StreamingOutputCall", slow_request(), metadata, timeout=0.5)
        assert call.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert 0.45 < time.monotonic() - begin < 1.5
        seen = scene.facts(server, mark)
        assert 0.2 < seen["remaining"] < 0.6
        wait_until(lambda: scene.facts(server, mark)["state"] == "cancelled", 5, "the server knows")

    def test_without_a_deadline_there_is_none(self, scene, stub, server):
        mark, metadata = marked()
        stub.call("EmptyCall", Empty(), metadata)
        remaining = scene.facts(server, mark)["remaining"]
        assert remaining is None or remaining > CENTURY

    @pytest.mark.parametrize("seconds", [0.9, 59.0, 7200.0, 5_000_000.0])
    def test_the_server_knows_how_long_it_may_take(self, scene, stub, server, seconds):
        mark, metadata = marked()
        stub.call("EmptyCall", Empty(), metadata, timeout=seconds)
        remaining = scene.facts(server, mark)["remaining"]
        assert seconds * 0.99 - 0.5 < remaining <= seconds * 1.01  # clients round what is long


class TestCancellation:
    @pytest.mark.parametrize("method", ["StreamingOutputCall", "FullDuplexCall"])
    def test_by_the_client_while_the_server_answers(self, scene, stub, server, method):
        mark, metadata = marked()
        requests = Requests()
        requests.put(slow_request())
        argument = iter(requests) if method == "FullDuplexCall" else slow_request()
        call = stub.call(method, argument, metadata, timeout=LIMIT)
        assert bodies([next(call)]) == [1]
        assert scene.facts(server, mark)["state"] == "active"
        call.cancel()
        assert call.code() == grpc.StatusCode.CANCELLED
        requests.close()
        wait_until(lambda: scene.facts(server, mark)["state"] == "cancelled", 5, "the server knows")

    def test_by_the_client_while_it_sends(self, scene, stub, server):
        mark, metadata = marked()
        requests = Requests()
        requests.put(InputRequest(payload=payload(1000)))
        call = stub.future("StreamingInputCall", iter(requests), metadata, timeout=LIMIT)
        wait_until(lambda: scene.facts(server, mark), 5, "the call arrives")
        call.cancel()
        requests.close()
        wait_until(lambda: scene.facts(server, mark)["state"] == "cancelled", 5, "the server knows")

    def test_a_server_that_ends_first_is_heard_at_once(self, stub):
        requests = Requests()
        call = stub.call("FullDuplexCall", iter(requests), timeout=LIMIT)
        requests.put(output_request(10))
        assert bodies([next(call)]) == [10]
        begin = time.monotonic()
        requests.put(OutputRequest(response_status=EchoStatus(code=10, message="enough")))
        assert (call.code(), call.details()) == (grpc.StatusCode.ABORTED, "enough")
        assert time.monotonic() - begin < 2
        requests.close()


class TestCompression:
    @pytest.mark.parametrize("compression", [GZIP, DEFLATE], ids=["gzip", "deflate"])
    def test_of_requests_and_responses(self, stub, compression):
        request = SimpleRequest(
            response_size=100_000, payload=payload(100_000), response_compressed={"value": True}
        )
        words: dict[str, Any] = {"compression": compression, "timeout": LIMIT}
        call = stub.future("UnaryCall", request, **words)
        assert bodies([call.result()]) == [100_000]
        requests = [InputRequest(payload=payload(size)) for size in (70_000, 3)]
        response = stub.call("StreamingInputCall", iter(requests), **words)
        assert response.aggregated_payload_size == 70_003
        duplex = [output_request(500, sent=70_000), output_request(600)]
        assert bodies(stub.call("FullDuplexCall", iter(duplex), **words)) == [500, 600]


class TestManyCalls:
    def test_of_all_kinds_from_threads_over_one_channel(self, stub):
        def one(number: int) -> None:
            size = 1 + number * 37 % 5000
            if number % 4 == 0:
                request = SimpleRequest(response_size=size)
                assert bodies([stub.call("UnaryCall", request, timeout=LIMIT)]) == [size]
            elif number % 4 == 1:
                call = stub.call("StreamingOutputCall", output_request(size, 7), timeout=LIMIT)
                assert bodies(call) == [size, 7]
            elif number % 4 == 2:
                requests = iter([InputRequest(payload=payload(size))] * 3)
                response = stub.call("StreamingInputCall", requests, timeout=LIMIT)
                assert response.aggregated_payload_size == 3 * size
            else:
                requests = iter([output_request(size), output_request(8, 9)])
                assert bodies(stub.call("FullDuplexCall", requests, timeout=LIMIT)) == [size, 8, 9]

        with ThreadPoolExecutor(16) as pool:
            assert len(list(pool.map(one, range(240)))) == 240

    def test_at_once_from_a_loop_over_one_channel(self, scene, route, server, aio_loop):
        async def run() -> None:
            async with grpc.aio.insecure_channel(scene.target(route, server)) as channel:
                stub = Stub(channel, ((GROUP, server),))

                async def one(size: int) -> None:
                    request = SimpleRequest(response_size=size)
                    assert bodies([await stub.call("UnaryCall", request, timeout=LIMIT)]) == [size]
                    call = stub.call("StreamingOutputCall", output_request(size, 2), timeout=LIMIT)
                    assert bodies([response async for response in call]) == [size, 2]

                await asyncio.gather(*(one(size) for size in range(1, 251)))

        aio_loop.run(run())
