"""What a Blaze client raises, each with its code; connections that end are `ConnectionClosed`.

::

    WireloomError
    ├── ConnectionRefused        the server does not want this client (code)
    ├── SubscriptionRefused      no events will come (code)
    ├── SubscriptionStopped      the server has ended a subscription, and not in order (code)
    └── TransactionFailed        (code, result)
        ├── TransactionRefused   the server says no: nothing was done
        └── OutcomeUnknown       no answer has come: the server may have done it, or not
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from wireloom.errors import WireloomError

if TYPE_CHECKING:
    from wireloom.services.blaze.events import Result

__all__ = [
    "ConnectionRefused",
    "OutcomeUnknown",
    "SubscriptionRefused",
    "SubscriptionStopped",
    "TransactionFailed",
    "TransactionRefused",
    "code_text",
]


def code_text(code: int) -> str:
    """A code for people: its name, if it has one, and its number."""
    return f"{code.name} ({int(code)})" if isinstance(code, IntEnum) else f"code {code}"


class _Coded(WireloomError):
    code: int
    """A `BlazeCode` or `RefusalCode`, or the enum that the dialect has; a number without a name
    stays a number."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


class ConnectionRefused(_Coded):
    """The server does not want this client."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the server refuses the connection: {code_text(code)}", code)


class SubscriptionRefused(_Coded):
    """The server does not grant a subscription, or has not answered in time."""

    def __init__(self, code: int, *, is_local: bool = False) -> None:
        why = "no answer has come in time" if is_local else code_text(code)
        if getattr(code, "name", "") == "SBS_ALREADY_STARTED":
            why += "; this connection has one to the class, which is to be closed first"
        super().__init__(f"the subscription is refused: {why}", code)


class SubscriptionStopped(_Coded):
    """The server has ended a subscription for a reason of its own."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the server has stopped the subscription: {code_text(code)}", code)


class TransactionFailed(_Coded):
    """A transaction that was not carried out, or of which that is not known."""

    result: Result
    """The answer; its `object` explains REASON_IN_RESULT_NCLASS."""

    def __init__(self, reason: str, result: Result) -> None:
        super().__init__(reason, result.code)
        self.result = result


class TransactionRefused(TransactionFailed):
    """The server has answered no."""

    def __init__(self, result: Result) -> None:
        super().__init__(f"the transaction is refused: {code_text(result.code)}", result)


class OutcomeUnknown(TransactionFailed):
    """No answer has come: TRANSACTION_TIMEOUT or TRANSACTION_LOST. The server may have done it.

    Whoever sends it once more must be able to do so: an update with the whole object may be sent
    again, an insert may then be refused because the first one was carried out.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(
            f"it is not known what became of the transaction: {code_text(result.code)}", result
        )
