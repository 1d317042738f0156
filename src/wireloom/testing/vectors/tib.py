"""Vectors of TibMsg, TibrvMsg and QForm messages: what they say, against what the codecs do.

A good case is decoded and every key of every field compared; written back, both from the decoded
message and from the JSON alone; sent through JSON; and cut out of a stream in chunks. A malformed
one must be refused at the field that it names. A key that is not known here is a failure.

Each format has a `Family`, which says what is particular to it.
"""

from __future__ import annotations

import json
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, ClassVar

from wireloom.errors import DecodeError, WireloomError
from wireloom.formats import get
from wireloom.framing import Frame, scan
from wireloom.messages import Json, Message
from wireloom.testing.vectors import Case
from wireloom.wire import DEFAULT_LIMITS

__all__ = ["Family", "Mismatch", "Verifier", "family_of", "need", "same", "without"]

_FAMILIES = {
    "tibmsg": "wireloom.testing.vectors.tib_tibmsg",
    "tibrvmsg": "wireloom.testing.vectors.tib_tibrv",
    "qform": "wireloom.testing.vectors.tib_qform",
}
"""A vector's ``format`` → the module with its `Family`, as FAMILY."""

_ABOUT = frozenset(("format", "name", "source", "note", "hex", "dict"))
_GOOD = _ABOUT | {"canonical", "lenient", "fields", "unwrapped"}
_MALFORMED = _ABOUT | {"malformed", "why", "error", "reject_stage", "fields_ok", "quirk"}

_CHUNKS = (1, 2, 3, 7, 64, 65536)
_SMALL = 4096
"""Bytes up to which a case is also cut into single bytes."""


class Mismatch(Exception):
    """The codec and the case differ."""


class Verifier:
    """Checks the cases of one vector file."""

    def accepts(self, case: Case) -> bool:
        """Whether the case is a message of one of the three formats."""
        return case.get("format") in _FAMILIES and "hex" in case

    def check(self, case: Case) -> str | None:
        """None when the codec agrees with the case, else what differs, in one line."""
        try:
            family_of(case["format"]).check(case)
        except Mismatch as difference:
            return str(difference)
        except WireloomError as error:
            return f"{type(error).__name__}: {error}"
        except (KeyError, TypeError, ValueError) as error:
            return f"the case cannot be understood: {type(error).__name__}: {error}"
        return None


def family_of(format: str) -> Family:
    """The family of cases with that ``format``.

    Raises:
        Mismatch: there is none.
    """
    module = _FAMILIES.get(format)
    if module is None:
        raise Mismatch(f"no format {format!r}")
    try:
        family: Family = import_module(module).FAMILY
    except ModuleNotFoundError as error:
        raise Mismatch(f"no checks for {format} cases: {error}") from error
    return family


def need(condition: bool, difference: str) -> None:
    """Say what differs unless the condition holds.

    Raises:
        Mismatch: it does not.
    """
    if not condition:
        raise Mismatch(difference)


