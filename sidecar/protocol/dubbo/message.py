"""Reading what routing needs of a request, and telling replies and events apart.

A request body is: Dubbo version, service path, service version, method, parameter descriptor
(five strings), the arguments, the attachments (Dubbo's DubboCodec). The arguments are stepped over
and never built. Bodies in hessian2 and fastjson2 are understood. A request in any other encoding
gives a head with ``is_readable`` False: it can be routed by a default service of its listener
only, or is to be answered with status 40. Attachments are never added to such a request.

A reader remembers what it read, keyed by the bytes themselves: the five strings of each method,
and with them the attachments, once as a whole and once without the entries nobody wants (a tracing
agent's, say, differ each time). A consumer calls few methods with few attachments, so that most
requests cost two look-ups, one walk over the arguments, and no decoding. The walk is not saved:
only it shows where the arguments end, and text inside an argument may look like attachments.
(Searching the body for the keys first does not pay: every consumer sends some of them.)
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from sidecar.model import outcome
from sidecar.model.errors import CodecError
from sidecar.protocol.dubbo import attachments, jsonb
from sidecar.protocol.dubbo.frame import (
    FASTJSON2,
    HEADER_SIZE,
    HESSIAN2,
    KIND_EXCEPTION,
    KIND_EXCEPTION_WITH_ATTACHMENTS,
    LAST_KIND,
    STATUS_CLIENT_TIMEOUT,
    STATUS_OK,
    STATUS_SERVER_TIMEOUT,
    Frame,
    with_body,
)
from sidecar.protocol.dubbo.head import (
    MAX_KEY_SIZE,
    UNREADABLE,
    Prelude,
    RequestHead,
    keep_head,
)
from sidecar.protocol.hessian import write
from sidecar.protocol.hessian.read import is_string, read_number, read_string, read_string_or_null
from sidecar.protocol.hessian.skip import TAG_END, TAG_NULL, skip_value

__all__ = [
    "HEARTBEAT",
    "OTHER",
    "READONLY",
    "WRITEABLE",
    "RequestHead",
    "RequestReader",
    "append_attachments",
    "event_kind",
    "reply_outcome",
]

HEARTBEAT: Final = 0
READONLY: Final = 1
WRITEABLE: Final = 2
OTHER: Final = 3

# Methods that are remembered: more than a consumer calls in turn. With MAX_HEADS and the sizes of
# the keys a hostile consumer can make a reader hold about 32 MiB for each of the two encodings.
MAX_PRELUDES: Final = 1024
MAX_PRELUDE_SIZE: Final = 1024

_PRELUDE_STRINGS: Final = 5
_NOT_SIMPLE: Final = -1
_NO_NAME: Final = b"N"  # of a generic call: neither a string nor a document begins like this


@final
class RequestReader:
    """Reads the heads of requests and remembers them; one reader may serve many connections."""

    def __init__(self) -> None:
        self._hessian: Final[dict[bytes, Prelude]] = {}
        self._jsonb: Final[dict[bytes, Prelude]] = {}

    def read(self, frame: Frame) -> RequestHead:
        """Return what routing needs of a request; raises CodecError when its body is malformed."""
        try:
            serialization = frame.serialization
            if serialization == HESSIAN2:
                return self._read_hessian(frame.raw)
            if serialization == FASTJSON2:
                return self._read_jsonb(frame.raw)
        except IndexError:
            raise CodecError("message ends inside a value") from None
        return UNREADABLE

    def _read_hessian(self, raw: bytes) -> RequestHead:
        prelude: Prelude | None = None
        pos = _hessian_prelude_end(raw)
        if pos != _NOT_SIMPLE:
            prelude = self._hessian.get(raw[HEADER_SIZE:pos])
        if prelude is None:
            prelude = _read_hessian_prelude(raw)
            _keep_prelude(self._hessian, raw, prelude)
        pos = prelude.args_at
        method = prelude.method
        name = b""  # the encoded first argument, when that names the method
        if prelude.is_generic:
            name = _NO_NAME
            if is_string(raw, pos):
                method, end = read_string(raw, pos)
                name = raw[pos:end]
        definitions: list[int] = []
        arity: i64 = prelude.arity
        while arity > 0:
            pos = skip_value(raw, pos, definitions)
            arity -= 1
        tail = _tail(name, raw, pos)
        head = prelude.by_tail.get(tail)
        if head is None:
            wanted = attachments.collect_hessian(raw, pos, definitions)
            entries = wanted.entries
            head = prelude.by_wanted.get(name + entries)
            if head is None:
                head = prelude.make_head(method, attachments.decode_hessian(entries))
                keep_head(prelude.by_wanted, name + entries, head)
            if tail and wanted.is_plain:
                keep_head(prelude.by_tail, tail, head)
        return head

    def _read_jsonb(self, raw: bytes) -> RequestHead:
        pos: i64 = HEADER_SIZE
        for _ in range(_PRELUDE_STRINGS):
            pos = jsonb.document_end(raw, pos)
        prelude = self._jsonb.get(raw[HEADER_SIZE:pos])
        if prelude is None:
            prelude = _read_jsonb_prelude(raw)
            _keep_prelude(self._jsonb, raw, prelude)
        method: str | None = prelude.method
        name = b""
        if prelude.is_generic:
            name = _NO_NAME
            if jsonb.is_string(raw, pos + jsonb.LENGTH_SIZE):
                method, end = jsonb.read_text_document(raw, pos)
                name = raw[pos:end]
        arity: i64 = prelude.arity
        while arity > 0:
            pos = jsonb.document_end(raw, pos)
            arity -= 1
        tail = _tail(name, raw, pos)
        head = prelude.by_tail.get(tail)
        if head is None:
            entries = attachments.collect_jsonb(raw, pos).entries
            head = prelude.by_wanted.get(name + entries)
            if head is None:
                head = prelude.make_head(method or "", attachments.decode_jsonb(entries))
                keep_head(prelude.by_wanted, name + entries, head)
            if tail:
                keep_head(prelude.by_tail, tail, head)
        return head


def _keep_prelude(cache: dict[bytes, Prelude], raw: bytes, prelude: Prelude) -> None:
    if prelude.args_at <= HEADER_SIZE + MAX_PRELUDE_SIZE:
        if len(cache) >= MAX_PRELUDES:
            cache.clear()
        cache[raw[HEADER_SIZE : prelude.args_at]] = prelude


def _tail(name: bytes, raw: bytes, pos: i64) -> bytes:
    """Return the bytes a head depends on beside the prelude; empty when they are too many to keep.

    A generic call's ``name`` is never empty and ends by itself, so that different requests cannot
    give the same bytes.
    """
    if len(raw) - pos > MAX_KEY_SIZE:
        return b""
    if name:
        return name + raw[pos:]
    return raw[pos:]


def _hessian_prelude_end(raw: bytes) -> i64:
    """Return where the arguments start, if the strings before them are short ASCII ones.

    For other strings the answer may be wrong. It is used as a guess only: what lies before it is
    looked up among the preludes that were read in full, so that a wrong guess finds nothing.
    """
    pos: i64 = HEADER_SIZE
    end: i64 = len(raw) - 1  # so that the second byte of a string may be read as well
    for _ in range(_PRELUDE_STRINGS):
        if pos >= end:
            return _NOT_SIMPLE
        tag: i64 = raw[pos]
        if tag <= 0x1F:
            pos += 1 + tag
        elif 0x30 <= tag <= 0x33:
            low: i64 = raw[pos + 1]
            pos += 2 + ((tag - 0x30) << 8 | low)
        elif tag == TAG_NULL:
            pos += 1
        else:
            return _NOT_SIMPLE
    return pos


def _read_hessian_prelude(raw: bytes) -> Prelude:
    texts: list[str] = []
    pos: i64 = HEADER_SIZE
    for _ in range(_PRELUDE_STRINGS):
        text, pos = read_string_or_null(raw, pos)
        texts.append(text or "")
    return Prelude(texts[1], texts[2], texts[3], texts[4], pos)


def _read_jsonb_prelude(raw: bytes) -> Prelude:
    texts: list[str] = []
    pos: i64 = HEADER_SIZE
    for _ in range(_PRELUDE_STRINGS):
        text, pos = jsonb.read_text_document(raw, pos)
        texts.append(text or "")
    return Prelude(texts[1], texts[2], texts[3], texts[4], pos)


def append_attachments(raw: bytes, serialization: int, pairs: list[tuple[str, str]]) -> bytes:
    """Return the request with string attachments added; an added key overrides an earlier one.

    ``raw`` is a request that was read without error. The pairs go behind the entries that are
    there, since both peers let the last of equal keys win; nothing before them changes. A request
    in an encoding that is not understood is returned as it is. Raises CodecError when the body
    does not end with attachments.
    """
    if serialization == HESSIAN2:
        return _append_hessian(raw, pairs)
    if serialization == FASTJSON2:
        return _append_jsonb(raw, pairs)
    return raw


def _append_hessian(raw: bytes, pairs: list[tuple[str, str]]) -> bytes:
    last = len(raw) - 1
    start = b""
    if raw[last] == TAG_NULL and last >= HEADER_SIZE:
        start = b"H"
    elif raw[last] != TAG_END or last <= HEADER_SIZE:
        raise CodecError("no attachments at the end of the message")
    return with_body(raw, b"%b%b%bZ" % (raw[HEADER_SIZE:last], start, write.write_entries(pairs)))


def _append_jsonb(raw: bytes, pairs: list[tuple[str, str]]) -> bytes:
    try:
        at = jsonb.last_document(raw, HEADER_SIZE)
    except IndexError:
        raise CodecError("message ends inside a value") from None
    last = len(raw) - 1
    document = raw[at + jsonb.LENGTH_SIZE : last]
    if raw[last] == jsonb.NULL and not document:
        document = b"\xa6"
    elif raw[last] != jsonb.OBJECT_END:
        raise CodecError("no attachments at the end of the message")
    document = b"%b%b\xa5" % (document, jsonb.write_entries(pairs))
    length = len(document).to_bytes(jsonb.LENGTH_SIZE, "big")
    return with_body(raw, b"%b%b%b" % (raw[HEADER_SIZE:at], length, document))


def reply_outcome(frame: Frame) -> int:
    """Return how a reply ends its call, a constant of ``model.outcome``.

    Read from the status and, for status 20, from the kind in front of the value. The kind of an
    encoding that is not understood is unknown; such a reply counts as success.
    """
    if frame.oversize:
        return outcome.REJECTED
    status = frame.status
    if status == STATUS_OK:
        serialization = frame.serialization
        if serialization not in (HESSIAN2, FASTJSON2):
            return outcome.OK
        return _outcome_of_kind(_reply_kind(frame.raw, serialization))
    if status in (STATUS_CLIENT_TIMEOUT, STATUS_SERVER_TIMEOUT):
        return outcome.TIMEOUT
    return outcome.PROVIDER_ERROR


def _outcome_of_kind(kind: int) -> int:
    if kind in (KIND_EXCEPTION, KIND_EXCEPTION_WITH_ATTACHMENTS):
        return outcome.BUSINESS_ERROR
    if KIND_EXCEPTION <= kind <= LAST_KIND:
        return outcome.OK
    return outcome.CODEC_ERROR


def _reply_kind(raw: bytes, serialization: int) -> int:
    """Return the integer in front of a reply's value, -1 when there is none."""
    try:
        if serialization == HESSIAN2:
            number = read_number(raw, HEADER_SIZE)
        else:
            number = jsonb.read_number(raw, HEADER_SIZE + jsonb.LENGTH_SIZE)
    except IndexError:
        return -1
    return -1 if number is None else number


_EVENTS: Final[dict[bytes, int]] = {
    b"": HEARTBEAT,
    b"N": HEARTBEAT,
    b"\x01R": READONLY,
    b"\x01W": WRITEABLE,
    jsonb.NULL_DOCUMENT: HEARTBEAT,
    b"\x00\x00\x00\x02\x4aR": READONLY,
    b"\x00\x00\x00\x02\x4aW": WRITEABLE,
}


def event_kind(frame: Frame) -> int:
    """Return HEARTBEAT, READONLY, WRITEABLE, or OTHER for an event with another body.

    A heartbeat is an event with the encoding of null, or with no body at all. In an encoding that
    is not understood every event whose sender waits for a reply is taken for a heartbeat, since
    Dubbo sends its other events without waiting.
    """
    if frame.oversize:
        return OTHER
    kind = _EVENTS.get(frame.raw[HEADER_SIZE:], OTHER)
    if kind == OTHER and frame.is_two_way and frame.serialization not in (HESSIAN2, FASTJSON2):
        return HEARTBEAT
    return kind
