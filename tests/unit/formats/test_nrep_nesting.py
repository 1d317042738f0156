from __future__ import annotations

import pytest

import wireloom
from wireloom.format import Format
from wireloom.formats import qform, tibmsg, tibrv
from wireloom.formats.nrep import SocketData
from wireloom.nesting import Nested, Unreadable

SOCKET = bytes.fromhex("a0a1a2a3a4a5a6a7a8a9")


def carried(data: bytes) -> wireloom.Message:
    """What a reader of the connection sees."""
    return wireloom.decode(SocketData(socket_id=SOCKET, data=data).encode(), "nrep")


def test_a_tibmsg_in_a_rendezvous_opaque_in_a_socket_data_packet_is_found() -> None:
    quote = tibmsg.build({"TRDPRC_1": 42.5, "BID": 42.25})
    envelope = tibrv.build({"subject": "RSF.REC.IBM", "_data_": quote.encode()})
    message = carried(envelope.encode())
    assert list(wireloom.nested(message)) == [
        Nested("data", "tibrv", envelope),
        Nested("data._data_", "tibmsg", quote),
    ]


def test_a_message_deeper_in_a_rendezvous_message_has_the_path_of_its_field() -> None:
    quote = tibmsg.build({"BID": 1})
    envelope = tibrv.build({"list": {"first": quote.encode(), "second": b"data"}})
    found = list(wireloom.nested(carried(envelope.encode() * 2)))
    assert [(each.path, each.format) for each in found] == [
        ("data[0]", "tibrv"),
        ("data[0].list.first", "tibmsg"),
        ("data[1]", "tibrv"),
        ("data[1].list.first", "tibmsg"),
    ]


@pytest.mark.parametrize("format_", [tibmsg.FORMAT, tibrv.FORMAT, qform.FORMAT])
def test_every_sample_of_a_message_is_found_and_every_truncation_reported(
    format_: Format,
) -> None:
    for data in format_.samples().values():
        first = next(wireloom.nested(carried(data)))
        assert (first.path, first.format) == ("data", format_.name)
        assert first.message == wireloom.decode(data, format_.name)
        unreadable: list[Unreadable] = []
        for size in range(8, len(data)):
            assert not list(wireloom.nested(carried(data[:size]), on_unreadable=unreadable.append))
        assert {each.format for each in unreadable} <= {format_.name}


def test_a_transport_s_bytes_are_not_looked_for() -> None:
    inner = SocketData(socket_id=SOCKET, data=b"hello").encode()
    assert list(wireloom.nested(carried(inner))) == []
