"""Transactions from the command line: objects from arguments or from JSON, one line for each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._flat import json_line
from wireloom.errors import EncodeError
from wireloom.view import escape

if TYPE_CHECKING:
    from wireloom.cli._blazeconnect import Target
    from wireloom.formats.blaze.nclass import ClassLayout, NClassValue
    from wireloom.services.blaze import Result

__all__ = ["ACTIONS", "objects_in", "transact", "value_of", "values_of"]

ACTIONS = {"ins": "INS", "upd": "UPD", "dlt": "DLT", "del": "DEL", "rst": "RST"}
_AT_ONCE = 4096
"""Objects that are read before their results are shown."""


def objects_in(text: Iterable[str]) -> Iterator[Any]:
    """JSON objects: one in each line, or one text with an object or a list of them.

    Raises:
        EncodeError: it is not JSON.
    """
    lines = iter(text)
    first = next((line for line in lines if line.strip()), "")
    try:
        head = json.loads(first) if first else []
    except ValueError:
        try:  # not a line by itself: it goes on in the next one
            head = json.loads(first + "".join(lines))
        except ValueError as error:
            raise EncodeError(f"not JSON: {error}") from None
    yield from head if isinstance(head, list) else [head]
    for number, line in enumerate(lines, 2):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise EncodeError(f"line {number} is not JSON: {error}") from None


def value_of(layout: ClassLayout, values: dict[str, Any], action: str) -> NClassValue:
    """The object of a transaction.

    Raises:
        EncodeError: there is no such field, or a value does not fit it.
    """
    from wireloom.formats.blaze.codes import Encoding
    from wireloom.formats.blaze.nclass import new_value

    encoding = Encoding.INDEXDELTA if action == "dlt" else Encoding.INDEXNOTZERO
    return new_value(layout.model, layout.nclass, values, encoding)


def values_of(layout: ClassLayout, given: Iterable[Any], action: str) -> Iterator[NClassValue]:
    """The objects of transactions; an error names which one it is.

    Raises:
        EncodeError: one is no object of the class.
    """
    for number, values in enumerate(given, 1):
        if not isinstance(values, dict):
            raise EncodeError(f"object {number} is no JSON object")
        try:
            yield value_of(layout, values, action)
        except EncodeError as error:
            error.within(f"object {number}")
            raise


def transact(
    target: Target,
    layout: ClassLayout,
    action: str,
    values: Iterable[NClassValue],
    *,
    wants_result: bool,
    is_json: bool,
) -> int:
    """Send a transaction for each object, and say what became of it; gives how many failed."""
    import asyncio

    from wireloom.formats.blaze.codes import Action, Encoding

    encoding = Encoding.INDEXDELTA if action == "DLT" else Encoding.INDEXNOTZERO

    async def run() -> int:
        failed, waiting = 0, iter(values)
        first = next(waiting, None)
        if first is None:
            click.echo("there are no objects", err=True)
            return 0
        waiting = chain((first,), waiting)
        async with target.client(layout.model, reconnect=None) as client:
            while chunk := list(islice(waiting, _AT_ONCE)):
                results = await client.transact_many(
                    Action[action], chunk, encoding=encoding, wants_result=wants_result
                )
                for value, result in zip(chunk, results, strict=True):
                    failed += not result.is_ok
                    _show(action, value, result, is_json)
        return failed

    return asyncio.run(run())


def outcome(result: Result) -> str:
    """What became of a transaction, for people."""
    from wireloom.services.blaze.errors import code_text

    if result.is_ok:
        return "ok"
    if not result.is_sent:
        return "not sent"
    told = code_text(result.code)
    return f"refused: {told}" if result.is_known else f"not known: {told}"


def _show(action: str, value: NClassValue, result: Result, is_json: bool) -> None:
    image = result.value
    is_whole_class = action == "RST" and not value.to_values()
    key = None if is_whole_class else value.key()
    if is_json:
        row: dict[str, Any] = {
            "action": action,
            "class": value.nclass.name,
            "key": list(key) if key else None,
            "ok": result.is_ok,
            "code": getattr(result.code, "name", result.code) if not result.is_ok else None,
            "known": result.is_known,
        }
        if image is not None:
            row["result"] = image.to_values()
        click.echo(json_line({k: v for k, v in row.items() if v is not None}))
        return
    shown = f" {', '.join(map(str, key))}" if key else ""
    line = f"{action} {value.nclass.name}{shown}: {outcome(result)}"
    stream = sys.stdout if result.is_ok else sys.stderr
    click.echo(escape(line), file=stream)
    if image is not None:
        click.echo(json_line(image.to_values()))
