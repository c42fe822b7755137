"""What a peer may do in ten seconds."""

from __future__ import annotations

import pytest

from sidecar.protocol.http2.meter import GIVEN_UP_SECONDS, WINDOW_SECONDS, FrameMeter
from tests.fixtures.http2_peers import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    limits,
)

NOW = 1000.0
BUDGET = 20
PRIORITY_UPDATE, UNKNOWN = 0x10, 0xEE

HEAD = frame(HEADERS, END_HEADERS, 1, b"head")
CONTROL = {
    "ping": frame(PING, 0, 0, bytes(8)),
    "ping-ack": frame(PING, ACK, 0, bytes(8)),
    "settings": frame(SETTINGS, 0, 0, bytes(6)),
    "settings-ack": frame(SETTINGS, ACK),
    "priority": frame(PRIORITY, 0, 1, bytes(5)),
    "goaway": frame(GOAWAY, 0, 0, bytes(8)),
    "window": frame(WINDOW_UPDATE, 0, 1, b"\x00\x00\x00\x01"),
    "empty-data": frame(DATA, 0, 1),
    "priority-update": frame(PRIORITY_UPDATE, 0, 0, bytes(4)),
    "unknown": frame(UNKNOWN, 0, 1, b"x" * 300),
}


def meter(is_server: bool = False, **changes: int) -> FrameMeter:
    return FrameMeter(limits(**{"control_frames": BUDGET, "resets": BUDGET} | changes), is_server)


def reset(stream_id: int) -> bytes:
    return frame(RST_STREAM, 0, stream_id, b"\x00\x00\x00\x08")


def head(stream_id: int) -> bytes:
    return frame(HEADERS, END_HEADERS, stream_id, b"head")


# Control frames


@pytest.mark.parametrize("name", CONTROL)
def test_each_kind_is_counted(name: str) -> None:
    made = meter()
    for _ in range(BUDGET):
        assert made.feed(CONTROL[name], NOW) == ""
    assert made.feed(CONTROL[name], NOW) == "control"


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_kinds_add_up_however_they_are_cut(size: int) -> None:
    made = meter()
    data = b"".join(CONTROL.values()) * 2
    assert {made.feed(data[at : at + size], NOW) for at in range(0, len(data), size)} == {""}
    assert made.feed(CONTROL["settings"], NOW) == "control"


def test_padding_alone_is_counted_when_it_was_found() -> None:
    made = meter()
    for _ in range(BUDGET - 5):
        assert made.note_empty(NOW) == ""
    for _ in range(5):
        assert made.feed(CONTROL["empty-data"], NOW) == ""
        assert made.note_empty(NOW) == ""  # it was counted as it passed
    assert made.note_empty(NOW) == "control"
    assert made.note_empty(NOW + WINDOW_SECONDS) == ""


def test_messages_are_not_control_frames() -> None:
    made = meter(control_frames=1, resets=1)
    for number in range(1000):
        message = frame(DATA, 0, number, b"x") + frame(DATA, END_STREAM, number)
        assert made.feed(head(number) + message, NOW) == ""


def test_the_budget_is_for_ten_seconds() -> None:
    made = meter()
    for step in range(5):
        now = NOW + step * WINDOW_SECONDS
        assert made.feed(CONTROL["ping"] * BUDGET, now) == ""
    assert made.feed(CONTROL["ping"], now + WINDOW_SECONDS - 0.1) == "control"


def test_a_receiver_may_answer_what_was_sent() -> None:
    """A window for stream and connection and a measuring PING for each piece, however small."""
    made = meter()
    for _ in range(10_000):
        made.note_sent(5)
        answers = CONTROL["window"] * 2 + CONTROL["ping"] + CONTROL["settings-ack"]
        assert made.feed(answers, NOW) == ""
    assert made.feed(CONTROL["window"] * BUDGET, NOW) == ""
    assert made.feed(CONTROL["window"], NOW) == "control"


def test_a_receiver_may_return_windows_for_each_kibibyte() -> None:
    made = meter()
    for _ in range(10):
        made.note_sent(1 << 20)
        assert made.feed(CONTROL["window"] * 2048, NOW) == ""


def test_a_receiver_may_not_let_data_dribble() -> None:
    """A window of one byte at a time would make a frame of each byte."""
    made = meter()
    made.note_sent(16_384)
    assert made.feed(CONTROL["window"] * 100, NOW) == "control"


def test_a_head_may_come_with_windows() -> None:
    made = meter()
    for stream_id in range(1, 2001, 2):
        assert made.feed(head(stream_id) + CONTROL["window"] * 2, NOW) == ""


# Resets


