"""Every TibMsg and TibrvMsg example that the document prints, byte for byte, misprints included."""

from __future__ import annotations

from decimal import Decimal

import pytest

import wireloom
from wireloom.errors import DecodeError
from wireloom.formats import tibmsg, tibrv
from wireloom.formats.tibmsg import Date, FieldType


def tib(fields: str) -> bytes:
    """A TibMsg with the given fields: the document prints most of them without a header."""
    body = bytes.fromhex(fields)
    return tibmsg.Message().encode()[:5] + len(body).to_bytes(4, "big") + body


def refusal(data: bytes, **options: str) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        wireloom.decode(data, "tibrv", **options)
    return caught.value


# --- TibMsg -------------------------------------------------------------------------------------


def test_the_first_tibmsg() -> None:
    data = bytes.fromhex("ce13aa1f 01 0000000b 04 6e616d00 05 04 12345678")
    message = tibmsg.decode(data, strict=True)
    assert message["nam"].value == 0x12345678
    assert message == tibmsg.build({"nam": 0x12345678})
    assert message.encode() == data


@pytest.mark.parametrize(
    ("type_and_size", "data", "kind"),
    [
        ("05 02", bytes(2), FieldType.INT),
        ("82 00 00 04 00", b"x" * 1023 + b"\0", FieldType.STRING),
        ("42 0c", b"25 APR 1994\0", FieldType.STRING),
    ],
)
def test_type_and_size(type_and_size: str, data: bytes, kind: FieldType) -> None:
    head = bytes.fromhex(type_and_size)
    hint = bytes.fromhex("06 02 01 02") if head[0] & 0x40 else b""
    (field,) = tibmsg.decode(tib((b"\0" + head + data + hint).hex()), strict=True)
    assert (field.type, field.data, field.size) == (kind, data, len(data))
    assert (field.hint is not None) == bool(hint)


def test_a_string_with_a_date_hint() -> None:
    data = tib(
        "0B 48 53 54 43 4C 53 44 41 54 45 00 42 0C 32 35 20 41 50 5220 31 39 39 34 00 06 02 01 02"
    )
    message = tibmsg.decode(data, strict=True)
    assert message["HSTCLSDATE"].value == Date(1994, 4, 25)
    assert message["HSTCLSDATE"].hint_number == 258
    assert tibmsg.build({"HSTCLSDATE": Date(1994, 4, 25)}).encode() == data


def test_a_partial() -> None:
    # The label says ROW64_1; the byte before the NUL is 34, which is a "4" (erratum 3).
    data = tib("08 52 4F 57 36 34 5F 34 00 49 04 41 41 55 55 06 3C")
    message = tibmsg.decode(data, strict=True)
    field = message["ROW64_4"]
    assert (field.type, field.value, field.partial_offset) == (FieldType.PARTIAL, b"AAUU", 60)
    assert tibmsg.build([tibmsg.Field.partial("ROW64_4", "AAUU", 60)]).encode() == data


def test_an_array() -> None:
    # The document asks for hint data here; 05 02 is a hint key and size, and no data (erratum 4).
    data = tib("06 41 52 52 41 59 00 48 06 00 01 00 02 00 03 05 02")
    message = tibmsg.decode(data, strict=True)
    assert message["ARRAY"].value == (1, 2, 3)
    assert (message["ARRAY"].element_type, message["ARRAY"].element_size) == (FieldType.INT, 2)
    assert tibmsg.build([tibmsg.Field.array("ARRAY", [1, 2, 3], FieldType.INT, 2)]).encode() == data


@pytest.mark.parametrize(
    ("hint", "text"),
    # 256 is a date and 257 a time: the list has them the wrong way round (erratum 2), the sample
    # output at the end of the document (TIMACT <257>, ACTIV_DATE <256>) does not.
    [(256, "18 OCT 2011"), (258, "18 OCT 2011"), (257, "19:33"), (259, "19:33"), (260, "19:33:00")],
)
def test_the_hints_of_dates_and_times(hint: int, text: str) -> None:
    value = tibmsg.Field.of("F", text, hint=hint).value
    assert type(value).__name__ == ("Date" if hint in (256, 258) else "Time")
    assert value.text == text


@pytest.mark.parametrize("hint", range(9))
def test_the_hints_of_fractions(hint: int) -> None:
    value = tibmsg.Field.of("F", 1.5, hint=hint).value
    assert value == Decimal("1.5")
    assert -value.as_tuple().exponent == (hint or 1)


