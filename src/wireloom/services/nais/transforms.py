"""What lines and routes make of records: frames ↔ JSON, or a function of the user's own."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from wireloom.errors import DecodeError, EncodeError, OptionError
from wireloom.formats.nais import NaisPacket, NaisType, TypeRegistry
from wireloom.formats.nais.board import LEDS_TYPE
from wireloom.formats.nais.lines import Transform
from wireloom.formats.nais.packets import read_packet
from wireloom.formats.nais.rules import LineRules
from wireloom.framing import Frame, Text

__all__ = ["Form", "form_transforms", "load_transform"]

Form = Literal["frames", "json", "page"]
LEDS = {"red": 1, "yellow": 2, "green": 4}
"""Name → bit."""
_LED_COMMAND = 1
_CONFIG = ("network", "board", "host", "port", "alive_period", "secure")
_RULES = LineRules(max_payload=(1 << 28) - 1, max_frame=1 << 30)
"""A frame that is here already has passed the limits of its line."""


class _Json:
    """Frames as JSON objects, ``{"type": 3, "sline": 2, …, "message": {…}}``, and text in one."""

    def __init__(self, types: TypeRegistry) -> None:
        self._types = types

    def write(self, record: Frame | Text) -> bytes:
        if isinstance(record, Text):
            text = record.data.decode("utf-8", "backslashreplace").rstrip("\r\n")
            return json.dumps({"text": text}).encode()
        packet = read_packet(record.data, _RULES, types=self._types)
        shown = packet.to_dict()
        names = ("type", "sline", "dline", "rsv", "message_name", "message")
        out = {name: shown[name] for name in names if name in shown}
        if packet.message is None:
            out["payload"] = shown["payload"]
        return json.dumps(out).encode()

    def read(self, record: Frame | Text) -> bytes:
        if isinstance(record, Frame):
            return record.data
        found = _object(record.data)
        if "text" in found:
            if set(found) != {"text"} or not isinstance(found["text"], str):
                raise DecodeError("text stands alone, as a text")
            return _line_of(found["text"])
        return NaisPacket.from_dict(found, types=self._types).encode()


class _Page:
    """The JSON of web pages made for the first junctions (SPEC §6.6)."""

    def __init__(self, types: TypeRegistry) -> None:
        self._types = types

    def write(self, record: Frame | Text) -> bytes:
        if isinstance(record, Text):
            return record.data
        packet = read_packet(record.data, _RULES, types=self._types)
        message = packet.message
        if message is None:
            raise DecodeError(packet.message_error)
        return json.dumps(_for_page(packet.type, message)).encode()

    def read(self, record: Frame | Text) -> bytes:
        if isinstance(record, Frame) or not record.data.lstrip().startswith(b"{"):
            return record.data
        found = _object(record.data)
        if set(found) == {"uid", "pwd"}:
            return NaisPacket.from_message(NaisType.PROFILE, found).encode()
        if found.get("leds") in ("get", "set"):
            return NaisPacket.from_message(LEDS_TYPE, _led_command(found)).encode()
        raise DecodeError("a page says uid and pwd, or leds")


def _for_page(type: int, message: Mapping[str, Any]) -> Mapping[str, Any]:
    if type == NaisType.ACK:
        if message["id"] == LEDS_TYPE and (lit := message.get("status", -1)) >= 0:
            return {name: "on" if lit & bit else "off" for name, bit in LEDS.items()}
        return {"id": message["id"], "sts": message.get("status")}
    if type == NaisType.CONFIG:
        return {name: message.get(name) for name in _CONFIG}
    return message


def _led_command(found: Mapping[str, Any]) -> dict[str, object]:
    chosen = {name: found[name] for name in LEDS if name in found}
    if unknown := set(found) - {"leds"} - chosen.keys():
        raise DecodeError(f"there is no LED {sorted(unknown)[0]!r}")
    if found["leds"] == "get":
        return {"id": _LED_COMMAND}
    if set(chosen.values()) - {"on", "off"}:
        raise DecodeError("a LED is on or off")
    mask = sum(LEDS[name] for name in chosen)
    values = sum(LEDS[name] for name, value in chosen.items() if value == "on")
    return {"id": _LED_COMMAND, "ivals": [mask, values]}


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise DecodeError("it is not a JSON object")
    return found


def _line_of(text: str) -> bytes:
    if "\x1e" in text:
        raise EncodeError("text cannot hold the byte 0x1e", path="text")
    return (text if text.endswith("\n") else text + "\n").encode()


def _with_newline(write: Transform) -> Transform:
    def transform(record: Frame | Text) -> bytes | None:
        made = write(record)
        return made + b"\n" if made and not made.endswith(b"\n") else made

    return transform


def form_transforms(
    form: Form, types: TypeRegistry, *, is_stream: bool
) -> tuple[Transform | None, Transform | None]:
    """What a line of this form does to records that come in, and to those that go out."""
    if form == "frames":
        return None, None
    made: _Json | _Page = _Json(types) if form == "json" else _Page(types)
    # On a stream nothing but a newline says where an object ends.
    return made.read, _with_newline(made.write) if is_stream else made.write


def load_transform(name: str, types: TypeRegistry) -> Transform:
    """A transform by its name, or by ``package.module:function``.

    Raises:
        OptionError: there is none.
    """
    own: dict[str, Transform] = {
        "to_json": _with_newline(_Json(types).write),
        "from_json": _Json(types).read,
        "to_page": _with_newline(_Page(types).write),
        "from_page": _Page(types).read,
    }
    if name in own:
        return own[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise OptionError(f"transform {name!r} is none of {', '.join(own)}, nor module:function")
    try:
        found: Any = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(f"transform {name!r} cannot be loaded: {error}") from None
    if not callable(found):
        raise OptionError(f"transform {name!r} is no function")
    made: Transform = found
    return made