class Family(ABC):
    """The cases of one format."""

    format: ClassVar[str]
    """Its name in the registry."""

    optional: ClassVar[frozenset[str]] = frozenset(("raw",))
    """Keys of `view` that a case may lack."""

    ignored: ClassVar[frozenset[str]] = frozenset(("form",))
    """Keys of `view` that no case has."""

    def options(self, case: Case) -> dict[str, Any]:
        """Options for decoding the case."""
        return {}

    def decode(self, case: Case, data: bytes) -> Message:
        """The message of a case.

        Raises:
            DecodeError: it cannot be read.
        """
        options = self.options(case)
        return get(self.format).decode(data, limits=DEFAULT_LIMITS, strict=False, **options)

    def read_all(self, message: Message) -> None:
        """Read the values, which decoding leaves until they are asked for.

        Raises:
            DecodeError: one cannot be read.
        """
        for field in self.fields(message):
            _ = field.value

    @abstractmethod
    def fields(self, message: Message) -> Sequence[Any]:
        """The fields of a decoded message."""

    @abstractmethod
    def view(self, field: Any) -> Json:
        """A field with all the keys that a case may have."""

    @abstractmethod
    def build(self, case: Case) -> Message:
        """The message made from the case's fields, without looking at its bytes."""

    def is_single(self, expected: Json) -> bool:
        """Whether the reals of a field have four bytes, so that JSON has fewer digits."""
        return expected.get("size") == 4 or expected.get("elem_size") == 4

    def check(self, case: Case) -> None:
        """Compare one case.

        Raises:
            Mismatch: the codec differs.
            WireloomError: a good case cannot be read or written.
        """
        data = bytes.fromhex(case["hex"])
        known = _MALFORMED if case.get("malformed") else _GOOD
        need(not case.keys() - known, f"unknown keys {sorted(case.keys() - known)}")
        if case.get("malformed"):
            self.check_malformed(case, data)
        else:
            self.check_good(case, data)

    def check_good(self, case: Case, data: bytes) -> None:
        """Compare a case that must be read."""
        message = self.decode(case, data)
        self.compare(case["fields"], self.fields(message), "fields")
        written = message.encode()
        need(data.startswith(written), f"written back as {written.hex()}")
        need(len(written) == self.length(data), "written back with another length")
        if case.get("canonical"):
            built = self.build(case).encode()
            need(built == data, f"built from the fields as {built.hex()}")
        self.check_json(message)
        self.check_framing(written, case)
        self.check_outline(case, data, None)
        self.check_unwrapped(case, message)

    def length(self, data: bytes) -> int:
        """Bytes of the message at the start of `data`."""
        records = list(scan(self.framer(), data))
        need(bool(records) and isinstance(records[0], Frame), "the framer finds no frame")
        return records[0].length

    def framer(self) -> Any:
        """A framer for the case's format."""
        return get(self.format).framer(limits=DEFAULT_LIMITS, strict=False)

    def check_unwrapped(self, case: Case, message: Message) -> None:
        """Compare what automatic unwrapping gives; for formats that carry no others, nothing."""
        need("unwrapped" not in case, "this format does not carry others")

    def check_malformed(self, case: Case, data: bytes) -> None:
        """See that a case is refused, at the field that it says."""
        try:
            message = self.decode(case, data)
        except DecodeError as error:
            if not case.get("quirk"):
                self.check_stage(case, error)
            self.check_outline(case, data, error)
        else:
            need(data.startswith(message.encode()), "accepted and written back differently")
            try:
                self.read_all(message)
            except DecodeError as error:
                self.check_stage(case, error)
            else:
                need(bool(case.get("quirk")), "accepted")
        total = sum(record.length for record in scan(self.framer(), data))
        need(total == len(data), f"{total} of {len(data)} bytes framed")

    def check_stage(self, case: Case, error: DecodeError) -> None:
        """See that the error is where the case says."""
        stage, readable = case["reject_stage"], case["fields_ok"]
        steps = [int(step) for step in re.findall(r"fields\[(\d+)\]", error.path)]
        if stage == "header":
            need(not steps, f"refused in {error.path}, not in the header")
        elif stage == "nested":
            need(len(steps) > 1, f"refused in {error.path}, not in a nested message")
        else:
            need(stage in ("iterate", "value"), f"unknown stage {stage!r}")
            need(steps[:1] == [readable], f"refused in {error.path or 'the header'}: {error}")

    def compare(self, expected: list[Json], fields: Sequence[Any], path: str) -> None:
        """Compare fields with what a case says about them."""
        need(len(expected) == len(fields), f"{path}: {len(fields)} instead of {len(expected)}")
        for index, (wanted, field) in enumerate(zip(expected, fields, strict=True)):
            self.compare_field(wanted, field, f"{path}[{index}]")

    def compare_field(self, expected: Json, field: Any, path: str) -> None:
        """Compare one field, key by key."""
        found = self.view(field)
        missing = expected.keys() - found.keys()
        need(not missing, f"{path}: no {sorted(missing)} in {found}")
        more = found.keys() - expected.keys() - self.optional - self.ignored
        need(not more, f"{path}: {sorted(more)} is not in the case")
        single = self.is_single(expected)
        for key, wanted in expected.items():
            actual = found[key]
            if key == "fields":
                self.compare(wanted, actual, f"{path}.fields")
            elif key == "messages":
                need(len(wanted) == len(actual), f"{path}: {len(actual)} messages")
                for i, fields in enumerate(wanted):
                    self.compare(fields, actual[i], f"{path}.messages[{i}].fields")
            else:
                if key == "md":
                    wanted = {k: v for k, v in wanted.items() if k != "raimd_ival"}
                need(same(wanted, actual, single), f"{path}.{key}: {actual!r} for {wanted!r}")

    def check_json(self, message: Message) -> None:
        """See that the message survives JSON."""
        text = json.dumps(message.to_dict(), allow_nan=False)
        back = get(self.format).from_dict(json.loads(text))
        need(back == message, "JSON and back gives another message")
        need(back.encode() == message.encode(), "JSON and back gives other bytes")

    def check_framing(self, data: bytes, case: Case) -> None:
        """See that two such messages are cut out of a stream, whatever the chunks."""
        stream = data + data
        for size in _CHUNKS if len(data) <= _SMALL else _CHUNKS[-2:]:
            chunks = (stream[i : i + size] for i in range(0, len(stream), size))
            records = list(scan(self.framer(), chunks))
            frames = [record.data for record in records if isinstance(record, Frame)]
            need(frames == [data, data], f"in chunks of {size}: {len(records)} records")
            need([r.offset for r in records] == [0, len(data)], f"offsets in chunks of {size}")

    def check_outline(self, case: Case, data: bytes, error: DecodeError | None) -> None:
        """See that the outline covers the message, and shows an error where there is one."""
        options = self.options(case)
        root = get(self.format).outline(data, limits=DEFAULT_LIMITS, strict=False, **options)
        errors = [node.error for _, node in root.walk() if node.error]
        wanted = [] if error is None else [error.reason]
        need(errors == wanted, f"the outline has the errors {errors}")
        if error is not None and case["reject_stage"] == "iterate":
            # Every readable field has a node with parts; header words and the error have none.
            shown = sum(bool(node.children) for node in root.children)
            need(shown >= case["fields_ok"], f"the outline shows {shown} fields")


def same(expected: Any, actual: Any, single: bool) -> bool:
    """Whether two JSON values are the same, floats bit for bit in their precision."""
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(
            same(a, b, single) for a, b in zip(expected, actual, strict=True)
        )
    if isinstance(actual, float):
        if not isinstance(expected, (int, float)) or isinstance(expected, bool):
            return False
        code = ">f" if single else ">d"
        return struct.pack(code, expected) == struct.pack(code, actual)
    return type(expected) is type(actual) and bool(expected == actual)


def without(expected: Json, keys: Iterable[str]) -> Json:
    """A field's object without some keys."""
    return {key: value for key, value in expected.items() if key not in keys}
