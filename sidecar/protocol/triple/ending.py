"""How a call ended, read from the head and the trailers of its response.

Exceptions of Dubbo's wrapped methods come with grpc-status 0 and a second code in the head,
`tri-exception-code` (Dubbo's ExceptionCustomizerWrapper): 3 when the method threw, else a code of
gRPC.
"""

from __future__ import annotations

from typing import Final

from sidecar.model import outcome
from sidecar.protocol.triple import reply
from sidecar.protocol.triple.head import Headers

NO_STATUS: Final = -1
NO_EXCEPTION: Final = 0
BUSINESS_EXCEPTION: Final = 3  # RpcException's code, which here is not gRPC's INVALID_ARGUMENT

_BY_STATUS: Final[dict[int, int]] = {
    NO_STATUS: outcome.PROVIDER_ERROR,
    reply.OK: outcome.OK,
    reply.DEADLINE_EXCEEDED: outcome.TIMEOUT,
    reply.RESOURCE_EXHAUSTED: outcome.PROVIDER_ERROR,
    reply.UNIMPLEMENTED: outcome.PROVIDER_ERROR,
    reply.INTERNAL: outcome.PROVIDER_ERROR,
    reply.UNAVAILABLE: outcome.PROVIDER_ERROR,
    reply.DATA_LOSS: outcome.PROVIDER_ERROR,
}


def _make_codes() -> dict[bytes, int]:
    return {str(code).encode(): code for code in range(reply.BUSINESS_ERROR + 1)}


_CODES: Final[dict[bytes, int]] = _make_codes()


def outcome_of(grpc_status: int, exception_code: int) -> int:
    """Return a constant of ``model.outcome``; the instance is at fault for some codes only."""
    if grpc_status == reply.OK and exception_code != NO_EXCEPTION:
        if exception_code == BUSINESS_EXCEPTION:
            return outcome.BUSINESS_ERROR
        grpc_status = exception_code
    return _BY_STATUS.get(grpc_status, outcome.BUSINESS_ERROR)


def outcome_of_http(status: int) -> int:
    """Return a constant of ``model.outcome`` for a REST response."""
    if status == 504:
        return outcome.TIMEOUT
    if status >= 500:
        return outcome.PROVIDER_ERROR
    return outcome.BUSINESS_ERROR if status >= 400 else outcome.OK


def grpc_status(headers: Headers) -> int:
    """Return the grpc-status, -1 when there is none; what is not a known code is UNKNOWN."""
    return _code(headers, b"grpc-status", NO_STATUS)


def exception_code(headers: Headers) -> int:
    """Return the `tri-exception-code`, 0 when there is none; an unknown one is UNKNOWN."""
    return _code(headers, b"tri-exception-code", NO_EXCEPTION)


def http_status(headers: Headers) -> int:
    """Return the HTTP status of a response, 0 when it has none that is a number."""
    for name, value in headers:
        if name == b":status":
            return int(value) if value.isdigit() and len(value) == 3 else 0
    return 0


def _code(headers: Headers, wanted: bytes, absent: int) -> int:
    for name, value in headers:
        if name == wanted:
            return _CODES.get(value, reply.UNKNOWN)
    return absent
