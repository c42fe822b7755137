import io
import json
import logging
import sys

import pytest

from sidecar.telemetry import log


def record(message="hello", *args, level=logging.INFO, created=1_700_000_000.0425, **extra):
    made = logging.LogRecord("sidecar.x", level, "file", 1, message, args, None)
    made.created = created
    made.__dict__.update(extra)
    return made


def test_times_are_utc_with_milliseconds():
    assert log.timestamp(1_700_000_000.0425) == "2023-11-14T22:13:20.042Z"
    assert log.timestamp(0) == "1970-01-01T00:00:00.000Z"


def test_text_is_one_line():
    line = log.TextFormatter().format(record("peer said %r %s", "a", "x\ny\r", registry="main"))
    assert line == r"2023-11-14T22:13:20.042Z INFO    sidecar.x: peer said 'a' x\ny\r registry=main"


def test_json_is_one_object():
    line = log.JsonFormatter().format(record("a\nb", level=logging.ERROR, n=1, who=ValueError))
    assert "\n" not in line
    assert json.loads(line) == {
        "ts": "2023-11-14T22:13:20.042Z",
        "level": "error",
        "logger": "sidecar.x",
        "message": r"a\nb",
        "n": 1,
        "who": "<class 'ValueError'>",
    }


def test_text_that_cannot_be_written_is_escaped():
    made = record("bad %s", "\udcff")
    assert log.TextFormatter().format(made).endswith(r"bad \udcff")
    assert json.loads(log.JsonFormatter().format(made))["message"] == r"bad \udcff"


def test_exceptions_are_kept():
    try:
        raise ValueError("broken")
    except ValueError:
        made = record(exc_info=sys.exc_info())
    assert log.TextFormatter().format(made).endswith("ValueError: broken")
    assert json.loads(log.JsonFormatter().format(made))["exception"].endswith("ValueError: broken")


def test_long_messages_are_cut():
    line = log.TextFormatter().format(record("x" * 100_000))
    assert len(line) < log.MAX_MESSAGE + 100


def test_repeats_are_counted_and_reported_in_the_next_window():
    repeat = log.RepeatFilter()
    passed = [repeat.filter(record("down %s", n, created=100.0 + n)) for n in range(9)]
    assert passed == [True] * log.BURST + [False] * (9 - log.BURST)
    assert repeat.filter(record("another", created=109.0))
    late = record("down %s", 9, created=100.0 + log.WINDOW)
    assert repeat.filter(late)
    assert late.repeated == 9 - log.BURST
    after = record("down %s", 10, created=100.0 + 2 * log.WINDOW)
    assert repeat.filter(after)
    assert not hasattr(after, "repeated")


def test_a_clock_that_is_set_back_silences_nothing():
    repeat = log.RepeatFilter()
    for _ in range(2 * log.BURST):
        repeat.filter(record("down", created=10_000.0))
    assert repeat.filter(record("down", created=6_400.0))


def test_the_table_of_templates_is_bounded():
    repeat = log.RepeatFilter()
    for number in range(3 * log.MAX_TEMPLATES):
        assert repeat.filter(record(f"template {number}"))
        assert len(repeat._windows) <= log.MAX_TEMPLATES


@pytest.fixture
def root_logger():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("kazoo", "aiohttp"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.parametrize(("level", "kazoo"), [("info", logging.ERROR), ("debug", logging.DEBUG)])
def test_set_up(root_logger, level, kazoo):
    stream = io.StringIO()
    log.set_up(level, "json", stream)
    logging.getLogger("sidecar.x").warning("w")
    logging.getLogger("sidecar.x").debug("d")
    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert messages == (["w", "d"] if level == "debug" else ["w"])
    assert logging.getLogger("kazoo").getEffectiveLevel() == kazoo
    log.set_up("error", "text", stream)
    assert isinstance(root_logger.handlers[0].formatter, log.TextFormatter)
    assert len(root_logger.handlers) == 1
