"""Texts with an inner form: addresses, registry URLs, networks, service keys.

Each parser raises ValueError with a plain sentence. The schema names a form, the reader applies it,
and the rings that use the text parse it with the same function.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from sidecar.model.service import ServiceKey

DEFAULT_ROOT: Final = "/dubbo"  # Dubbo's own default (the registry parameter `group`)
DEFAULT_ZOOKEEPER_PORT: Final = 2181
MAX_PORT: Final = 65535
MAX_UNIX_PATH: Final = 107  # bytes; sockaddr_un of Linux has 108 with the closing zero

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_SERVICE: Final = re.compile(r"([^\s/:*,]+/)?[\w.$-]+(:[^\s/:*,]+)?")


class RegistryUrl(NamedTuple):
    """A registry URL in parts; ``path`` is the ZooKeeper root or the file's path."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    path: str


def parse_address(text: str) -> tuple[str, int]:
    """Read ``host:port`` or ``[ipv6]:port``; port 0 means "any free one"."""
    host, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} has no port; write host:port")
    return _host(host, text), _port(port, text)


def parse_listen_address(text: str) -> tuple[str, int]:
    """Read ``host:port`` or ``unix:///path``; a path is returned with port -1."""
    if not text.startswith("unix:"):
        return parse_address(text)
    path = text.removeprefix("unix://")
    if not path.startswith("/") or len(path.encode()) > MAX_UNIX_PATH:
        raise ValueError(
            f"{text!r} is no Unix socket; write unix:///path, {MAX_UNIX_PATH} bytes at most"
        )
    return path, -1


def parse_prefix(text: str) -> str:
    """Read the prefix of a path: it begins with a slash."""
    if not text.startswith("/") or text != text.strip():
        raise ValueError(f"{text!r} is no prefix of a path; write for example /api/orders/")
    return text


def parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Read a network such as ``127.0.0.0/8`` or ``fd00::/8``."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        pass
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is not a network; write for example 127.0.0.0/8") from None
    raise ValueError(f"{text!r} has bits set beyond its length; the network is {network}")


def parse_service(text: str) -> ServiceKey:
    """Read ``[group/]interface[:version]``, without wildcards or lists."""
    if _SERVICE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a service; write [group/]interface[:version]")
    return ServiceKey.parse(text)


def parse_registry_url(text: str) -> RegistryUrl:
    """Read ``zookeeper://host[:port],.../root?backup=host:port,...`` or ``file:///path``."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise ValueError(f"{text!r} is not a URL; write zookeeper://host:port or file:///path")
    if scheme == "file":
        return RegistryUrl("file", (), _file_path(rest))
    if scheme == "zookeeper":
        return _zookeeper_url(rest)
    if scheme == "nacos":
        raise ValueError("this version has no Nacos registry; it has zookeeper and file")
    raise ValueError(f"unknown registry {scheme!r}; known are zookeeper and file")


def _file_path(rest: str) -> str:
    if not rest.startswith("/") or rest == "/":
        raise ValueError("a file registry needs an absolute path: file:///path/to/registry.yaml")
    return rest


def _zookeeper_url(rest: str) -> RegistryUrl:
    place, _, query = rest.partition("?")
    authority, _, root = place.partition("/")
    if "@" in authority:
        raise ValueError("put the credentials into the keys username and password, not the URL")
    names = authority.split(",")
    root = root.strip("/")
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key == "backup":
            names.extend(value.split(","))
        elif key == "group":
            root = value.strip("/")
        else:
            raise ValueError(f"unknown parameter {key!r}; known are backup and group")
    hosts = tuple(_zookeeper_host(name) for name in names)
    return RegistryUrl("zookeeper", hosts, f"/{root}" if root else DEFAULT_ROOT)


def _zookeeper_host(name: str) -> tuple[str, int]:
    bare_ipv6 = name.startswith("[") and name.endswith("]")
    if bare_ipv6 or ":" not in name:
        return _host(name, name), DEFAULT_ZOOKEEPER_PORT
    host, port = parse_address(name)
    if port == 0:
        raise ValueError(f"{name!r}: port 0 cannot be called")
    return host, port


def _host(host: str, text: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        try:
            return str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            raise ValueError(f"{text!r}: {host} is not an IPv6 address") from None
    if not host:
        raise ValueError(f"{text!r} has no host; write host:port")
    if ":" in host:
        raise ValueError(f"{text!r}: put an IPv6 address in brackets, [::1]:20880")
    if _NAME.fullmatch(host) is None:
        raise ValueError(f"{text!r}: {host!r} is not a host name or address")
    return host


def _port(port: str, text: str) -> int:
    if not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > MAX_PORT:
        raise ValueError(f"{text!r}: {port!r} is not a port (0 to {MAX_PORT})")
    return int(port)


def _check_switches(text: str) -> None:
    """Accept Dubbo's router switch: names separated by commas, each maybe with a minus."""
    for name in filter(None, (part.strip() for part in text.split(","))):
        if re.fullmatch(r"-?[A-Za-z][\w-]*", name) is None:
            raise ValueError(f"{name!r} is not a router switch; write for example -tag")


FORMS: Final[dict[str, Callable[[str], object]]] = {
    "address": parse_address,
    "listen": parse_listen_address,
    "prefix": parse_prefix,
    "network": parse_network,
    "registry": parse_registry_url,
    "router": _check_switches,
    "service": parse_service,
}
