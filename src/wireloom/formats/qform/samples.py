"""Canonical messages of the system fields, which decode without a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from wireloom.formats.qform.build import build
from wireloom.formats.qform.codes import MsgType, RecStatus
from wireloom.formats.qform.options import SYSTEM

__all__ = ["samples"]

_VALUES: Mapping[str, Mapping[str, int]] = {
    "empty": {},
    "sass header": {
        "MSG_TYPE": MsgType.UPDATE,
        "REC_TYPE": -29873,
        "SEQ_NO": 0,
        "REC_STATUS": RecStatus.OK,
    },
    "initial": {"MSG_TYPE": MsgType.INITIAL, "SEQ_NO": 7, "REC_STATUS": RecStatus.OK},
    "status": {"MSG_TYPE": MsgType.STATUS, "REC_STATUS": RecStatus.FEED_DOWN},
    "unknown codes": {"MSG_TYPE": 999, "REC_STATUS": -1},
}


@cache
def samples() -> Mapping[str, bytes]:
    """Name → bytes."""
    return {name: build(SYSTEM, values).encode() for name, values in _VALUES.items()}
