"""Real peers in Go, built once: the gRPC interop client and server of grpc-go, and h2spec."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.e2e.peers import PeersUnavailableError, free_port
from tests.e2e.server_process import ServerProcess

PROJECT = Path(__file__).parent / "go"
TARGET = PROJECT / "target"
H2SPEC = "github.com/summerwind/h2spec/cmd/h2spec"
BUILD_LIMIT = 400.0
CASE_LIMIT = 40.0

UNREACHABLE = (
    "dial tcp",
    "no such host",
    "403 Forbidden",
    "502 Bad Gateway",
    "503 Service Unavailable",
    "TLS handshake timeout",
    "module lookup disabled",
    "toolchain not available",
    "requires go",
    "unknown directive",
    "invalid go version",
)
"""What Go says without a module proxy, or when it is too old and cannot fetch a newer one."""

CASES = (
    "empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong",
    "empty_stream", "cancel_after_begin", "cancel_after_first_response",
    "timeout_on_sleeping_server", "custom_metadata", "status_code_and_message",
    "special_status_message", "unimplemented_method", "unimplemented_service",
    "large_messages", "deadline", "metadata", "gzip", "parallel",
)  # fmt: skip


def build(name: str, package: str = ".") -> Path:
    """Build one program and return its path; Go itself knows whether anything changed.

    Raises ``PeersUnavailableError`` without Go or its modules, ``RuntimeError`` with Go's output
    when the sources do not compile.
    """
    if shutil.which("go") is None:
        raise PeersUnavailableError("no go")
    program = TARGET / name
    run = subprocess.run(
        ["go", "build", "-trimpath", "-o", str(program), package],
        cwd=PROJECT, capture_output=True, text=True, timeout=BUILD_LIMIT, check=False,
    )  # fmt: skip
    output = run.stdout + run.stderr
    if run.returncode == 0:
        return program
    if any(phrase in output for phrase in UNREACHABLE):
        raise PeersUnavailableError(f"Go cannot load {package}: {output[-600:]}")
    raise RuntimeError(f"{package} does not compile:\n{output}")


class GoPeers:
    """The built client and server."""

    def __init__(self, directory: Path) -> None:
        self._program = str(build("peer"))
        self._directory = directory

    def serve(self, name: str, streams: int = 0) -> ServerProcess:
        """Start a server that takes so many streams on a connection (0: any number)."""
        port = free_port()
        words = ("server", f"127.0.0.1:{port}", str(streams))
        return ServerProcess(self._directory / f"{name}.log", port, self._program, *words)

    def run(self, case: str, target: str, group: str = "") -> None:
        """Run one case of the client; it fails the test with the client's own words."""
        run = subprocess.run(
            [self._program, "client", target, group, case],
            capture_output=True, text=True, timeout=CASE_LIMIT, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
