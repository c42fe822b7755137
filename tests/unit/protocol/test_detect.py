import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.protocol.detect import DUBBO, HTTP1, HTTP2, MAX_METHOD, MORE, UNKNOWN, detect
from sidecar.protocol.http2.frames import PREFACE

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND"]
METHODS += ["M-SEARCH", "UPDATEREDIRECTREF"]

# What begins so, the protocol, and after how many bytes it is told.
KNOWN = [
    (b"\xda\xbb\xc2\0\0\0\0\0", DUBBO, 2),
    (PREFACE + b"\0\0\0\4\0\0\0\0\0", HTTP2, 24),
    *[(f"{each} / HTTP/1.1\r\n".encode(), HTTP1, len(each) + 1) for each in METHODS],
    (b"A" * MAX_METHOD + b" /", HTTP1, MAX_METHOD + 1),
]
STRANGE = [
    (b"\xda\xbc", 2),
    (b"\xdb\xbb", 1),
    (b"\x16\x03\x01\x02\x00", 1),  # TLS
    (b"get / HTTP/1.1", 1),
    (b"GeT / HTTP/1.1", 2),
    (b"GET\t/", 4),
    (b"ls\r\n", 1),  # Dubbo's telnet
    (b" GET /", 1),
    (b"\r\n", 1),
    (b"PRI * HTTP/1.1", 12),
    (b"PRI /", 5),
    (b"A" * (MAX_METHOD + 1), MAX_METHOD + 1),
]


@pytest.mark.parametrize(("data", "word", "needed"), KNOWN)
def test_what_is_known_is_told_as_soon_as_it_can_be(data, word, needed):
    told = [detect(data[:size]) for size in range(len(data) + 1)]
    assert told == [MORE] * needed + [word] * (len(data) + 1 - needed)


@pytest.mark.parametrize(("data", "needed"), STRANGE)
def test_what_is_strange_is_told_as_soon_as_it_can_be(data, needed):
    told = [detect(data[:size]) for size in range(len(data) + 1)]
    assert told == [MORE] * needed + [UNKNOWN] * (len(data) + 1 - needed)


@given(
    st.one_of(
        st.binary(),
        st.builds(bytes.__add__, st.sampled_from([each[0] for each in KNOWN]), st.binary()),
        st.text("ABPRI -*", max_size=30).map(str.encode),
    )
)
@example(PREFACE[:-1] + b"x")
def test_more_bytes_never_change_what_was_told_and_24_are_enough(data):
    word = detect(data)
    told = [detect(data[:size]) for size in range(len(data) + 1)]
    assert [each for each in told if each not in (MORE, word)] == []
    assert told == sorted(told, key=lambda each: each != MORE)
    if len(data) >= len(PREFACE):
        assert word != MORE
