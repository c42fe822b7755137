"""How calls ended."""

from __future__ import annotations

import pytest

from sidecar.model import outcome
from sidecar.protocol.triple import reply
from sidecar.protocol.triple.ending import (
    exception_code,
    grpc_status,
    http_status,
    outcome_of,
    outcome_of_http,
)
from sidecar.protocol.triple.head import Headers
from tests.vectors.loader import messages

DETAILS = messages("triple/messages.txt")["status-details"]


@pytest.mark.parametrize("status", [4])
def test_deadlines(status: int) -> None:
    assert outcome_of(status, 0) == outcome.TIMEOUT


@pytest.mark.parametrize("status", [-1, 8, 12, 13, 14, 15])
def test_faults_of_the_instance(status: int) -> None:
    assert outcome_of(status, 0) == outcome.PROVIDER_ERROR


@pytest.mark.parametrize("status", [1, 2, 3, 5, 6, 7, 9, 10, 11, 16, 17, 18, 99])
def test_errors_that_are_not_the_fault_of_the_instance(status: int) -> None:
    assert outcome_of(status, 0) == outcome.BUSINESS_ERROR


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        (0, outcome.OK),
        (3, outcome.BUSINESS_ERROR),
        (2, outcome.BUSINESS_ERROR),
        (4, outcome.TIMEOUT),
        (13, outcome.PROVIDER_ERROR),
        (14, outcome.PROVIDER_ERROR),
    ],
)
def test_exceptions_of_calls_that_ended_well(code: int, ended: int) -> None:
    assert outcome_of(0, code) == ended


def test_an_exception_code_does_not_change_another_status() -> None:
    assert outcome_of(14, 3) == outcome.PROVIDER_ERROR
    assert outcome_of(5, 14) == outcome.BUSINESS_ERROR
    assert outcome_of(-1, 3) == outcome.PROVIDER_ERROR


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (200, outcome.OK),
        (204, outcome.OK),
        (304, outcome.OK),
        (399, outcome.OK),
        (400, outcome.BUSINESS_ERROR),
        (499, outcome.BUSINESS_ERROR),
        (500, outcome.PROVIDER_ERROR),
        (503, outcome.PROVIDER_ERROR),
        (504, outcome.TIMEOUT),
        (599, outcome.PROVIDER_ERROR),
    ],
)
def test_http_statuses(status: int, ended: int) -> None:
    assert outcome_of_http(status) == ended


@pytest.mark.parametrize("code", range(18))
def test_codes_are_read(code: int) -> None:
    text = str(code).encode()
    assert grpc_status([(b"x", b"1"), (b"grpc-status", text)]) == code
    assert exception_code(((b"tri-exception-code", text),)) == code


@pytest.mark.parametrize(
    "value", [b"", b"x", b"-1", b"18", b"00", b"1 ", b"\xff", b"9" * 1000, b"1.0"]
)
def test_what_is_not_a_known_code_is_unknown(value: bytes) -> None:
    assert grpc_status([(b"grpc-status", value)]) == reply.UNKNOWN
    assert exception_code([(b"tri-exception-code", value)]) == reply.UNKNOWN


def test_the_first_code_counts() -> None:
    assert grpc_status([(b"grpc-status", b"5"), (b"grpc-status", b"0")]) == 5


def test_codes_that_are_absent() -> None:
    headers: Headers = [(b":status", b"200"), (b"grpc-message", b"x")]
    assert grpc_status(headers) == grpc_status(()) == -1
    assert exception_code(headers) == 0


def test_details_do_not_hide_the_code() -> None:
    assert grpc_status([(b"grpc-status-details-bin", DETAILS), (b"grpc-status", b"14")]) == 14


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b":status", b"503"), (b":status", b"200")], 503),
        ([(b"x", b"1"), (b":status", b"200")], 200),
        ([(b":status", b"")], 0),
        ([(b":status", b"2xx")], 0),
        ([(b":status", b"20000")], 0),
        ([(b"status", b"200")], 0),
        ([], 0),
    ],
)
def test_the_http_status(headers: Headers, status: int) -> None:
    assert http_status(headers) == status


def test_fc_69_statuses_of_trailers_only_and_missing_ones() -> None:
    not_found = [
        (b":status", b"200"),
        (b"content-type", b"application/grpc"),
        (b"grpc-status", b"5"),
    ]
    assert outcome_of(grpc_status(not_found), exception_code(not_found)) == outcome.BUSINESS_ERROR
    no_trailers = [(b":status", b"200"), (b"content-type", b"application/grpc")]
    assert outcome_of(grpc_status(no_trailers), 0) == outcome.PROVIDER_ERROR
    plain_http = [(b":status", b"503"), (b"content-type", b"text/plain")]
    assert grpc_status(plain_http) == -1
    assert reply.grpc_status_of_http(http_status(plain_http)) == reply.UNAVAILABLE
    assert outcome_of(reply.UNAVAILABLE, 0) == outcome.PROVIDER_ERROR
