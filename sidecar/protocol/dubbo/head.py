"""What routing needs of a request, made from its first five strings and its attachments."""

from __future__ import annotations

from typing import Final, final

from sidecar.model.errors import CodecError
from sidecar.model.service import ServiceKey
from sidecar.protocol.dubbo import attachments as keys
from sidecar.protocol.dubbo.attachments import Attachments

NO_TIMEOUT: Final = -1
MAX_TIMEOUT_MS: Final = 2**31 - 1  # Dubbo keeps a timeout in a Java int
# Longest service, group, version or method name, in characters: such names become registry paths,
# labels and reply texts. Longer ones are refused; the JVM's own limit is 65,535 bytes.
MAX_NAME: Final = 1024
MAX_ARGUMENTS: Final = 255  # the JVM's own limit
MAX_DESCRIPTOR: Final = 65_535  # characters, as well
# Distinct heads remembered for one method: few combinations of tag and timeout occur.
MAX_HEADS: Final = 16
MAX_KEY_SIZE: Final = 512  # bytes; ordinary attachments take 100 to 300

_GENERIC_METHODS: Final = ("$invoke", "$invokeAsync")
_GENERIC_DESCRIPTOR: Final = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;"
_PRIMITIVES: Final = "VZBCDFIJS"


@final
class RequestHead:
    """What routing sees of one request; immutable, and shared by requests with the same head.

    ``service`` is the text of the ServiceKey. ``interface``, ``version``, ``group`` and ``path``
    are those the provider will use: attachments win over the strings in front of the arguments, and
    ``0.0.0`` is no version. ``method`` is the real one for generic calls. ``timeout_ms`` is the
    time the consumer will still wait in milliseconds, -1 when the request does not say.
    ``is_readable`` is False when the body's encoding is not understood; then all else is empty.
    """

    def __init__(
        self,
        interface: str,
        version: str,
        group: str,
        service: str,
        path: str,
        method: str,
        descriptor: str,
        tag: str,
        force_tag: bool,
        service_tag: str,
        timeout_ms: int,
        application: str,
        has_callback: bool,
        is_readable: bool,
    ) -> None:
        self.interface: Final = interface
        self.version: Final = version
        self.group: Final = group
        self.service: Final = service
        self.path: Final = path
        self.method: Final = method
        self.descriptor: Final = descriptor
        self.tag: Final = tag
        self.force_tag: Final = force_tag
        self.service_tag: Final = service_tag
        self.timeout_ms: Final = timeout_ms
        self.application: Final = application
        self.has_callback: Final = has_callback
        self.is_readable: Final = is_readable


@final
class Prelude:
    """The strings in front of the arguments of one method, and the heads made with them.

    ``args_at`` is the offset of the first argument in the frame, ``arity`` the number of arguments.
    ``by_tail`` has the heads by all bytes of their attachments, ``by_wanted`` by those of the
    wanted entries. Raises CodecError when the names or the parameter descriptor cannot be right.
    """

    def __init__(self, path: str, version: str, method: str, descriptor: str, args_at: int) -> None:
        if not method:
            raise CodecError("no method name")
        _check_name(method, "method")
        self.path: Final = path
        self.version: Final = version
        self.method: Final = method
        self.descriptor: Final = descriptor
        self.args_at: Final = args_at
        self.arity: Final = count_arguments(descriptor)
        self.is_generic: Final = method in _GENERIC_METHODS and descriptor == _GENERIC_DESCRIPTOR
        self.by_tail: Final[dict[bytes, RequestHead]] = {}
        self.by_wanted: Final[dict[bytes, RequestHead]] = {}

    def make_head(self, method: str, attachments: Attachments) -> RequestHead:
        """Combine with the attachments; ``method`` is the real name, the own one unless generic."""
        found = attachments.found
        path = found.get(keys.PATH, self.path)
        interface = found.get(keys.INTERFACE, self.path)
        version = found.get(keys.VERSION, self.version)
        group = found.get(keys.GROUP, "")
        if method is not self.method:
            _check_name(method, "method")
        service = _make_key(interface, version, group)
        return RequestHead(
            interface,
            service.version,
            group,
            service.text,
            path,
            method,
            self.descriptor,
            found.get(keys.TAG, ""),
            found.get(keys.FORCE_TAG, "").lower() == "true",
            found.get(keys.SERVICE_TAG, ""),
            _budget(found),
            found.get(keys.APPLICATION, ""),
            attachments.has_callback,
            True,
        )


UNREADABLE: Final = RequestHead(
    "", "", "", "", "", "", "", "", False, "", NO_TIMEOUT, "", False, False
)


def keep_head(heads: dict[bytes, RequestHead], key: bytes, head: RequestHead) -> None:
    """Remember a head under the bytes that determine it, unless they are too many."""
    if len(key) <= MAX_KEY_SIZE:
        if len(heads) >= MAX_HEADS:
            heads.clear()
        heads[key] = head


def count_arguments(descriptor: str) -> int:
    """Return how many values a JVM parameter descriptor without parentheses stands for."""
    if len(descriptor) > MAX_DESCRIPTOR:
        raise CodecError("parameter descriptor too long")
    count = 0
    at = 0
    end = len(descriptor)
    while at < end:
        sign = descriptor[at]
        if sign == "L":
            at = descriptor.find(";", at)
            if at < 0:
                raise CodecError("bad parameter descriptor")
            count += 1
        elif sign in _PRIMITIVES:
            count += 1
        elif sign != "[" or at + 1 == end:
            raise CodecError("bad parameter descriptor")
        at += 1
    if count > MAX_ARGUMENTS:
        raise CodecError(f"more than {MAX_ARGUMENTS} arguments")
    return count


def _make_key(interface: str, version: str, group: str) -> ServiceKey:
    """Build the service key; names from which its text could not be read back are refused."""
    if not interface:
        raise CodecError("no interface name")
    _check_name(interface, "interface")
    _check_name(version, "version")
    _check_name(group, "group")
    if "/" in interface or ":" in interface or " " in interface or "/" in version:
        raise CodecError("bad character in the service name")
    return ServiceKey(interface, version, group)


def _check_name(name: str, what: str) -> None:
    if len(name) > MAX_NAME:
        raise CodecError(f"{what} name longer than {MAX_NAME} characters")
    if not name.isprintable():
        raise CodecError(f"bad character in the {what} name")


def _budget(found: dict[str, str]) -> int:
    """Return the consumer's own limit: what remains of a running countdown, else its timeout."""
    for key in (keys.REMAINING, keys.REMAINING_LOWER, keys.TIMEOUT):
        text = found.get(key)
        if text is not None:
            timeout = parse_timeout(text)
            if timeout != NO_TIMEOUT:
                return timeout
    return NO_TIMEOUT


def parse_timeout(text: str) -> int:
    """Read a decimal number of milliseconds; what is not a positive number is no timeout.

    Dubbo's consumers replace a timeout of 0 or less by their default, so it says nothing here.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        return NO_TIMEOUT
    timeout = min(int(text), MAX_TIMEOUT_MS)
    return timeout if timeout > 0 else NO_TIMEOUT
