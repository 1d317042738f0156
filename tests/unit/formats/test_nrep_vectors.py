from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import wireloom
from wireloom.formats import nrep
from wireloom.formats.nrep import NrepPacket, SocketData
from wireloom.testing.vectors import Case, load
from wireloom.testing.vectors._nrep_recipe import build
from wireloom.testing.vectors.nrep import Verifier, to_packet, to_vector

FILE = Path(inspect.getfile(nrep)).parent / "vectors" / "nrep.jsonl"
CASES = [case for _, case in load(FILE)]
BY_ID = {case["id"]: case for case in CASES}


def check(case: Case) -> str | None:
    assert Verifier().accepts(case)
    return Verifier().check(case)


def changed(case: Case, **changes: Any) -> Case:
    """A copy; a key like ``packet__payload__data`` reaches inside, None deletes."""
    copy: Case = json.loads(json.dumps(case))
    for path, value in changes.items():
        *outer, last = path.split("__")
        target = copy
        for key in outer:
            target = target[key]
        if value is None:
            target.pop(last, None)
        else:
            target[last] = value
    return copy


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_the_codec_agrees_with_the_vector(case: Case) -> None:
    assert check(case) is None


@pytest.mark.parametrize(
    "case", [c for c in CASES if c["kind"] in ("valid", "tolerated")], ids=lambda c: str(c["id"])
)
def test_strict_takes_what_is_valid_and_nothing_that_is_only_tolerated(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    if case["kind"] == "valid":
        assert wireloom.decode(data, "nrep", strict=True).encode() == data
    else:
        with pytest.raises(wireloom.WireloomError):
            wireloom.decode(data, "nrep", strict=True)


@pytest.mark.parametrize(
    "case",
    [
        {"id": "T01", "title": "a transcript", "steps": [], "transport": "tcp", "kind": "valid"},
        {"kind": "malformed", "hex": "", "expect": "", "why": "blaze has no transport"},
        {"kind": "frame", "transport": "tcp"},
        {"format": "tibmsg", "hex": ""},
    ],
)
def test_cases_of_others_are_left_to_them(case: Case) -> None:
    assert not Verifier().accepts(case)


def test_every_packet_has_a_form_in_the_vectors() -> None:
    for data in nrep.FORMAT.samples().values():
        packet = wireloom.decode(data, "nrep")
        assert isinstance(packet, NrepPacket)
        assert to_packet(to_vector(packet, len(data) - 10)) == packet


@pytest.mark.parametrize(
    ("id_", "changes", "says"),
    [
        ("V11", {"packet__payload__description": "Echo"}, "payload.description: expected Echo"),
        ("V11", {"packet__payload__derived_app_id": None}, "derived_app_id is not in the vector"),
        ("V11", {"packet__payload__colour": 1}, "payload.colour is not in the packet"),
        ("V11", {"packet__nonce": 1}, "nonce: expected 1, got 287454020"),
        ("V11", {"packet__nonsense": 1}, "nonsense: expected 1, got None"),
        ("V11", {"packet__payload": None}, "the case is not of the known schema"),
        ("V11", {"hex": "zz"}, "the case is not of the known schema"),
        ("V11", {"hex": "00"}, "TruncatedError"),
        ("V11", {"hex": BY_ID["V11"]["hex"] + "00"}, "1 bytes after the packet on tcp"),
        ("V15", {"packet__payload__description": "y"}, "… (300 characters)"),
        ("M01", {"error": "E_TYPE"}, "error code: expected type, got short_header"),
        ("M01", {"hex": BY_ID["V11"]["hex"]}, "accepted as PUBLISH, expected E_SHORT_HEADER"),
        ("V49", {"packets": []}, "number of packets: expected 0, got 1"),
        ("V49", {"error": "E_TYPE"}, "problems: expected ['type'], got []"),
        ("V49", {"segments": ["01"]}, "problems: expected [], got ['reserved']"),
        ("V50", {"length": 5}, "length: expected 5"),
        ("V50", {"sha256": "00"}, "sha256: expected 00"),
        ("V50", {"head_hex": "00"}, None),
        ("V50", {"head_hex": "000a000000000e400100ff"}, "head: expected"),
        ("V50", {"recipe": "SOCKET_DATA, something else"}, None),
        ("V50", {"recipe": "a hello"}, "type: the recipe names HELLO, the header another"),
        ("V50", {"recipe": "a riddle"}, None),
        (
            "V50",
            {"recipe": "a riddle", "head_hex": "000a000000000e400100" + "a0" * 10 + "01400100"},
            "InvalidFieldError",
        ),
        ("V50", {"recipe": "a riddle", "length": 5}, "length: expected 5, got 81944"),
        ("V50", {"recipe": "SOCKET_DATA, a riddle", "sha256": "0"}, "length of the sha256"),
        ("V50", {"recipe": "a riddle", "head_hex": "00"}, "there is no header to check"),
        ("V50", {"recipe": "a riddle", "head_hex": "01" * 10}, "InvalidFieldError"),
    ],
)
def test_a_difference_is_told(id_: str, changes: dict[str, Any], says: str | None) -> None:
    found = check(changed(BY_ID[id_], **changes))
    if says is None:
        assert found is None
    else:
        assert found is not None
        assert says in found
        assert "\n" not in found


def test_an_error_may_come_after_good_packets_of_a_stream() -> None:
    case = changed(BY_ID["V49"], error="E_TYPE")
    case["segments"].append("000b")
    assert check(case) is None


def test_bytes_behind_the_content_of_a_datagram_are_no_part_of_the_packet() -> None:
    """Whether the vector mentions them or not."""
    case = changed(BY_ID["V01"], hex=BY_ID["V01"]["hex"] + "beef", error="OK_TRAILING")
    assert check(case) is None
    assert check(changed(case, packet__payload__ignored_trailing="beef")) is None
    assert check(changed(case, packet=None)) is None
    assert check(changed(case, kind="malformed", transport="tcp")) is None
    says = check(changed(case, packet__payload__ignored_trailing="dead"))
    assert says == "payload.ignored_trailing is not in the packet"


def test_the_codec_is_caught_when_it_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    good = BY_ID["V43"]
    with monkeypatch.context() as patch:
        patch.setattr(nrep.Nrep, "from_dict", lambda self, d: nrep.Hello())
        assert "from_dict(to_dict)" in (check(good) or "")
    with monkeypatch.context() as patch:
        patch.setattr(nrep.Nrep, "outline", lambda self, data, **o: _node("broken"))
        assert check(good) == "the outline shows an error"
    with monkeypatch.context() as patch:
        patch.setattr(nrep.Nrep, "outline", lambda self, data, **o: _node(""))
        assert check(BY_ID["M21"]) == "the outline shows no error"


def _node(error: str) -> Any:
    from wireloom.outline import Node

    return Node("", 0, 0, error=error)


# --- recipes ------------------------------------------------------------------------------------

ID = "socket id a0..a9"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("bytes 00..03 repeated 2 times", b"\0\1\2\3\0\1\2\3"),
        ("00..03", b"\0\1\2\3"),
        ("byte 5a repeated 3 times", b"ZZZ"),
        ("0xff repeated 0x10 times", b"\xff" * 16),
        ("aa * 3", b"\xaa" * 3),
        ("'x' * 1_000", b"x" * 1000),
        ("x * 3", b"xxx"),
        ('"ab" repeated 2 times', b"abab"),
        ("3 times 'ab'", b"ababab"),
        ("5 zero bytes", bytes(5)),
        ("5 bytes of ff", b"\xff" * 5),
        ("68656c6c6f", b"hello"),
        ("''", b""),
        ("1000 random bytes", None),
        ("'x", None),
    ],
)
def test_data_in_words(text: str, data: bytes | None) -> None:
    expected = None
    if data is not None:
        socket = bytes.fromhex("a0a1a2a3a4a5a6a7a8a9")
        expected = SocketData(socket_id=socket, nonce=7, data=data).encode()
    assert build(f"SOCKET_DATA, {ID}, nonce 7, data = {text} (a remark, with a comma)") == expected


