"""Questions to a running sidecar's admin server, for the command line and the demo."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any, Final

import msgspec

from sidecar.model.errors import SidecarError

TIMEOUT: Final = 10.0
MAX_ANSWER: Final = 64 * 1024 * 1024  # bytes; an explanation of 100,000 instances is a few MiB

# A proxy from the environment has no business between us and our own machine.
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str) -> dict[str, Any]:
    """GET a JSON answer; raises SidecarError with a plain sentence when there is none."""
    if not url.startswith(("http://", "https://")):
        raise SidecarError(f"{url!r} is not the URL of an admin server; it starts with http://")
    try:
        with _OPENER.open(url, timeout=TIMEOUT) as answer:
            return _decode(answer.read(MAX_ANSWER))
    except urllib.error.HTTPError as error:
        with error:
            text = _decode(error.read(MAX_ANSWER)).get("error", error.reason)
        raise SidecarError(f"the sidecar answered {error.code}: {text}") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise SidecarError(f"no sidecar answers at {url.partition('?')[0]}: {reason}") from None


def _decode(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        raise SidecarError("the answer is not JSON; is this a sidecar's admin server?") from None
