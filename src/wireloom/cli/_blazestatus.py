"""A broker's status, from its side port, as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import click

from wireloom.view import escape

__all__ = ["fetch", "rows_of"]

_MAX_ANSWER = 1 << 24
"""Bytes of an answer that are read; a status has a few thousand."""


def fetch(url: str, seconds: float) -> dict[str, Any]:
    """The JSON object at ``/status``.

    Raises:
        ClickException: there is nobody, or the answer is not a status.
    """
    if "//" not in url:
        url = f"http://{url}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise click.UsageError(f"{escape(url)!r} is not http://HOST:PORT")
    target = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/status'}"
    request = Request(target, headers={"Accept": "application/json"})
    try:
        # A side port is near: a proxy is not asked.
        with build_opener(ProxyHandler({})).open(request, timeout=seconds) as answer:
            found = json.loads(answer.read(_MAX_ANSWER))
    except HTTPError as error:
        error.close()
        told = f"{target}: {error.code} {error.reason}"
        raise click.ClickException(escape(told)) from None
    except HTTPException:
        told = "what answers is no HTTP server; a broker's side port is in its ready line"
        raise click.ClickException(f"{escape(target)}: {told}") from None
    except (URLError, TimeoutError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise click.ClickException(f"{escape(target)}: {escape(str(reason))}") from None
    except ValueError:
        raise click.ClickException(f"{escape(target)}: the answer is not JSON") from None
    if not isinstance(found, dict):
        raise click.ClickException(f"{escape(target)}: the answer is not a status")
    return found


def rows_of(value: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """A row for each number or text in the status, by its path."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from rows_of(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from rows_of(item, f"{path}[{number}]")
    else:
        yield {"name": path, "value": value}
