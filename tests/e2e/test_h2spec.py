"""h2spec, the conformance tests of HTTP/2, against the listener and against nghttp2 alone.

Whatever fails is listed with its reason; what fails and is not listed fails here, and what is
listed and does not fail, too.
"""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e import go_peers
from tests.e2e.conftest import GO_SKIPPED
from tests.e2e.grpc_scene import PLAIN, provider
from tests.e2e.peers import PeersUnavailableError, free_port
from tests.e2e.server_process import ServerProcess

pytestmark = [pytest.mark.go, pytest.mark.timeout(120, func_only=True)]

LEAST_CASES = 140
RUN_LIMIT = 100.0

NGHTTP2 = {
    # A frame for a stream that is over is dropped without an answer, so that a late peer does no
    # harm; RFC 9113, section 5.1, leaves that to the endpoint.
    "http2/5.1 closed: Sends a DATA frame after sending RST_STREAM frame",
    "http2/5.1 closed: Sends a HEADERS frame after sending RST_STREAM frame",
    "http2/5.1 closed: Sends a DATA frame",
    "http2/5.1 closed: Sends a HEADERS frame",
    "http2/5.1.1 Sends stream identifier that is numerically smaller than previous",
    # nghttp2 ends the connection, not only the stream: nobody overflows a window by mistake.
    "http2/6.9.1 Sends multiple WINDOW_UPDATE frames increasing the flow control window to above "
    "2^31-1 on a stream",
    # Priorities are deprecated by RFC 9113 and not read at all.
    "http2/5.3.1 Sends PRIORITY frame that depend on itself",
    "http2/6.3 Sends a PRIORITY frame with 0x0 stream identifier",
}
"""Cases in which nghttp2 does not do what h2spec, written for RFC 7540, wants."""

LISTENER = NGHTTP2 | {
    # What does not begin as HTTP/2 is HTTP/1.1: it is answered with status 400, and closed then.
    "http2/3.5 Sends invalid connection preface",
}


@pytest.fixture(scope="session")
def h2spec() -> Path:
    """The program; skips without Go or its modules."""
    try:
        return go_peers.build("h2spec", go_peers.H2SPEC)
    except PeersUnavailableError as reason:
        pytest.skip(f"{GO_SKIPPED}{reason}")


def run(program: Path, port: int, report: Path, timeout: int, *specs: str) -> dict[str, bool]:
    """Run the cases of some sections, strict ones too; return which ones are good."""
    run = subprocess.run(
        [str(program), "--strict", "--timeout", str(timeout), "--port", str(port),
         "--path", f"/{PLAIN}/call", "--junit-report", str(report), *specs],
        capture_output=True, text=True, timeout=RUN_LIMIT, check=False,
    )  # fmt: skip
    assert report.exists(), run.stdout + run.stderr
    text = re.sub(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", b"?", report.read_bytes())  # of frames, as is
    return {
        f"{case.get('package')} {case.get('classname')}": all(
            each.tag == "skipped" for each in case
        )
        for case in ElementTree.fromstring(text).iter("testcase")
    }


def failures(program: Path, port: int, report: Path, listed: set[str]) -> set[str]:
    """Run every case and return the names of those that fail.

    Sections with a case that should be good get a second chance: h2spec takes what comes late, or
    in pieces, for a failure.
    """
    found = run(program, port, report, 1)
    assert len(found) >= LEAST_CASES
    bad = {name for name, is_good in found.items() if not is_good}
    doubtful = {name.split()[0] for name in bad - listed}
    if doubtful:
        found |= run(program, port, report, 3, *doubtful)
    return {name for name, is_good in found.items() if not is_good}


@pytest.fixture(scope="module")
def plain(scene) -> ServerProcess:
    """The plain server, which is a provider, too.

    It answers when a request is complete. What the sidecar refused by itself would be answered
    before the frames that a case is about have come.
    """
    port = free_port()
    command = (sys.executable, "-m", "tests.e2e.plain_http2", str(port))
    server = ServerProcess(scene.directory / "plain.log", port, *command)
    scene.adopt("plain", server).wait_ready()
    scene.register("plain", [provider(port, PLAIN)])
    return server


@pytest.fixture(scope="module")
def failed(scene, plain, h2spec, tmp_path_factory) -> dict[str, set[str]]:
    """The failures of the listener and of nghttp2; both mostly wait, so they run at once."""
    directory = tmp_path_factory.mktemp("h2spec")
    servers = {
        "listener": (scene.sidecar.triple_port, LISTENER),
        "nghttp2": (plain.port, NGHTTP2),
    }
    with ThreadPoolExecutor() as pool:
        runs = {
            name: pool.submit(failures, h2spec, port, directory / f"{name}.xml", listed)
            for name, (port, listed) in servers.items()
        }
    return {name: run.result() for name, run in runs.items()}


def test_the_listener(scene, failed):
    assert failed["listener"] == LISTENER
    metrics = scene.sidecar.get("/metrics")
    assert f'service="{PLAIN}",method="call",outcome="ok"' in metrics  # the provider took part


def test_nghttp2_alone(failed):
    assert failed["nghttp2"] == NGHTTP2
