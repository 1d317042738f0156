"""Structured logs on stderr: one line per event, JSON or text, never a payload or a secret.

>>> log = get_log("broker")
>>> log.info("connected", peer="127.0.0.1:5000", connid=7)

The event is a fixed word to search for; what varies is in fields. Texts of peers are escaped by
JSON, or by `wireloom.view.escape` in lines of text.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from wireloom.view import escape

__all__ = ["Log", "LogStyle", "get_log", "set_up_logs"]

LogStyle = Literal["json", "text"]
_ROOT = "wireloom.services"
_FIELDS = "wireloom_fields"


class Log:
    """Writes events of one part of a service."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"{_ROOT}.{name}")

    @property
    def is_debug(self) -> bool:
        """Whether anybody wants to know in detail; for what is costly to say."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, **fields: object) -> None:
        """For those who look for a fault: what happened in detail."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._logger.debug(event, extra={_FIELDS: fields})

    def info(self, event: str, **fields: object) -> None:
        """Something that is as it should be."""
        self._logger.info(event, extra={_FIELDS: fields})

    def warning(self, event: str, **fields: object) -> None:
        """Something that somebody should look at."""
        self._logger.warning(event, extra={_FIELDS: fields})

    def error(self, event: str, *, exc_info: BaseException | None = None, **fields: object) -> None:
        """Something that should not happen."""
        self._logger.error(event, extra={_FIELDS: fields}, exc_info=exc_info)


def get_log(name: str) -> Log:
    """The log of a part of a service."""
    return Log(name)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    found = getattr(record, _FIELDS, {})
    return found if isinstance(found, dict) else {}


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "part": record.name.removeprefix(f"{_ROOT}."),
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{name}={escape(str(value))}" for name, value in _fields(record).items())
        part = record.name.removeprefix(f"{_ROOT}.")
        text = (
            f"{time} {record.levelname.lower():<7} {part}: {escape(record.getMessage())} {fields}"
        )
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text.rstrip()


def set_up_logs(level: str = "info", style: LogStyle = "json", file: TextIO | None = None) -> None:
    """Write what services say to a file, stderr by default; a second call replaces the first."""
    handler = logging.StreamHandler(file or sys.stderr)
    handler.setFormatter(_JsonLines() if style == "json" else _TextLines())
    root = logging.getLogger(_ROOT)
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
