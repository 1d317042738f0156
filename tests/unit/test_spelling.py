from __future__ import annotations

import pytest

from wireloom.errors import OptionError, UnknownProtocolError
from wireloom.formats import get
from wireloom.spelling import hint, nearest
from wireloom.tables import table


def test_upper_and_lower_case_do_not_matter() -> None:
    assert nearest("bidd", ["ASK", "BID"]) == "BID"
    assert nearest("x", ["ASK", "BID"]) is None
    assert hint("x", []) == ""
    assert nearest("A" * 100_000, ["A" * 100_000]) is None


def test_errors_name_the_nearest() -> None:
    with pytest.raises(UnknownProtocolError, match=r"'blazee' \(is it blaze\?\); there are"):
        get("blazee")
    with pytest.raises(OptionError, match=r"'fieldz' \(is it fields\?\); there are"):
        table("fieldz")
    with pytest.raises(OptionError, match=r"'frame_ofset' \(is it frame_offset\?\); it has"):
        table("frames").select(["frame_ofset"])