@pytest.mark.parametrize("hint", range(17, 26))
def test_the_hints_of_places(hint: int) -> None:
    assert str(tibmsg.Field.of("F", 1.5, hint=hint).value) == "1.5" + "0" * (hint - 17)


# --- TibrvMsg -----------------------------------------------------------------------------------

FIRST = bytes.fromhex("00000013 9955eeaa 04 6e616d00 0c 05 12345678")


def test_the_first_tibrvmsg_as_printed_is_of_the_document_s_dialect() -> None:
    # The size 05 counts itself; on the wire it would be 04 (erratum 10). The length 13 is right.
    assert refusal(FIRST, dialect="standard").path == "fields[0]"
    message = tibrv.decode(FIRST)
    assert message.dialect == "document"
    assert message["nam"].value == 0x12345678
    assert tibrv.decode(FIRST, dialect="document") == message


def test_the_first_tibrvmsg_is_written_in_the_real_form() -> None:
    real = bytes.fromhex("00000013 9955eeaa 04 6e616d00 0c 04 12345678")
    message = tibrv.decode(FIRST)
    assert message.encode() == real
    again = tibrv.decode(real, strict=True)
    assert again == message
    assert again.dialect == "standard"
    assert tibrv.build([tibrv.Field.of("nam", 0x12345678, type=tibrv.FieldType.UINT)]) == message


@pytest.mark.parametrize(
    ("size", "data_bytes"),
    # The document counts the size bytes in all three forms. In truth the first is 4 bytes of data,
    # the others count what follows the marker: 0x1234 - 2 and 0x12345678 - 4 (errata 11 to 14).
    [("04", 4), ("79 12 34", 0x1232), ("7a 00 34 56 78", 0x345674)],
)
def test_examples_of_sizes(size: str, data_bytes: int) -> None:
    # The last one has its first byte cleared, or the example would take 300 MB.
    body = b"\0\x07" + bytes.fromhex(size) + bytes(data_bytes)
    data = (8 + len(body)).to_bytes(4, "big") + tibrv.Message().encode()[4:] + body
    (field,) = tibrv.decode(data, dialect="standard")
    assert field.size == data_bytes
    assert tibrv.decode(data).encode() == data


NESTED = (
    "000000 {length} 9955eeaa 05 6461746100 01 7a 00000017"
    "9955eeaa 06 6669656c6400 08 {size} 76616c756500"
)


def test_the_nested_tibrvmsg() -> None:
    # As printed the length is 1f: it leaves out the 8 bytes of the header, against the document's
    # own rule. 27 is right (erratum 15). The inner string's size 07 counts itself; 06 is right.
    printed = bytes.fromhex(NESTED.format(length="1f", size="07"))
    assert refusal(printed).path == "fields[0]"
    half = bytes.fromhex(NESTED.format(length="27", size="07"))
    assert refusal(half, dialect="standard").path == "fields[0].fields[0]"
    assert tibrv.decode(half).dialect == "document"
    right = bytes.fromhex(NESTED.format(length="27", size="06"))
    message = tibrv.decode(right, strict=True)
    assert message == tibrv.decode(half) == tibrv.build({"data": {"field": "value"}})
    assert message.encode() == right
    assert message["data"]["field"].value == "value"
    assert message["data"].size == 0x17


CARRIER = (
    "000000 {length} 9955eeaa 07 5f646174615f00 07 20"
    "ce13aa1f 01 00000017 09 5452445052435f3100 47 08 3ff2000000000000 06 01 13"
)


def test_the_tibmsg_in_an_opaque() -> None:
    # As printed the length is 2a, again without the header; 32 is right (erratum 16). The opaque's
    # size 20 is right, and does not count itself: the document's examples do not agree.
    assert refusal(bytes.fromhex(CARRIER.format(length="2a"))).path == "fields[0]"
    data = bytes.fromhex(CARRIER.format(length="32"))
    envelope = tibrv.decode(data, strict=True)
    assert envelope.dialect == "standard"
    carried = envelope.carried()
    assert carried is not None
    assert carried.format == "tibmsg"
    inner = wireloom.decode(data, "tibrv", unwrap=True, strict=True)
    assert isinstance(inner, tibmsg.Message)
    assert inner == tibmsg.build({"TRDPRC_1": Decimal("1.125")})
    # "TRDPRC_1 : REAL 8 : 1.125 <19>"
    field = inner["TRDPRC_1"]
    assert (field.type, field.size, field.hint_number) == (FieldType.REAL, 8, 19)
    assert str(field.value) == "1.125"
