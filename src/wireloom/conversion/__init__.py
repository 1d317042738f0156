"""Messages → messages of another format, with a report of what the other cannot carry.

>>> import wireloom
>>> from decimal import Decimal
>>> from wireloom.formats import tibmsg
>>> quote = tibmsg.build({"SYM": "ABC", "BID": Decimal("1.25")})
>>> message, losses = wireloom.convert(quote, to="tibrv")
>>> message["BID"].value, [str(loss) for loss in losses]
(1.25, ['BID: hint 18 is lost: the decimal becomes a plain real'])

TibMsg is the richest of the three TIB formats: its hints hold what a QForm dictionary says about a
field, and it has most of TibrvMsg's types. So there are four conversions, to and from TibMsg, and
the other two go through it. What the target cannot express is changed as little as possible or left
out, and each such change is a `Loss`. A field without one has an equal value on both sides: the
same number, text, bytes, date or time.
"""

from __future__ import annotations

from typing import Final, Generic, Literal, NamedTuple, TypeVar, overload

from wireloom.conversion.losses import Loss, Losses, LossKind
from wireloom.conversion.rendezvous import from_tibrv, to_tibrv
from wireloom.conversion.sass import from_qform, to_qform
from wireloom.errors import EncodeError, OptionError
from wireloom.formats import get, qform, tibmsg, tibrv
from wireloom.formats.qform.options import Given, resolve
from wireloom.messages import Json, Message

__all__ = ["FORMATS", "NEEDS_DICTIONARY", "Conversion", "Loss", "LossKind", "convert"]

FORMATS: Final = ("tibmsg", "tibrv", "qform")
"""Formats that can be converted into one another; every format converts to JSON and back."""

NEEDS_DICTIONARY: Final = ("qform",)
"""Formats that need a dictionary."""

M = TypeVar("M", Message, Json)


class Conversion(NamedTuple, Generic[M]):
    """The converted message, and what was lost."""

    message: M
    losses: tuple[Loss, ...]


@overload
def convert(  # type: ignore[overload-overlap]  # a str that is not known to be "json" is none
    message: Message | Json, to: Literal["json"], *, dictionary: Given = None
) -> Conversion[Json]: ...


@overload
def convert(
    message: Message | Json, to: str, *, dictionary: Given = None
) -> Conversion[Message]: ...


def convert(
    message: Message | Json, to: str, *, dictionary: Given = None
) -> Conversion[Message] | Conversion[Json]:
    """The same message in another format, and what was lost on the way.

    Args:
        message: a message, or the JSON object of one.
        to: ``tibmsg``, ``tibrv``, ``qform`` or ``json``.
        dictionary: for ``qform``: a `Dictionary`, a path or a text. Fields are found in it by name.
            A QForm can be converted to the QForm of another dictionary.

    Raises:
        OptionError: there is no such conversion, or a dictionary is needed.
        SourceError: the dictionary cannot be found or read.
        EncodeError: the JSON object is not a message.
    """
    if isinstance(message, dict):
        message = _from_json(message)
    if to == "json":
        return Conversion(message.to_dict(), ())
    if to not in FORMATS:
        raise OptionError(f"cannot convert to {to!r}; there are {', '.join(FORMATS)} and json")
    found = resolve(dictionary)
    if message.format == to and (to != "qform" or found is None):
        return Conversion(message, ())
    losses = Losses()
    hub = _to_hub(message, losses)
    made: Message = hub
    if to == "tibrv":
        made = to_tibrv(hub, losses)
    elif to == "qform":
        if not found:
            raise OptionError("a qform is made with a dictionary; pass dictionary=…")
        made = to_qform(hub, found, losses)
    return Conversion(made, tuple(losses))


def _from_json(d: Json) -> Message:
    name = d.get("format")
    if not isinstance(name, str):
        raise EncodeError("a message object needs a 'format'")
    return get(name).from_dict(d)


def _to_hub(message: Message, losses: Losses) -> tibmsg.Message:
    match message:
        case tibmsg.Message():
            return message
        case tibrv.Message():
            return from_tibrv(message, losses)
        case qform.Message():
            return from_qform(message, losses)
        case _:
            raise OptionError(f"a {message.format} message can be converted to json only")