def test_resets_of_young_streams() -> None:
    made = meter()
    for number in range(BUDGET):
        assert made.feed(head(2 * number + 1) + reset(2 * number + 1), NOW) == ""
    assert made.feed(head(1001) + reset(1001), NOW) == "resets"


def test_resets_that_the_peer_made_necessary() -> None:
    made = meter()
    for _ in range(BUDGET // 2):
        assert made.note_reset(NOW) == ""
        assert made.feed(reset(1001), NOW) == ""
    assert made.note_reset(NOW) == "resets"
    assert made.note_reset(NOW + WINDOW_SECONDS) == ""


def test_streams_that_never_came_to_be() -> None:
    made = meter()
    assert made.note_heard(0, NOW) == ""
    made.feed(b"".join(head(number) for number in range(1, 2 * BUDGET + 1, 2)), NOW)
    made.feed(head(1) + frame(HEADERS, 0, 99, b"he"), NOW)  # known, and incomplete
    assert made.note_heard(0, NOW) == ""
    made.feed(frame(CONTINUATION, END_HEADERS, 99, b"ad"), NOW)
    assert made.note_heard(1, NOW) == ""
    made.feed(head(101), NOW)
    assert made.note_heard(0, NOW) == "resets"
    made.feed(head(103), NOW)
    assert made.note_heard(0, NOW + WINDOW_SECONDS) == ""


def test_a_storm_of_deadlines_is_not_a_storm_of_resets() -> None:
    """Every call of a consumer runs into its deadline: each stream lived for a second."""
    made = meter()
    for step in range(200):
        now = NOW + step * 0.1
        for number in range(50):
            assert made.feed(head(2 * (50 * step + number) + 1), now) == ""
            if step >= 10:
                assert made.feed(reset(2 * (50 * (step - 10) + number) + 1), now) == ""


def test_resets_of_streams_that_are_long_over_are_control_frames() -> None:
    for stream_id, word in ((3, "control"), (5, "resets")):
        made = meter()
        assert made.feed(head(1) + head(3), NOW) == ""
        assert made.feed(head(1), NOW + GIVEN_UP_SECONDS) == ""  # its trailers
        now = NOW + 2 * GIVEN_UP_SECONDS
        free = 6 if word == "control" else 0
        assert made.feed(reset(stream_id) * (BUDGET + free), now) == ""
        assert made.feed(reset(stream_id), now) == word


def test_a_stream_is_young_for_half_a_second() -> None:
    made = meter()
    made.feed(head(1), NOW)
    later = NOW + GIVEN_UP_SECONDS - 0.01
    assert made.feed(reset(1) * BUDGET, later) == ""
    assert made.feed(reset(1), later) == "resets"


def test_a_provider_may_reset_what_was_opened_on_it() -> None:
    made = meter()
    for stream_id in range(1, 2001, 4):
        made.note_request()
        made.note_request()
        assert made.feed(reset(stream_id), NOW) == ""
        assert made.note_reset(NOW) == ""
    assert made.feed(reset(1001) * BUDGET, NOW) == ""
    assert made.feed(reset(1001), NOW) == "resets"


def test_an_answer_that_was_begun_may_be_reset() -> None:
    made = meter()
    for number in range(1, 2001, 2):
        assert made.feed(head(number), NOW) == ""
        made.note_answer()
        assert made.feed(reset(number), NOW) == ""
    assert made.feed(reset(2001) * BUDGET, NOW) == ""
    assert made.feed(reset(2001), NOW) == "resets"


def test_no_more_answers_are_remembered_than_can_be_open() -> None:
    made = meter(max_streams=3)
    for _ in range(1000):
        made.note_answer()
    assert made.feed(reset(1) * (BUDGET + 3), NOW) == ""
    assert made.feed(reset(1), NOW) == "resets"


def test_fc_65_now_and_then() -> None:
    made = FrameMeter(limits(), False)
    for number in range(150):
        assert made.feed(head(2 * number + 1) + reset(2 * number + 1), NOW + 0.4 * number) == ""


# Header lists


def block(*sizes: int, is_complete: bool = True) -> bytes:
    """A header list in frames of these sizes."""
    kinds = [HEADERS] + [CONTINUATION] * (len(sizes) - 1)
    last = len(sizes) - 1 if is_complete else len(sizes)
    return b"".join(
        frame(kind, END_HEADERS if number == last else 0, 1, bytes(size))
        for number, (kind, size) in enumerate(zip(kinds, sizes, strict=True))
    )


def test_fc_66_pieces_of_a_header_list() -> None:
    for sizes in ([0] * 17, [1] * 17, [16_384] * 8):
        for cut in (1, 1000, 1 << 20):
            made = FrameMeter(limits(), False)
            data = block(*sizes) * 2
            chunks = [data[at : at + cut] for at in range(0, len(data), cut)]
            assert {made.feed(chunk, NOW) for chunk in chunks} == {""}
    assert FrameMeter(limits(), False).feed(block(*[0] * 18), NOW) == "continuation"
    assert FrameMeter(limits(), False).feed(block(*[16_384] * 8, 1), NOW) == "header_size"
    assert FrameMeter(limits(header_size=1000), False).feed(block(2001), NOW) == "header_size"
    assert FrameMeter(limits(header_size=1000), False).feed(block(2000), NOW) == ""


def test_promised_heads_are_header_lists_and_control_frames() -> None:
    made = meter(header_size=1000)
    promise = frame(PUSH_PROMISE, END_HEADERS, 1, bytes(2000))
    assert made.feed(promise * BUDGET, NOW) == ""
    assert made.feed(promise, NOW) == "control"
    assert meter(header_size=1000).feed(frame(PUSH_PROMISE, 0, 1, bytes(2001)), NOW) == (
        "header_size"
    )


def test_since_when_a_header_list_is_incomplete() -> None:
    made = meter()
    data = block(50, 50)
    assert made.header_since == 0.0
    made.feed(data[:8], NOW)
    assert made.header_since == 0.0
    for at in range(8, len(data) - 1):
        made.feed(data[at : at + 1], NOW + at)
        assert made.header_since == NOW + 8
    made.feed(data[-1:], NOW + 500)
    assert made.header_since == 0.0
    made.feed(HEAD, NOW)
    assert made.header_since == 0.0
    made.feed(block(0, is_complete=False), NOW)
    assert made.header_since == NOW
    made.feed(frame(CONTINUATION, END_HEADERS, 1), NOW + 1)
    assert made.header_since == 0.0


# What may be passed on


def test_whole_frames_are_passed_on() -> None:
    made = meter()
    data = HEAD + frame(DATA, 0, 1, b"abc") + CONTROL["settings-ack"]
    made.feed(data, NOW)
    assert (made.first, made.whole) == (len(HEAD), len(data))
    made.feed(data[:-1], NOW)
    assert (made.first, made.whole) == (len(HEAD), len(data) - 9)
    made.feed(data[-1:] + HEAD + HEAD[:11], NOW)
    assert (made.first, made.whole) == (1, 1 + len(HEAD))
    made.feed(b"", NOW)
    assert (made.first, made.whole) == (0, 0)
    made.feed(HEAD[11:], NOW)
    assert (made.first, made.whole) == (2, 2)


def test_byte_by_byte_the_last_byte_makes_it_whole() -> None:
    made = meter()
    for data in (HEAD, CONTROL["settings-ack"], frame(DATA, 0, 1, bytes(16_384))):
        for at in range(len(data)):
            made.feed(data[at : at + 1], NOW)
            assert made.whole == made.first == (1 if at == len(data) - 1 else 0)


def test_what_is_too_much_is_not_passed_on() -> None:
    made = meter()
    assert made.feed(HEAD + CONTROL["ping"] * (BUDGET + 3) + HEAD, NOW) == "control"
    assert made.whole == len(HEAD) + len(CONTROL["ping"]) * (BUDGET + 2)
    made = meter(control_frames=0)
    assert made.feed(CONTROL["ping"][:5], NOW) == ""
    assert made.feed(CONTROL["ping"][5:], NOW) == "control"
    assert made.whole == 0


def test_a_frame_that_is_too_large_is_passed_on_at_once() -> None:
    """It is refused by its header, so there is nothing to collect."""
    made = meter()
    made.feed(HEAD + frame(DATA, 0, 1, bytes(16_385))[:20], NOW)
    assert made.whole == len(HEAD) + 20
    made.feed(bytes(100), NOW)
    assert made.whole == 100
    made.feed(bytes(16_385 - 111) + HEAD[:12], NOW)
    assert made.whole == 16_385 - 111


@pytest.mark.parametrize("size", [1, 5, 24])
def test_the_preface_is_passed_on_as_it_comes(size: int) -> None:
    made = meter(is_server=True)
    for at in range(0, len(PREFACE), size):
        chunk = PREFACE[at : at + size]
        assert made.feed(chunk, NOW) == ""
        assert made.whole == len(chunk)
    made.feed(HEAD + HEAD[:-1], NOW)
    assert made.whole == len(HEAD)


def test_a_preface_and_the_beginning_of_a_frame() -> None:
    made = meter(is_server=True)
    made.feed(PREFACE + HEAD[:10], NOW)
    assert (made.first, made.whole) == (24, 24)
    made.feed(HEAD[10:], NOW)
    assert (made.first, made.whole) == (3, 3)
