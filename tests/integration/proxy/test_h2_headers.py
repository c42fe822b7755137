"""Header lists of all sizes: what is too large is refused, and the connection goes on."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.protocol.http2 import codes
from sidecar.settings.schema import Http2
from sidecar.settings.units import Size
from sidecar.telemetry import names
from tests.fixtures import http2_peers as frames
from tests.fixtures.dubbo_peer import eventually
from tests.fixtures.h2_peer import CALL, FRAME_SIZE, HEADER_SIZE, REPLY, request_headers
from tests.fixtures.http2_peers import frame

KIB = 1024
JSON = [(n, b"application/json" if n == b"content-type" else v) for n, v in request_headers()]


def metadata(kib: int) -> list[tuple[bytes, bytes]]:
    """So many KiB of metadata in eight fields; they enter the dynamic table if they fit."""
    return [(b"x-field-%d" % n, bytes([97 + n]) * (kib * 128)) for n in range(8)]


def fields(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [each for each in headers if each[0].startswith(b"x-")]


async def test_fc_67_what_is_allowed_is_announced(h2_world: Any) -> None:
    consumer = await h2_world.h2_consumer()
    await consumer.pong()
    assert consumer.told[HEADER_SIZE] == 64 * KIB


@pytest.mark.parametrize("kib", [1, 20, 40, 60])
async def test_fc_67_what_is_not_too_large_passes(h2_world: Any, kib: int) -> None:
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    assert (await consumer.call(metadata=metadata(kib))).status == 0
    assert fields(provider.calls[0].headers) == metadata(kib)


@pytest.mark.parametrize("kib", [64, 70, 120])
async def test_fc_67_what_is_too_large_is_refused_alone(h2_world: Any, kib: int) -> None:
    """Both sides agree on the dynamic table afterwards: fields are sent as indices and arrive."""
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    small = [(b"x-small", b"one"), (b"x-other", b"two")]
    assert (await consumer.call(metadata=small)).status == 0
    late = [(b"x-late", b"three")]
    refused = await consumer.call(metadata=[*metadata(kib), *late])
    assert refused.status == 8
    assert refused.token == "HEADERS_TOO_LARGE"
    assert refused.kinds[0] == frames.HEADERS
    assert refused.http_status == 200
    for _ in range(3):
        assert (await consumer.call(metadata=[*small, *late])).status == 0
        assert fields(provider.calls[-1].headers) == [*small, *late]
    assert len(provider.calls) == 4
    assert h2_world.count(names.OVERSIZE.name, "headers") == 1


async def test_fc_67_a_refused_call_that_is_not_grpc(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    refused = await consumer.call(headers=[*JSON, *metadata(70)])
    assert refused.http_status == 431
    assert b"HEADERS_TOO_LARGE" in refused.body
    assert (await consumer.call()).status == 0


async def test_too_many_fields_are_refused_alone(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    refused = await consumer.call(metadata=[(b"x", b"y")] * 600)
    assert refused.status == 8
    assert (await consumer.call(metadata=[(b"x", b"y")] * 400)).status == 0
    assert h2_world.count(names.OVERSIZE.name, "headers") == 1


async def test_fc_67_the_limit_is_a_setting(h2_worlds: Any) -> None:
    world = await h2_worlds(http2=Http2(header_size=Size(8 * KIB)))
    provider = await world.h2_provider()
    consumer = await world.h2_serve(provider)
    assert (await consumer.call(metadata=metadata(9))).status == 8
    assert (await consumer.call(metadata=metadata(6))).status == 0
    assert consumer.told[HEADER_SIZE] == 8 * KIB


async def test_fc_66_forty_kibibytes_in_three_frames(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    await consumer.pong()
    # The encoder of the peer compresses; these are literals, so that it is 40 KiB on the wire.
    large = b"".join(
        b"\0\x03x-%d\x7f\x81\x3f" % n + bytes([65 + n]) * (127 + 1 + 63 * 128) for n in range(5)
    )
    block = CALL + large
    assert 2 * FRAME_SIZE < len(block) < 3 * FRAME_SIZE
    stream = consumer.stream(consumer.take_id())
    first, second, third = (block[n * FRAME_SIZE : (n + 1) * FRAME_SIZE] for n in range(3))
    consumer.send(frame(frames.HEADERS, 0, stream.id, first))
    consumer.send(frame(frames.CONTINUATION, 0, stream.id, second))
    consumer.send(frame(frames.CONTINUATION, frames.END_HEADERS, stream.id, third))
    consumer.data(stream.id, REPLY, end=True)
    assert (await consumer.answer(stream)).status == 0, stream.message
    sizes = [len(value) for name, value in provider.calls[0].headers if name.startswith(b"x-")]
    assert sizes == [8192] * 5


@pytest.mark.parametrize(("references", "status"), [(10, 0), (40, 8)])
async def test_a_header_bomb_of_some_size(h2_world: Any, references: int, status: int) -> None:
    """Small on the wire, large when it is decoded: what counts is the decoded size."""
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    charge = (b"x-charge", b"v" * 3000)
    assert (await consumer.call(metadata=[charge])).status == 0
    assert (await consumer.call(metadata=[charge] * references)).status == status
    assert (await consumer.call(metadata=[charge])).status == 0
    assert h2_world.count(names.OVERSIZE.name, "headers") == (1 if status else 0)


async def test_a_header_bomb_without_measure_ends_the_connection(h2_world: Any) -> None:
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    charge = (b"x-charge", b"v" * 3000)
    assert (await consumer.call(metadata=[charge])).status == 0
    consumer.request(metadata=[charge] * 15_000)
    await consumer.gone()
    assert [each[1] for each in consumer.goaways] == [codes.ENHANCE_YOUR_CALM]
    assert len(provider.calls) == 1
    await h2_world.at_rest()
    await eventually(lambda: h2_world.count(names.CONSUMERS_CLOSED.name, "limit") == 1)


async def test_request_trailers_that_are_too_large(h2_world: Any) -> None:
    """Nothing is refused in the middle of a call, below what ends a connection."""
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    stream = consumer.request(end=False)
    consumer.head(stream.id, metadata(70), end=True)
    assert (await consumer.answer(stream)).status == 0
    assert fields(provider.calls[0].trailers) == metadata(70)


@pytest.mark.parametrize(
    "field",
    [
        (b"X-Upper", b"x"),
        (b"connection", b"close"),
        (b"te", b"gzip"),
        (b":unknown", b"x"),
        (b"x-newline", b"a\nb"),
        (b"", b"x"),
        (b"content-length", b"-1"),
    ],
)
async def test_a_malformed_request_is_reset_alone(h2_world: Any, field: Any) -> None:
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    bad = await consumer.call(headers=[*request_headers(), field])
    assert bad.reset == codes.PROTOCOL_ERROR
    assert (await consumer.call()).status == 0
    assert len(provider.calls) == 1


@pytest.mark.parametrize("missing", [b":method", b":path", b":scheme"])
async def test_a_request_that_lacks_a_part(h2_world: Any, missing: bytes) -> None:
    consumer = await h2_world.h2_serve(await h2_world.h2_provider())
    headers = [each for each in request_headers() if each[0] != missing]
    assert (await consumer.call(headers=headers)).reset == codes.PROTOCOL_ERROR
    assert (await consumer.call()).status == 0


async def test_odd_bytes_in_values_pass(h2_world: Any) -> None:
    """Whatever HTTP/2 allows arrives as it was."""
    provider = await h2_world.h2_provider()
    consumer = await h2_world.h2_serve(provider)
    odd = [(b"x-latin", b"na\xefve"), (b"x-utf", "茶".encode()), (b"x-twice", b"1")]
    odd += [(b"x-twice", b"2"), (b"x-data-bin", b"AAEC"), (b"x-empty", b"")]
    assert (await consumer.call(metadata=odd)).status == 0
    assert fields(provider.calls[0].headers) == odd
