"""h2spec, the conformance tests of HTTP/2, against the listener and against nghttp2 alone.

Whatever fails is listed with its reason; what fails and is not listed fails here, and what is
listed and does not fail, too.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.e2e import go_peers
from tests.e2e.conftest import GO_SKIPPED
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


@pytest.fixture(scope="session")
def h2spec() -> Path:
    """The program; skips without Go or its modules."""
    try:
        return go_peers.build("h2spec", go_peers.H2SPEC)
    except PeersUnavailableError as reason:
        pytest.skip(f"{GO_SKIPPED}{reason}")


def failures(program: Path, port: int, report: Path) -> set[str]:
    """Run every case, strict ones too, and return the names of those that fail."""
    run = subprocess.run(
        [str(program), "--strict", "--timeout", "1", "--port", str(port),
         "--junit-report", str(report)],
        capture_output=True, text=True, timeout=RUN_LIMIT, check=False,
    )  # fmt: skip
    assert report.exists(), run.stdout + run.stderr
    text = re.sub(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", b"?", report.read_bytes())  # of frames, as is
    cases = list(ElementTree.fromstring(text).iter("testcase"))
    assert len(cases) >= LEAST_CASES
    return {
        f"{case.get('package')} {case.get('classname')}"
        for case in cases
        if any(child.tag != "skipped" for child in case)
    }


def test_the_listener(scene, h2spec, tmp_path):
    assert failures(h2spec, scene.sidecar.triple_port, tmp_path / "report.xml") == NGHTTP2


def test_nghttp2_alone(h2spec, tmp_path):
    port = free_port()
    command = (sys.executable, "-m", "tests.e2e.plain_http2", str(port))
    server = ServerProcess(tmp_path / "plain.log", port, *command)
    with contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        server.wait_ready()
        assert failures(h2spec, port, tmp_path / "report.xml") == NGHTTP2
