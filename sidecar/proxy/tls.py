"""TLS on both sides: contexts from the settings, made once at the start.

The files are read here first, each on its own, because OpenSSL does not say which of them it means.
TLS 1.2 is the least; the ciphers are those of Python.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import Final, NamedTuple

from sidecar.model.errors import SidecarError
from sidecar.settings.schema import Listener, ListenerTls, Settings, UpstreamTls

HTTP2: Final = "h2"
HTTP1: Final = "http/1.1"

MAX_FILE: Final = 4 * 1024 * 1024  # bytes; the authorities of a whole system take 200 KiB

_CERTIFICATE: Final = "CERTIFICATE-----"
_KEY: Final = "PRIVATE KEY-----"


class TlsFileError(SidecarError):
    """A file that cannot be used; ``field`` names the setting that names the file."""

    def __init__(self, field: str, path: str, why: str, is_missing: bool = False) -> None:
        super().__init__(f"{path}: {why}")
        self.field: Final = field
        self.is_missing: Final = is_missing


class TlsProblem(NamedTuple):
    """A setting, as a path of keys and indexes from the root of the settings, and its problem."""

    path: tuple[str | int, ...]
    error: TlsFileError


def listener_context(listener: Listener) -> ssl.SSLContext | None:
    """Return the context of a listener, None for a plain one; raises TlsFileError."""
    tls = listener.tls
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION  # HTTP/2 forbids it (RFC 9113, 9.2.1)
    _load_own(context, tls)
    if tls.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        _load_authorities(context, "client_ca", tls.client_ca)
    if listener.protocol != "dubbo":
        context.set_alpn_protocols([HTTP2, HTTP1])
    return context


def upstream_context(tls: UpstreamTls, application_protocol: str) -> ssl.SSLContext:
    """Return the context for connections to providers; raises TlsFileError.

    ``application_protocol`` is offered by ALPN unless it is empty.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca:
        _load_authorities(context, "ca", tls.ca)
    else:
        context.set_default_verify_paths()
    if tls.certificate:
        _load_own(context, tls)
    if application_protocol:
        context.set_alpn_protocols([application_protocol])
    return context


class ProviderTls:
    """TLS towards the providers of one protocol.

    ``application_protocol`` is what a provider must agree to by ALPN; empty: none is asked for.
    Raises SidecarError when a file cannot be used.
    """

    def __init__(self, settings: UpstreamTls, application_protocol: str) -> None:
        self._settings: Final = settings
        self._application_protocol: Final = application_protocol
        self._context: ssl.SSLContext | None = None
        self._making: Final = asyncio.Lock()
        self.server_name: Final = settings.server_name
        if settings.mode != "never" and (settings.ca or settings.certificate):
            try:
                self._context = upstream_context(settings, application_protocol)
            except TlsFileError as error:
                raise SidecarError(f"cannot call providers in TLS: {error}") from error

    def is_for(self, is_registered: bool) -> bool:
        """Whether a provider is called in TLS; ``is_registered`` says that it asks for that."""
        mode = self._settings.mode
        return mode == "always" or (mode == "registered" and is_registered)

    async def context(self, loop: asyncio.AbstractEventLoop) -> ssl.SSLContext:
        """Return the context of all connections.

        The authorities of the system are loaded by the first one, in a thread: they take 0.1 s and
        1 MiB, and nearly all fleets are plain.
        """
        async with self._making:
            if self._context is None:
                self._context = await loop.run_in_executor(
                    None, upstream_context, self._settings, self._application_protocol
                )
        return self._context

    def complaint(self, transport: asyncio.Transport) -> str:
        """Return why a new connection is of no use, "" when it is."""
        wanted = self._application_protocol
        agreed = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        if not wanted or agreed == wanted:
            return ""
        return f"TLS: the provider does not agree to {wanted} by ALPN"


def tls_problems(settings: Settings) -> Iterator[TlsProblem]:
    """Yield what is wrong with the files that the settings name."""
    for index, listener in enumerate(settings.listeners):
        try:
            listener_context(listener)
        except TlsFileError as error:
            yield TlsProblem(("listeners", index, "tls", error.field), error)
    if settings.upstream.tls.mode != "never":
        try:
            upstream_context(settings.upstream.tls, "")
        except TlsFileError as error:
            yield TlsProblem(("upstream", "tls", error.field), error)


def _load_own(context: ssl.SSLContext, tls: ListenerTls | UpstreamTls) -> None:
    """Load a certificate chain and its key."""
    _check_file("certificate", tls.certificate, _CERTIFICATE, "no certificate")
    _check_file("key", tls.key, _KEY, "no private key")
    try:
        # Without a password OpenSSL would ask for it on the terminal, and wait.
        context.load_cert_chain(tls.certificate, tls.key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = f"not the key of {tls.certificate}"
            raise TlsFileError("key", tls.key, why) from error
        raise _unusable(tls, error) from error
    except OSError as error:
        raise TlsFileError("certificate", tls.certificate, str(error)) from error


def _unusable(tls: ListenerTls | UpstreamTls, error: ssl.SSLError) -> TlsFileError:
    """Find out which of two files that look right is the bad one."""
    probe = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        probe.load_verify_locations(tls.certificate)
    except ssl.SSLError as certificate_error:
        return _damaged("certificate", tls.certificate, certificate_error)
    if "ENCRYPTED" in _read("key", tls.key):
        return TlsFileError("key", tls.key, "is encrypted; the sidecar has no password for it")
    return _damaged("key", tls.key, error)


def _damaged(field: str, path: str, error: ssl.SSLError) -> TlsFileError:
    return TlsFileError(field, path, f"cannot be read as PEM ({ssl_text(error)})")


def _load_authorities(context: ssl.SSLContext, field: str, path: str) -> None:
    _check_file(field, path, _CERTIFICATE, "no certificate")
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise _damaged(field, path, error) from error


def _check_file(field: str, path: str, mark: str, missing: str) -> None:
    if mark not in _read(field, path):
        raise TlsFileError(field, path, f"has {missing} in PEM form")


def _read(field: str, path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_FILE).decode("latin-1")
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        raise TlsFileError(field, path, error.strerror or str(error), is_missing) from error


def ssl_text(error: ssl.SSLError) -> str:
    """Return what went wrong in TLS, without OpenSSL's file names and line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is refused: {error.verify_message.rstrip('.')}"
    reason: str | None = getattr(error, "reason", None)  # missing in errors that Python makes
    if reason:
        return reason.lower().replace("_", " ")
    text = error.strerror or str(error)
    return text.partition(" (_ssl.c")[0]
