"""Words of local replies."""

from __future__ import annotations

from sidecar.model import reason
from sidecar.proxy.words import NO_PROVIDER_TEXTS, no_provider_text, reply_text


def test_begins_with_the_token_and_names_the_service():
    assert reply_text("TIMEOUT", "com.x.Demo", "no answer") == "TIMEOUT com.x.Demo: no answer"
    assert reply_text("BAD_REQUEST", "", "no method name") == "BAD_REQUEST: no method name"


def test_every_reason_why_nothing_is_eligible_has_words():
    later = {"TIMEOUT", "CONNECT_FAILED", "CONNECTION_LOST", "OVERLOADED", "PAYLOAD_TOO_LARGE",
             "BAD_REQUEST", "UNSUPPORTED", "SHUTTING_DOWN", "HEADERS_TOO_LARGE", "BAD_RESPONSE",
             "STREAM_RESET", "UNKNOWN_PATH"}  # fmt: skip
    tokens = {value for name, value in vars(reason).items() if name.isupper()}
    assert tokens - later == set(NO_PROVIDER_TEXTS)
    assert no_provider_text("NEW_TOKEN", "s") == "NEW_TOKEN s: no instance is eligible"
