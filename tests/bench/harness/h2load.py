"""The load generator of nghttp2, a closed loop: so many clients, so many streams on each.

It tells a failed stream and an HTTP status that is not 200, but reads neither gRPC trailers nor
messages; `grpc_check` makes sure beforehand that calls are really answered.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from harness.native import INTERFACE, VERSION, LoadError
from harness.process import Place

BODY_BYTES = 249  # of a call, the five bytes before the message included
HEADERS = {
    "te": "trailers",
    "content-type": "application/grpc",
    "user-agent": "grpc-c/50.0.0 (linux; chttp2)",
    "tri-service-version": VERSION,
}
# Windows of a consumer with Dubbo's defaults for Triple: 8 MiB for a stream; as much of them as
# there are streams for the connection.
WINDOW_BITS = {"-w": 23, "-W": 30}

_REQUESTS = re.compile(
    r"requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed,"
    r" (\d+) errored, (\d+) timeout"
)
_STATUS = re.compile(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx")
_DATA = re.compile(r"\((\d+)\) data$", re.MULTILINE)


def is_here() -> bool:
    """Tell whether the program is installed."""
    return shutil.which("h2load") is not None


def calls_per_second(
    port: int, clients: int, streams: int, seconds: float, warm_up: float, place: Place, out: Path
) -> float:
    """Make unary calls and return how many were answered per second.

    Raises LoadError when a single one failed.
    """
    headers = {**HEADERS, "grpc-timeout": "3S"}
    options = ["-c", str(clients), "-m", str(streams), "--warm-up-time", f"{warm_up * 1000:.0f}ms"]
    text = _run(port, "sayHello", headers, options, seconds, place, out)
    done = int(_found(_REQUESTS, text)[2])
    if done == 0:
        raise LoadError(f"no call was answered:\n{text}")
    return done / seconds


def bytes_per_second(
    port: int, clients: int, streams: int, seconds: float, place: Place, out: Path
) -> float:
    """Read endless streams of 1 MiB messages and return the bytes of DATA frames per second.

    Raises LoadError when a stream failed or was refused.
    """
    headers = {**HEADERS, "messages": str(10**9)}
    options = ["-c", str(clients), "-m", str(streams)]
    text = _run(port, "download", headers, options, seconds, place, out)
    if int(_found(_STATUS, text)[1]) != clients * streams:
        raise LoadError(f"{clients * streams} streams were wanted:\n{text}")
    return int(_found(_DATA, text)[1]) / seconds


def _run(
    port: int,
    method: str,
    headers: dict[str, str],
    options: list[str],
    seconds: float,
    place: Place,
    out: Path,
) -> str:
    body = out / "run" / "message.grpc"
    body.parent.mkdir(parents=True, exist_ok=True)
    body.write_bytes(message(BODY_BYTES))
    words = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    windows = [word for name, bits in WINDOW_BITS.items() for word in (name, str(bits))]
    url = f"http://127.0.0.1:{port}/{INTERFACE}/{method}"
    duration = ["-D", f"{seconds * 1000:.0f}ms"]
    command = ["h2load", *options, *duration, "-d", str(body), *words, *windows, url]
    done = subprocess.run(place.command(command), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LoadError(f"{' '.join(command)}: {done.stderr.strip()}")
    failures = [int(_found(_REQUESTS, done.stdout)[field]) for field in (4, 5, 6)]
    statuses = [int(_found(_STATUS, done.stdout)[field]) for field in (2, 3, 4)]
    if any(failures) or any(statuses):
        raise LoadError(f"{' '.join(command)}:\n{done.stdout}")
    return done.stdout


def message(size: int) -> bytes:
    """Return a gRPC message that takes so many bytes with the five before it."""
    return bytes(1) + (size - 5).to_bytes(4, "big") + b"x" * (size - 5)


def _found(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.search(text)
    if found is None:
        raise LoadError(f"h2load prints what is not understood:\n{text}")
    return found
