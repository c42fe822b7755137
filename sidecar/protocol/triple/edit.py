"""The headers of a request as the provider gets them.

A field that does not change is the very object that came: peers mark fields that must never be
compressed (RFC 7541's never-indexed literals), and a copy would lose the mark. Fields keep their
order, and repeated ones stay apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sidecar.protocol.triple import timeout
from sidecar.protocol.triple.head import GRPC, TRAILERS, Headers, TripleHead

_PATH: Final = b":path"
_AUTHORITY: Final = b":authority"
_HOST: Final = b"host"
_TE: Final = b"te"
_CONNECTION: Final = b"connection"
# Valid for one hop only (RFC 9110, 7.6.1) and not allowed in HTTP/2 (RFC 9113, 8.2.2), which allows
# `te` with one value.
_HOP_BY_HOP: Final[frozenset[bytes]] = frozenset(
    [
        _CONNECTION,
        _TE,
        b"keep-alive",
        b"proxy-connection",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    ]
)


def request_headers(
    headers: Headers,
    head: TripleHead,
    path: bytes,
    authority: bytes,
    timeout_us: int,
    extra: Headers,
) -> Headers:
    """Return the headers for the next hop, ``headers`` itself when nothing changes.

    ``path`` and ``authority`` replace the pseudo-headers unless empty; a request without an
    authority gets it. A ``timeout_us`` of 0 or more, in microseconds, replaces the deadline of a
    request that has one. A pair of ``extra`` takes the place of all fields of its name, or is added
    at the end. Left out are fields for one hop: those of RFC 9110 and those that `connection`
    names, a `te` other than `trailers`, and a `host` beside an authority.
    """
    if timeout_us < 0 and not (path or authority or extra or head.needs_cleaning):
        return headers
    kept = _without_hop_by_hop(headers, authority) if head.needs_cleaning else headers
    changes: dict[bytes, bytes] = {}
    if path:
        changes[_PATH] = path
    if authority:
        changes[_AUTHORITY] = authority
    if timeout_us >= 0:
        if head.kind == GRPC:
            changes[b"grpc-timeout"] = timeout.render(timeout_us)
        else:
            changes[b"tri-service-timeout"] = timeout.render_ms(timeout_us)
    changes.update(extra)
    return _with_changes(kept, changes, extra) if changes else kept


def _with_changes(headers: Headers, changes: dict[bytes, bytes], extra: Headers) -> Headers:
    """Change the values of names that occur; add the authority and ``extra`` when they do not."""
    result: list[tuple[bytes, bytes]] = list(headers)
    missing = set(changes)
    repeated: set[int] = set()
    for index in range(len(result)):
        name = result[index][0]
        if name in changes:
            if name in missing:
                missing.remove(name)
                result[index] = (name, changes[name])
            else:
                repeated.add(index)
    if repeated:
        result = _without(result, repeated)
    if _AUTHORITY in missing:
        missing.remove(_AUTHORITY)
        result.insert(0, (_AUTHORITY, changes[_AUTHORITY]))
    for name, _ in extra:
        if name in missing:
            missing.remove(name)
            result.append((name, changes[name]))
    return headers if len(missing) == len(changes) else result


def _without_hop_by_hop(headers: Headers, authority: bytes) -> Headers:
    """Leave out fields for one hop, among them what `connection` names; never a pseudo-header."""
    unwanted = set(_HOP_BY_HOP)
    if authority:
        unwanted.add(_HOST)
    for name, value in headers:
        if name == _AUTHORITY:
            unwanted.add(_HOST)
        elif name == _CONNECTION:
            unwanted.update([token.strip() for token in value.lower().split(b",")])
    dropped: set[int] = set()
    for index, (name, value) in enumerate(headers):
        is_allowed = name.startswith(b":") or (name == _TE and value.lower() == TRAILERS)
        if name in unwanted and not is_allowed:
            dropped.add(index)
    return _without(headers, dropped) if dropped else headers


def _without(pairs: Sequence[Any], dropped: set[int]) -> list[Any]:
    return [pair for index, pair in enumerate(pairs) if index not in dropped]
