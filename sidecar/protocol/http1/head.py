"""The head of an HTTP/1.1 request as HTTP/2 has it, and the head of a response back again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from sidecar.model.errors import CodecError
from sidecar.protocol.triple import ending

Headers = Sequence[tuple[bytes, bytes]]
Pairs = list[tuple[bytes, bytes]]

BAD_REQUEST: Final = 400
REQUEST_TIMEOUT: Final = 408
TOO_LARGE: Final = 431
NOT_IMPLEMENTED: Final = 501
BAD_GATEWAY: Final = 502
BAD_VERSION: Final = 505

# Clients of HTTP/1.0 may name no host; HTTP/2 wants an authority.
NO_HOST: Final = b"localhost"

TRAILERS: Final = b"trailers"

# Valid for one hop only (RFC 9110, 7.6.1). `expect` is answered here (RFC 9110, 10.1.1).
_HOP_BY_HOP: Final = frozenset(
    [
        b"connection",
        b"expect",
        b"host",
        b"http2-settings",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"transfer-encoding",
        b"upgrade",
    ]
)
_BLANKS: Final = b" \t"
_FRAMING: Final = frozenset([b"content-length", b"transfer-encoding"])
_AUTHORITY: Final = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:\[\]%-]*")
_ABSOLUTE: Final = re.compile(rb"([Hh][Tt][Tt][Pp][Ss]?)://([^/?#]*)(.*)")
# What h11 lets through and HTTP/2 does not allow.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class HeadError(CodecError):
    """A head that is refused; ``status`` is the HTTP status that says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status: Final = status


def request_headers(
    method: bytes, target: bytes, version: bytes, headers: Headers, scheme: bytes
) -> Pairs:
    """Return a request as HTTP/2 has it, pseudo-headers first; raises HeadError.

    ``headers`` have names in lower case. The order of fields stays; those for one hop are left out,
    and ``te`` is cut down to ``trailers``.
    """
    if not version.startswith(b"1."):
        raise HeadError(BAD_VERSION, "only HTTP/1.1 and HTTP/1.0 are spoken here")
    if method == b"CONNECT":
        raise HeadError(NOT_IMPLEMENTED, "CONNECT is not implemented")
    _check_framing(version, headers)
    scheme, host, path = _split_target(method, target, scheme, _host(headers))
    if _AUTHORITY.fullmatch(host) is None:
        raise HeadError(BAD_REQUEST, "the host is not valid")
    fields = _end_to_end(headers)
    if accepts_trailers(headers):
        fields.append((b"te", TRAILERS))
    return [
        (b":method", method),
        (b":scheme", scheme),
        (b":authority", host or NO_HOST),
        (b":path", path),
        *fields,
    ]


def request_trailers(headers: Headers) -> Pairs:
    """Return the trailers of a request as HTTP/2 has them; raises HeadError."""
    return [each for each in _end_to_end(headers) if each[0] not in _FRAMING]


def response_trailers(headers: Headers) -> Pairs:
    """Return the trailers of a response that came by HTTP/2."""
    unwanted = _HOP_BY_HOP | _FRAMING
    return [(name, value.strip(_BLANKS)) for name, value in headers if name not in unwanted]


def accepts_trailers(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request asks for the trailers of its response."""
    return any(
        name == b"te" and TRAILERS in [token.strip() for token in value.lower().split(b",")]
        for name, value in headers
    )


def response_headers(headers: Headers) -> tuple[int, Pairs]:
    """Return status and fields of a response that came by HTTP/2."""
    status = ending.http_status(headers)
    fields = [
        (name, value.strip(_BLANKS))
        for name, value in headers
        if not name.startswith(b":") and name not in _HOP_BY_HOP
    ]
    if status == 204 or status < 200:  # RFC 9110, 8.6
        fields = [each for each in fields if each[0] != b"content-length"]
    return status, fields


def _host(headers: Headers) -> bytes:
    return next((value for name, value in headers if name == b"host"), b"")


def _check_framing(version: bytes, headers: Headers) -> None:
    """Refuse what two readers may cut differently (RFC 9112, 6.1)."""
    framing = {name for name, _ in headers if name in _FRAMING}
    if len(framing) > 1:
        raise HeadError(BAD_REQUEST, "both content-length and transfer-encoding")
    if version == b"1.0" and b"transfer-encoding" in framing:
        raise HeadError(BAD_REQUEST, "HTTP/1.0 has no transfer-encoding")


def _split_target(
    method: bytes, target: bytes, scheme: bytes, host: bytes
) -> tuple[bytes, bytes, bytes]:
    """Return scheme, authority and path; an absolute target counts before `host`."""
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is not None:
        scheme, host, target = absolute[1].lower(), absolute[2], absolute[3]
        if not target.startswith(b"/"):
            target = b"*" if method == b"OPTIONS" and not target else b"/" + target
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return scheme, host, target
    raise HeadError(BAD_REQUEST, "the target is not valid")


def _end_to_end(headers: Headers) -> Pairs:
    unwanted = set(_HOP_BY_HOP)
    for name, value in headers:
        if name == b"connection":
            unwanted.update([token.strip() for token in value.lower().split(b",")])
        if _CONTROL.search(value) is not None:
            raise HeadError(BAD_REQUEST, f"a control character in {name.decode('ascii')}")
    return [(name, value) for name, value in headers if name not in unwanted]
