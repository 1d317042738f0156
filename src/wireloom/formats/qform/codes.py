"""The codes that SASS system fields carry, by convention (SPEC §5)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

__all__ = ["MsgType", "RecStatus", "meaning"]


class MsgType(IntEnum):
    """What a message does to the record: the value of `MSG_TYPE`, fid 4001."""

    VERIFY = 0
    UPDATE = 1
    CORRECT = 2
    CLOSING = 3
    DROP = 4
    AGGREGATE = 5
    STATUS = 6
    CANCEL = 7
    INITIAL = 8
    TRANSIENT = 9
    DERIVED = 10
    DELETE = 11
    SUBREINIT = 12
    SNAPSHOT = 13
    CONFIRM = 14
    BDS_CONFIRM = 15
    EDIT = 16
    EDIT_FORCE = 17
    RENAME = 18
    SERVICE_STATUS = 19
    CONTRIB_REPLY = 20
    GROUP_STATUS = 21
    GROUP_MERGE = 22
    GROUP_CHANGE = 23
    INITIAL_PASS_THRU = 24
    UPDATE_PASS_THRU = 25
    INITIAL_AGGREGATE = 26
    UPDATE_AGGREGATE = 27
    FINISH_AGGREGATE = 28


class RecStatus(IntEnum):
    """The state of the record: the value of `REC_STATUS`, fid 4005."""

    OK = 0
    BAD_NAME = 1
    BAD_LINE = 2
    CACHE_FULL = 3
    PERMISSION_DENIED = 4
    PREEMPTED = 5
    BAD_ACCESS = 6
    TEMP_UNAVAIL = 7
    REASSIGN = 8
    NOSUBSCRIBERS = 9
    EXPIRED = 10
    TIC_DOWN = 11
    FEED_DOWN = 12
    GSM_DOWN = 14
    SUBSC_DENIED = 15
    SUBSC_TEMP_DENIED = 16
    NOT_FOUND = 17
    STALE_VALUE = 18
    RELOCATE = 19
    ENTITLEMENT_DENIED = 20
    REC_OVERFLOW = 21
    TIC_TUPLE_FAIL = 22
    ENTITLEMENT_MIGRATED = 23
    CI_DISCONNECTED = 24
    CI_DIAG_START = 25
    NO_CACHED_DATA = 26
    NO_REPLY = 27
    TMF_DOWN = 28
    TPT_DISCONNECTED = 29
    TIMEOUT = 30
    PERIODIC_SNAPSHOT = 64
    FEED_UP = 65
    HL_ROUTER_DOWN = 66
    DQA_SUSPECT = 67
    DQA_ACTIVE = 68
    GSM_UP = 69
    HL_ROUTER_UP = 71
    TIC_UP = 72
    FEED_SWITCHOVER = 73
    DATA_SUSPECT = 74
    RECAP = 75
    CI_RECONNECTED = 76
    CI_DIAG_END = 77
    RECOVER_SUBSC_DENIED = 80
    CONTRIB_ACK = 81
    CONTRIB_NACK = 82
    TMF_UP = 83
    TPT_CONNECTED = 84
    FEED_NOT_ACCEPTING = 85


_CODES: Mapping[str, type[IntEnum]] = {"MSG_TYPE": MsgType, "REC_STATUS": RecStatus}


def meaning(name: str, value: object) -> str:
    """What a number in the system field of that name stands for; empty if nothing is known.

    >>> meaning("MSG_TYPE", 1), meaning("MSG_TYPE", 99), meaning("BID", 1)
    ('UPDATE', '', '')
    """
    codes = _CODES.get(name)
    if codes is None or not isinstance(value, int):
        return ""
    try:
        return codes(value).name
    except ValueError:
        return ""
