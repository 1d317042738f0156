"""What a format does not know is kept, and written back as it was."""

from __future__ import annotations

from typing import Any

import pytest

import wireloom

KEPT: list[Any] = [
    pytest.param("nrep", "0050 01000000 02000000 6162", {"extensions": True}, id="nrep: new type"),
    pytest.param("nrep", "0003 00000000 03000000 010203", {}, id="nrep: content behind the fields"),
    pytest.param("nrep", "0009 00000000 0b000000" + "61" * 10 + "03", {}, id="nrep: new flags"),
    pytest.param("nais", "1e c8 00 00 00 03 ffffff 17", {}, id="nais: new type"),
    pytest.param("nais", "1e 03 00 00 00 06 0801 980605 00 17", {}, id="nais: no such message"),
    pytest.param("nais", "1e 03 00 00 00 05 0801 980605 17", {}, id="nais: new message field"),
    pytest.param("nais", "1e 03 00 00 fe 02 0801 17", {}, id="nais: new flags"),
    pytest.param("blaze", "04850000 f0000000", {}, id="blaze: new reason"),
    pytest.param("blaze", "04850001 10000000", {}, id="blaze: unused bits"),
    pytest.param("blaze", "fc850000 10000000", {}, id="blaze: new version"),
    pytest.param("tibmsg", "ce13aa1f 07 00000006 00 46 01 05 06 00", {}, id="tibmsg: new version"),
    pytest.param("tibmsg", "ce13aa1f 01 00000009 00 77 01 05 76 03 aabbcc", {}, id="tibmsg: bits"),
    pytest.param("tibmsg", "ce13aa1f 01 00000006 00 05 03 010203", {}, id="tibmsg: odd size"),
    pytest.param("tibrv", "0000000e 9955eeaa 00 0b 03 010203", {}, id="tibrv: odd size"),
    pytest.param("qform", "11111112 00000004 cfa1 7fff", {}, id="qform: new code"),
    pytest.param("qform", "11111112 00000006 0fa1 0001 0000", {}, id="qform: other flags"),
]


@pytest.mark.parametrize(("name", "text", "options"), KEPT)
def test_the_unknown_is_kept(name: str, text: str, options: dict[str, Any]) -> None:
    data = bytes.fromhex(text)
    message = wireloom.decode(data, name, **options)
    assert message.encode() == data
    assert wireloom.from_dict(message.to_dict()) == message
    assert wireloom.from_dict(message.to_dict()).encode() == data
    assert wireloom.outline(data, name, **options).length == len(data)