@pytest.mark.parametrize(
    ("recipe", "text"),
    [
        ("PUBLISH, nonce 0x10, description = 'x' * 3", "000410000000070000000300000078" + "7878"),
        (
            "PUBLISH, nonce 1, description 'ab', trailing ff",
            "0004010000000700000002000000" + "6162ff",
        ),
        ("HELLO; nonce 0", "00030000000000000000"),
        ("HELLO", None),
        ("PING, nonce 0", None),
        ("INSTANCE_REPLY, nonce 0, 255 ids", None),
        ("INSTANCE_REPLY, nonce 0", None),
        ("PUBLISH, nonce 0", None),
        ("PUBLISH, nonce 0, data = 00", None),
        ("PUBLISH, nonce some, description 'x'", None),
        ("OPEN_SOCKET, nonce 2, instance id zero", "0008020000000a000000" + "00" * 10),
        ("OPEN_SOCKET, nonce 2, instance id ff", None),
        (
            "SOCKET_CONTROL, nonce 0, socket id ee repeated 10 times, flags 0x04",
            "0009000000000b000000" + "ee" * 10 + "04",
        ),
        (
            "DISCOVER_REPLY, nonce 0, port 80, certificate = 3 zero bytes",
            "0002000000000b000000" + "5000000003000000000000",
        ),
    ],
)
def test_recipes(recipe: str, text: str | None) -> None:
    assert build(recipe) == (None if text is None else bytes.fromhex(text))


def test_the_nonce_may_come_from_the_head() -> None:
    head = bytes.fromhex("00030102030400000000")
    assert build("HELLO", head) == head


def test_a_recipe_for_a_packet_over_the_limit() -> None:
    recipe = f"SOCKET_DATA, {ID}, nonce 0, data = x * 1048563"
    data = build(recipe)
    assert data is not None
    case = {
        "id": "R1",
        "kind": "recipe",
        "transport": "tcp",
        "recipe": recipe,
        "length": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "head_hex": data[:32].hex(),
    }
    assert check(case) is None
    assert check({**case, "error": "E_TOO_LARGE"}) is None
    assert check({**case, "error": "E_UTF8"}) == "error code: expected utf8, got too_large"
