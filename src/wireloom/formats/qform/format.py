"""QForm as the registry knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from wireloom.columns import Columns
from wireloom.format import Format, Option, TypeInfo
from wireloom.formats.qform import jsonform, message, show
from wireloom.formats.qform.dictionary.model import DEFAULT_SIZES, TssType
from wireloom.formats.qform.options import DEFAULT, Given, resolve
from wireloom.formats.qform.rules import Rules
from wireloom.formats.qform.samples import samples
from wireloom.formats.qform.walk import HEADER, MAGIC
from wireloom.framing import Scanner
from wireloom.messages import Json
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["FORMAT", "Qform"]

_SUMMARIES: Mapping[TssType, str] = {
    TssType.INTEGER: "signed, of 1, 2, 4 or 8 bytes",
    TssType.STRING: "text up to the first NUL; fixed, variable or partial",
    TssType.BOOLEAN: "anything that is not zero is true",
    TssType.DATE: "bytes",
    TssType.TIME: "bytes",
    TssType.PRICE: "IEEE 754 of 4 or 8 bytes",
    TssType.BYTE: "unsigned",
    TssType.FLOAT: "IEEE 754",
    TssType.SHORT_INT: "signed",
    TssType.DOUBLE: "IEEE 754",
    TssType.OPAQUE: "any bytes; fixed or variable",
    TssType.NULL: "bytes",
    TssType.RESERVED: "bytes",
    TssType.DOUBLE_INT: "IEEE 754 that holds a whole number",
    TssType.GROCERY: "decimal: IEEE 754 of 8 (or 4) bytes, then a hint as of a TibMsg real",
    TssType.SDATE: "date as text",
    TssType.STIME: "time as text: HH:MM up to 6 bytes, HH:MM:SS up to 10, else finer",
    TssType.LONG: "signed",
    TssType.U_SHORT: "unsigned",
    TssType.U_INT: "unsigned",
    TssType.U_LONG: "unsigned",
}


class Qform(Format):
    """SASS QForm: ids and bytes, which a dictionary explains."""

    name = "qform"
    title = "SASS QForm"
    kind: ClassVar[Literal["transport", "message"]] = "message"
    rank = 80
    magic = MAGIC
    summary = "Market-data message of ids and bytes; a dictionary has names, types and sizes."
    options = (
        Option(
            "dictionary",
            "what the fields are: a cfile or an RDMFieldDictionary (or the directory with them), a "
            "text of either, or a Dictionary. `system` knows the four SASS system fields only",
            (),
            DEFAULT,
            "file",
        ),
    )

    def load_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """The options with the dictionary that they name.

        Raises:
            OptionError: it is not a dictionary.
            SourceError: it cannot be found or read.
        """
        if "dictionary" in given:
            given["dictionary"] = resolve(given["dictionary"])
        return given

    def decode(
        self,
        data: bytes,
        *,
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = False,
        dictionary: Given = DEFAULT,
        **options: Any,
    ) -> message.Message:
        """The message at the start of `data`; bytes after it are ignored unless `strict`.

        Raises:
            DecodeError: the bytes are not such a message, or the dictionary does not have all of
                its fields (see `wireloom.formats.qform.decode`).
            OptionError: the option is not a dictionary.
            SourceError: the dictionary cannot be found or read.
        """
        return message.decode(data, resolve(dictionary), limits, strict=strict)

    def framer(
        self,
        *,
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = False,
        offset: int = 0,
        dictionary: Given = DEFAULT,
        **options: Any,
    ) -> Scanner:
        """A new framer for one stream whose first byte has that offset.

        Raises:
            OptionError: the option is not a dictionary.
            SourceError: the dictionary cannot be found or read.
        """
        return Scanner(self.name, Rules(resolve(dictionary)), limits, offset)

    def detect(self, data: bytes) -> int:
        """Sure if the magic is there and the length fits, less so if bytes are missing."""
        return HEADER.detect(data)

    def from_dict(self, d: Json) -> message.Message:
        """The message that `to_dict` described; no dictionary is needed.

        Raises:
            EncodeError: the object is not such a message.
        """
        return jsonform.message_from_dict(d)

    def outline(
        self,
        data: bytes,
        *,
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = False,
        dictionary: Given = DEFAULT,
        **options: Any,
    ) -> Node:
        """The field tree of the message at the start of `data`, up to where it cannot be read.

        Raises:
            OptionError: the option is not a dictionary.
            SourceError: the dictionary cannot be found or read.
        """
        return show.outline(data, resolve(dictionary), limits, strict=strict)

    def types(self) -> Sequence[TypeInfo]:
        """The field types of the dictionary, with the bytes of a fixed field of usual size."""
        return [TypeInfo(kind, kind.name, text, _rows(kind)) for kind, text in _SUMMARIES.items()]

    def columns(self) -> Columns:
        """What captures, Arrow and Spark need to know about it."""
        from wireloom.formats.qform.columns import COLUMNS

        return COLUMNS

    def samples(self) -> Mapping[str, bytes]:
        """Canonical messages of the system fields."""
        return samples()


def _rows(kind: TssType) -> list[tuple[str, str, str, str]]:
    size = DEFAULT_SIZES.get(kind)
    rows = [("0", "2", "fid", "id in the low 14 bits; 0xc000 set")]
    if size is None:
        return [*rows, ("2", "size", "data", _SUMMARIES[kind]), ("…", "0..1", "pad", "to even")]
    at = 2
    if kind is TssType.GROCERY:
        rows += [("2", "8", "real", "IEEE 754"), ("10", "1", "hint", "decimal places or fraction")]
    else:
        rows.append(("2", str(size), "data", _SUMMARIES[kind]))
    at += size
    return [*rows, (str(at), "1", "pad", "0")] if size & 1 else rows


FORMAT = Qform()
