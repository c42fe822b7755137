"""A certificate authority of our own and one certificate for 127.0.0.1, made with openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Certificates:
    """Paths of PEM files: ``authority``, and the server's ``chain`` and ``key``."""

    def __init__(self, directory: Path) -> None:
        self.authority = directory / "authority.pem"
        self.chain = directory / "server.pem"
        self.key = directory / "server.key"
        authority_key = directory / "authority.key"
        _make(self.authority, authority_key, "-subj", "/CN=tests")
        _make(
            self.chain, self.key, "-subj", "/CN=127.0.0.1",
            "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
            "-addext", "basicConstraints=critical,CA:FALSE",
            "-CA", str(self.authority), "-CAkey", str(authority_key),
        )  # fmt: skip


def _make(certificate: Path, key: Path, *options: str) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-days", "2", "-nodes", "-newkey", "ec",
         "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-out", str(certificate), "-keyout", str(key), *options],
        check=True, capture_output=True,
    )  # fmt: skip
