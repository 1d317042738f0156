"""Structured logs on stderr: one line per event, JSON or text, never a payload or a secret.

>>> log = get_log("broker")
>>> log.info("connected", peer="127.0.0.1:5000", connid=7)

The event is a fixed word to search for; what varies is in fields. Texts of peers are escaped by
JSON, or by `wireloom.view.escape` in lines of text. A service never waits for who reads its log.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from wireloom.view import escape

__all__ = ["Log", "LogLevel", "LogStyle", "flush_logs", "get_log", "set_up_logs"]

LogLevel = Literal["debug", "info", "warning", "error"]
LogStyle = Literal["json", "text"]
_ROOT = "wireloom.services"
_FIELDS = "wireloom_fields"
_MOST_LINES = 10_000
"""Lines that wait for a slow reader; more are lost, and counted."""
_FLUSH_S = 1.0
_RETRY_S = 0.05


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


class _Lines(logging.Handler):
    """Writes lines in a thread: a pipe that nobody empties must not stop a service."""

    def __init__(self, file: int) -> None:
        super().__init__()
        self._file = file
        self._waiting: queue.Queue[bytes] = queue.Queue(_MOST_LINES)
        self._lost = 0
        threading.Thread(target=self._run, name="wireloom-logs", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Called by `logging`."""
        try:
            self._waiting.put_nowait(self.format(record).encode() + b"\n")
        except queue.Full:
            self._lost += 1

    def flush(self) -> None:
        """Wait until all is written, but not for long."""
        waiting = self._waiting
        with waiting.all_tasks_done:
            waiting.all_tasks_done.wait_for(lambda: not waiting.unfinished_tasks, _FLUSH_S)

    def _run(self) -> None:
        while True:
            self._write(self._waiting.get())
            self._waiting.task_done()
            if self._lost:
                lost, self._lost = self._lost, 0
                told = {"levelno": logging.WARNING, "levelname": "WARNING", "name": f"{_ROOT}.logs"}
                fields = {"msg": "lines_lost", _FIELDS: {"lines": lost}}
                self._write(self.format(logging.makeLogRecord(told | fields)).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        while line:
            try:
                line = line[os.write(self._file, line) :]
            except BlockingIOError:
                time.sleep(_RETRY_S)
            except OSError:  # it is closed: nobody is there to be told
                return


def _handler(file: TextIO | None) -> logging.Handler:
    if file is None:
        try:
            return _Lines(sys.stderr.fileno())
        except (OSError, ValueError):  # it is no file: a test, a notebook
            file = sys.stderr
    return logging.StreamHandler(file)


def flush_logs() -> None:
    """Wait until all that was said is written, but not for long."""
    for handler in logging.getLogger(_ROOT).handlers:
        handler.flush()


def set_up_logs(
    level: LogLevel = "info", style: LogStyle = "json", file: TextIO | None = None
) -> None:
    """Write what services say to a file, stderr by default; a second call replaces the first."""
    handler = _handler(file)
    handler.setFormatter(_JsonLines() if style == "json" else _TextLines())
    # What the event loop has to say is a line like all others.
    for name, least in ((_ROOT, level.upper()), ("asyncio", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(least)
        logger.propagate = False
