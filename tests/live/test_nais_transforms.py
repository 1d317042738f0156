"""What lines and routes make of records, without a connection."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wireloom.errors import OptionError, WireloomError
from wireloom.formats.nais import NaisPacket
from wireloom.formats.nais.schema import BUILT_IN
from wireloom.framing import Frame, Text
from wireloom.services.nais.transforms import form_transforms, load_transform

ACK = NaisPacket.from_message("Ack", {"id": 10, "status": 6}, sline=3)


def framed(packet: NaisPacket) -> Frame:
    return Frame("nais", 0, packet.encode())


def text(data: bytes) -> Text:
    return Text("nais", 0, data, data.endswith(b"\n"))


@pytest.mark.parametrize(
    "packet",
    [
        ACK,
        NaisPacket.from_message("Event", {"id": 12, "fvals": [1.5], "ivals": [-1]}, dline=7),
        NaisPacket(type=80, payload=b"\xff\xff", rsv=1),
        NaisPacket(type=80),
    ],
    ids=["ack", "event", "no message", "empty"],
)
def test_json_and_back_is_the_same_frame(packet: NaisPacket) -> None:
    read, write = form_transforms("json", BUILT_IN, is_stream=True)
    assert read is not None
    assert write is not None
    made = write(framed(packet))
    assert made is not None
    assert made.endswith(b"\n")
    assert read(text(made)) == packet.encode()


def test_text_crosses_json_lines_too() -> None:
    read, write = form_transforms("json", BUILT_IN, is_stream=False)
    assert read is not None
    assert write is not None
    assert (
        write(text("café ".encode() + b"\xff\r\n")) == json.dumps({"text": "café \\xff"}).encode()
    )
    assert read(text(b'{"text": "hello\\n"}')) == b"hello\n"
    assert read(framed(ACK)) == ACK.encode()
    for wrong in (b'{"text": "\\u001e"}', b'{"text": "a", "type": 1}', b'{"typo_type": 1}'):
        with pytest.raises(WireloomError):
            read(text(wrong))


def test_pages_get_what_they_got_from_the_first_junctions() -> None:
    read, write = form_transforms("page", BUILT_IN, is_stream=False)
    assert read is not None
    assert write is not None

    def shown(type: str, message: dict[str, object]) -> object:
        return json.loads(write(framed(NaisPacket.from_message(type, message))) or b"")

    assert shown("Ack", {"id": 10, "status": 6}) == {"red": "off", "yellow": "on", "green": "on"}
    assert shown("Ack", {"id": 10, "status": -1}) == {"id": 10, "sts": -1}
    assert shown("Ack", {"id": 1}) == {"id": 1, "sts": None}
    assert shown("Profile", {"uid": "a", "pwd": "b"}) == {"uid": "a", "pwd": "b"}
    config = {"network": "n", "board": "b", "host": "h"}
    nothing = {"port": None, "alive_period": None, "secure": None}
    assert shown("Config", config) == config | nothing
    assert write(text(b"hello\n")) == b"hello\n"
    with pytest.raises(WireloomError):
        write(framed(NaisPacket(type=6, payload=b"\xff")))


def test_pages_ask_as_they_always_did() -> None:
    read, _ = form_transforms("page", BUILT_IN, is_stream=False)
    assert read is not None

    def asked(message: str) -> NaisPacket:
        return NaisPacket.from_dict(
            json.loads(json.dumps({"type": 10, "message": {"id": 1} | json.loads(message)}))
        )

    assert read(text(b'{"leds": "get"}')) == asked("{}").encode()
    both = b'{"leds": "set", "red": "on", "yellow": "off"}'
    assert read(text(both)) == asked('{"ivals": [3, 1]}').encode()
    assert read(text(b"plain")) == b"plain"
    for wrong in (
        b"{",
        b'{"leds": "set", "blue": "on"}',
        b'{"leds": "set", "red": "maybe"}',
        b'{"leds": "dance"}',
        b'{"uid": "a"}',
    ):
        with pytest.raises(WireloomError):
            read(text(wrong))


def test_a_transform_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_rules.py").write_text("def upper(r):\n    return r.data.upper()\nNUMBER = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_transform("own_rules:upper", BUILT_IN)(text(b"a\n")) == b"A\n"
    made = load_transform("to_json", BUILT_IN)(framed(ACK))
    assert made is not None
    assert load_transform("from_json", BUILT_IN)(text(made)) == ACK.encode()
    assert load_transform("from_page", BUILT_IN)(text(b"x")) == b"x"
    assert load_transform("to_page", BUILT_IN)(text(b"x")) == b"x\n"
    for wrong in ("to_xml", "own_rules:missing", "no_such_module:x", "own_rules:NUMBER", ":x"):
        with pytest.raises(OptionError, match="transform"):
            load_transform(wrong, BUILT_IN)
