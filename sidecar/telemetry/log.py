"""Log records as lines of text or JSON, and a limit on repeated ones.

The time of a record is its own creation time, so nothing here reads a clock. Nothing is logged per
call; what repeats is a failing peer, and one such peer must not fill a disk: of records with the
same logger and message template a few pass in each window, and the next window's first one says how
many were left out.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Final, TextIO, final

import msgspec

BURST: Final = 5  # records of one template that pass in one window
WINDOW: Final = 10.0  # seconds
MAX_TEMPLATES: Final = 500  # more than this program has; bounds the table if a library adds its own
MAX_MESSAGE: Final = 2000  # characters; a peer's text may be quoted in a message

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def set_up(level: str, format_name: str, stream: TextIO) -> None:
    """Send the records of every logger to the stream; ``format_name`` is ``text`` or ``json``."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if format_name == "json" else TextFormatter())
    handler.addFilter(RepeatFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    if level != "debug":
        # These two repeat at info and warning what our own registry client and server log.
        logging.getLogger("kazoo").setLevel(logging.ERROR)
        logging.getLogger("aiohttp").setLevel(logging.WARNING)


def timestamp(seconds: float) -> str:
    """Return a wall-clock time as RFC 3339 in UTC with milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@final
class RepeatFilter(logging.Filter):
    """Lets the first few records of a template pass in each window."""

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[tuple[str, str], list[float]] = {}  # start, passed, left out

    def filter(self, record: logging.LogRecord) -> bool:
        """Decide about one record; adds the number of those left out to the next that passes."""
        key = (record.name, str(record.msg))
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= MAX_TEMPLATES:
                self._windows.clear()
            window = self._windows[key] = [record.created, 0, 0]
        if abs(record.created - window[0]) >= WINDOW:  # the clock may be set back
            if window[2]:
                record.repeated = int(window[2])
            window[:] = [record.created, 0, 0]
        if window[1] >= BURST:
            window[2] += 1
            return False
        window[1] += 1
        return True


@final
class TextFormatter(logging.Formatter):
    """``TIME LEVEL logger: message key=value``, one line, a traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        line = (
            f"{timestamp(record.created)} {record.levelname:<7} {record.name}: {_message(record)}"
        )
        for key, value in _extras(record).items():
            line += f" {key}={value}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


@final
class JsonFormatter(logging.Formatter):
    """One JSON object per line: ``ts``, ``level``, ``logger``, ``message`` and the extras."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        fields: dict[str, Any] = {
            "ts": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        fields |= _extras(record)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields, enc_hook=str).decode()


def _message(record: logging.LogRecord) -> str:
    """Return the message without line breaks: a peer's text must not fake a record.

    Nor may it cost one: halves of surrogate pairs, which cannot be written, are escaped.
    """
    text = record.getMessage().encode("utf-8", "backslashreplace").decode()
    if len(text) > MAX_MESSAGE:
        text = text[:MAX_MESSAGE] + "..."
    return text.replace("\r", "\\r").replace("\n", "\\n")


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}
