"""What routing needs of a request, read from its headers.

The path names the service: `/{service path}/{method}`, where the last segment of the service path
is the interface (Dubbo's RequestPath; a context path may stand before it). Group, version and tags
are headers. Nothing is unescaped, since providers compare the bytes as they come.

A reader remembers what it made of the headers that count, by their bytes: a consumer calls few
methods with few tags, so that most requests cost one pass over the headers and one look-up. Trace
ids and other headers that nobody wants take no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from sidecar.model.service import ServiceKey
from sidecar.protocol.triple import timeout

# Pseudo-headers first, bytes as they came.
Headers = Sequence[tuple[bytes, bytes]]

GRPC: Final = 0
REST: Final = 1

# Longest interface, group, version or method name, in characters: such names become registry paths,
# labels and reply texts. The same limit holds for Dubbo TCP.
MAX_NAME: Final = 1024
# Heads that are remembered: more than a consumer calls in turn. With MAX_KEY_SIZE a hostile
# consumer can make a reader hold about 20 MiB.
MAX_HEADS: Final = 1024
MAX_KEY_SIZE: Final = 1024  # bytes of the headers that count; ordinary ones take 100 to 300
FIELD_OVERHEAD: Final = 32  # what RFC 9113 adds to the size of each field

# Where the first value of a header is kept while a request is read. Those up to _LIMITS decide what
# a head says, the deadlines behind them are read anew each time.
_PATH: Final = 0
_METHOD: Final = 1
_CONTENT_TYPE: Final = 2
_GROUP: Final = 3
_REST_GROUP: Final = 4
_VERSION: Final = 5
_REST_VERSION: Final = 6
_TAG: Final = 7
_FORCE_TAG: Final = 8
_SERVICE_TAG: Final = 9
_APPLICATION: Final = 10
_CLEANING: Final = 11  # not a header: whether one of the last two kinds occurs
_LIMITS: Final = 12
_GRPC_TIMEOUT: Final = 12
_REST_TIMEOUT: Final = 13
_SLOTS: Final = 14
# Headers whose values are not kept.
_HOP_BY_HOP: Final = 14
_TE: Final = 15

_WANTED: Final[dict[bytes, int]] = {
    b":path": _PATH,
    b":method": _METHOD,
    b"content-type": _CONTENT_TYPE,
    b"tri-service-group": _GROUP,
    b"rest-service-group": _REST_GROUP,
    b"tri-service-version": _VERSION,
    b"rest-service-version": _REST_VERSION,
    b"dubbo.tag": _TAG,
    b"dubbo-tag": _TAG,
    b"dubbo.force.tag": _FORCE_TAG,
    b"dubbo-force-tag": _FORCE_TAG,
    b"dubbo.tag.service": _SERVICE_TAG,
    b"tri-consumer-appname": _APPLICATION,
    b"grpc-timeout": _GRPC_TIMEOUT,
    b"tri-service-timeout": _REST_TIMEOUT,
    b"connection": _HOP_BY_HOP,
    b"keep-alive": _HOP_BY_HOP,
    b"proxy-connection": _HOP_BY_HOP,
    b"transfer-encoding": _HOP_BY_HOP,
    b"upgrade": _HOP_BY_HOP,
    b"http2-settings": _HOP_BY_HOP,
    b"host": _HOP_BY_HOP,  # only beside :authority, but that is for the edit to see
    b"te": _TE,
}
TRAILERS: Final = b"trailers"  # the one value of `te` that HTTP/2 allows

_GRPC_TYPE: Final = b"application/grpc"
_YES: Final = b"1"
_REPLACEMENT: Final = "\ufffd"  # what decoding leaves in place of bytes that are not UTF-8
_Values = list[bytes | None]


@final
class TripleHead:
    """What routing sees of one request; immutable, and shared by requests with the same head.

    ``kind`` is GRPC or REST. ``path`` is the text of the whole `:path`; ``service_path`` is what
    stands before the last `/`, ``method`` what stands after it, and ``interface`` the last segment
    of the service path. ``service`` is the text of the ServiceKey. When the path cannot name a
    service it is ``""``, and so is ``interface``; a version or group that cannot be one leaves all
    of them empty. A ``method`` that cannot be a name is ``""``.
    ``timeout_us`` is the time the consumer will still wait in microseconds, -1 when the request
    does not say, 0 when it is over. ``size`` is that of the header list as RFC 9113 counts it.
    ``needs_cleaning`` is set when a header may have to be left out for the next hop.
    """

    def __init__(
        self,
        kind: int,
        http_method: str,
        content_type: bytes,
        path: str,
        service_path: str,
        interface: str,
        method: str,
        version: str,
        group: str,
        service: str,
        tag: str,
        force_tag: bool,
        service_tag: str,
        application: str,
        needs_cleaning: bool,
        timeout_us: int,
        size: int,
    ) -> None:
        self.kind: Final = kind
        self.http_method: Final = http_method
        self.content_type: Final = content_type
        self.path: Final = path
        self.service_path: Final = service_path
        self.interface: Final = interface
        self.method: Final = method
        self.version: Final = version
        self.group: Final = group
        self.service: Final = service
        self.tag: Final = tag
        self.force_tag: Final = force_tag
        self.service_tag: Final = service_tag
        self.application: Final = application
        self.needs_cleaning: Final = needs_cleaning
        self.timeout_us: Final = timeout_us
        self.size: Final = size

    def with_limits(self, timeout_us: int, size: int) -> TripleHead:
        """Return the same head with the two things that differ between equal calls."""
        return TripleHead(
            self.kind,
            self.http_method,
            self.content_type,
            self.path,
            self.service_path,
            self.interface,
            self.method,
            self.version,
            self.group,
            self.service,
            self.tag,
            self.force_tag,
            self.service_tag,
            self.application,
            self.needs_cleaning,
            timeout_us,
            size,
        )


@final
class HeadReader:
    """Reads the heads of requests and remembers them; one reader may serve many connections."""

    def __init__(self) -> None:
        self._heads: Final[dict[tuple[bytes | None, ...], TripleHead]] = {}
        # Many consumers send the same headers with each call, which one comparison tells.
        self._latest: Headers = ()
        self._latest_head: TripleHead | None = None

    def read(self, headers: Headers) -> TripleHead:
        """Return what routing needs of a request; never raises. Of equal headers the first counts.

        Names of headers are in lower case, as HTTP/2 demands.
        """
        latest = self._latest_head
        if latest is not None and headers == self._latest:
            return latest
        values: _Values = [None] * _SLOTS
        size = 0
        for name, value in headers:
            size += len(name) + len(value) + FIELD_OVERHEAD
            slot = _WANTED.get(name)
            if slot is not None:
                if slot < _SLOTS:
                    if values[slot] is None:
                        values[slot] = value
                elif slot == _HOP_BY_HOP or (value != TRAILERS and value.lower() != TRAILERS):
                    values[_CLEANING] = _YES
        key = tuple(values[:_LIMITS])
        known = self._heads.get(key)
        head = _make_head(values) if known is None else known
        timeout_us = _timeout_us(head.kind, values)
        if head.timeout_us != timeout_us or head.size != size:
            head = head.with_limits(timeout_us, size)
        if known is not None or self._keep(key, head):
            self._latest = headers
            self._latest_head = head
        return head

    def _keep(self, key: tuple[bytes | None, ...], head: TripleHead) -> bool:
        if sum([len(value) for value in key if value is not None]) > MAX_KEY_SIZE:
            return False
        if len(self._heads) >= MAX_HEADS:
            self._heads.clear()
        self._heads[key] = head
        return True


def _timeout_us(kind: int, values: _Values) -> int:
    if kind == GRPC:
        value = values[_GRPC_TIMEOUT]
        return timeout.NO_TIMEOUT if value is None else timeout.parse(value)
    value = values[_REST_TIMEOUT]
    return timeout.NO_TIMEOUT if value is None else timeout.parse_ms(value)


def _make_head(values: _Values) -> TripleHead:
    content_type = values[_CONTENT_TYPE] or b""
    kind = GRPC if _is_grpc(content_type) else REST
    path = _text(values, _PATH)
    service_path, method = _split(path if kind == GRPC else path.partition("?")[0])
    interface = service_path.rpartition("/")[2]
    version = _text(values, _VERSION) or _text(values, _REST_VERSION)
    group = _text(values, _GROUP) or _text(values, _REST_GROUP)
    if not _is_name(method):
        method = ""
    if not _may_stand_beside(version, group):
        version = group = interface = ""
    if not method or _REPLACEMENT in service_path or not _is_interface(interface):
        interface = ""
    service = ServiceKey(interface, version, group)
    return TripleHead(
        kind,
        _text(values, _METHOD),
        content_type,
        path,
        service_path,
        service.interface,
        method,
        service.version,
        service.group,
        service.text if interface else "",
        _text(values, _TAG),
        _text(values, _FORCE_TAG).lower() == "true",
        _text(values, _SERVICE_TAG),
        _text(values, _APPLICATION),
        values[_CLEANING] is not None,
        timeout.NO_TIMEOUT,
        0,
    )


def _is_grpc(content_type: bytes) -> bool:
    """Tell gRPC's content types; `application/grpc-web` and the like are something else."""
    start = content_type[: len(_GRPC_TYPE)].lower()
    return start == _GRPC_TYPE and content_type[len(_GRPC_TYPE) :][:1] in (b"", b"+", b";")


def _text(values: _Values, slot: int) -> str:
    value = values[slot]
    return "" if value is None else value.decode("utf-8", "replace")


def _split(path: str) -> tuple[str, str]:
    """Return service path and method; both are empty when the path does not begin with `/`."""
    if not path.startswith("/"):
        return "", ""
    service_path, _, method = path.rpartition("/")
    return service_path[1:], method


def _is_name(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME and text.isprintable() and _REPLACEMENT not in text


def _is_interface(text: str) -> bool:
    return _is_name(text) and ":" not in text and " " not in text


def _may_stand_beside(version: str, group: str) -> bool:
    """Refuse names from which the text of a service key could not be read back."""
    if version and (not _is_name(version) or "/" in version):
        return False
    return not group or _is_name(group)
