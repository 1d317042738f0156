"""What a client gets: events of subscriptions, and results of transactions.

Bodies are decoded when somebody looks at the object, and not before.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Generic, TypeVar, cast

from wireloom.errors import ConnectionClosed, StateError
from wireloom.formats.blaze.body import decode_nclass
from wireloom.formats.blaze.classes import ModelObject, classes_of
from wireloom.formats.blaze.codes import Action, BlazeCode, Encoding, EventType
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.session import (
    Stamp,
    TransactionFinished,
    TransactionsFinished,
    TxId,
)
from wireloom.services.blaze.errors import OutcomeUnknown, TransactionRefused

__all__ = ["Event", "Reader", "Result"]

T_co = TypeVar("T_co", bound=ModelObject, covariant=True)


class Reader:
    """Reads the bodies of one class."""

    __slots__ = ("_class", "_first_index", "_model", "nclsid")

    def __init__(self, model: Model | None, nclsid: int, first_index: int | None) -> None:
        self.nclsid = nclsid
        self._model = model
        self._first_index = first_index
        self._class: type[ModelObject] | None = None

    def value(self, body: bytes, encoding: Encoding) -> NClassValue:
        """The object in a body.

        Raises:
            StateError: there is no model.
            DecodeError: it is none of this class.
        """
        if self._model is None:
            raise StateError("without a model the body cannot be read; give one to the client")
        return decode_nclass(
            self._model, self.nclsid, body, encoding, first_index=self._first_index
        )

    def object(self, value: NClassValue) -> ModelObject:
        """The same as an object of the Python class."""
        if self._class is None:
            self._class = classes_of(value.model).object_class(value.nclass.name)
        return self._class.from_value(value)


class Event(Generic[T_co]):
    """Something that a subscription tells: an object, the end of the download, or a gap."""

    __slots__ = ("_reader", "_value", "action", "body", "delta", "kind", "sevtid", "stamp")

    def __init__(
        self,
        kind: EventType | None,
        action: IntEnum | int = Action.NONE,
        stamp: Stamp = (0, 0),
        body: bytes = b"",
        sevtid: int = 0,
        reader: Reader | None = None,
    ) -> None:
        self.kind = kind
        """DATALIVE: a change. DATADWNL: what was stored, or has changed while there was no
        connection. DWNLEND: the end of the download. None: a gap."""
        self.action = action
        """INS, UPD, DLT, DEL or RST; in other dialects their names for it."""
        self.stamp = stamp
        """When the object changed; see `Subscription.position` for where to resume."""
        self.body = body
        """The object as it came."""
        self.sevtid = sevtid
        self.delta: NClassValue | None = None
        """What has changed, if the server has sent only that; `object` is whole all the same."""
        self._reader = reader
        self._value: NClassValue | None = None

    @property
    def is_download_end(self) -> bool:
        """All that was stored has come."""
        return self.kind is EventType.DWNLEND

    @property
    def is_gap(self) -> bool:
        """The connection was lost and is back, and there is no way to ask for what was missed."""
        return self.kind is None

    @property
    def value(self) -> NClassValue:
        """The object as the codec reads it.

        Raises:
            StateError: the event has no object, there is no model, or what a delta changes was
                never received.
            DecodeError: the body is no object of the class.
        """
        if self._value is None:
            if self._reader is None:
                raise StateError("the event has no object")
            if self.delta is not None:
                raise StateError("a delta to an object that was never received")
            self._value = self._reader.value(self.body, Encoding.INDEXNOTZERO)
        return self._value

    @property
    def object(self) -> T_co:
        """The object; a new one at each call.

        Raises:
            StateError: the event has no object, there is no model, or what a delta changes was
                never received.
            DecodeError: the body is no object of the class.
        """
        value = self.value
        assert self._reader is not None
        return cast("T_co", self._reader.object(value))

    def merge(self, delta: NClassValue | None, value: NClassValue | None) -> None:
        """Set what the subscription knows better: the delta, and the object with it applied."""
        self.delta, self._value = delta, value

    def __repr__(self) -> str:
        if self.kind is None:
            return "<Event gap>"
        action = getattr(self.action, "name", self.action)
        what = "" if self.is_download_end else f" {action} {self.stamp[0]},{self.stamp[1]}"
        return f"<Event {self.kind.name}{what}>"


class Result:
    """How a transaction ended."""

    __slots__ = ("_finished", "_number", "_reader")

    def __init__(
        self,
        finished: TransactionFinished | TransactionsFinished | None,
        reader: Reader | None = None,
        number: int = 0,
    ) -> None:
        self._finished = finished
        self._reader = reader
        self._number = number
        """Which of several transactions that ended alike."""

    @property
    def _one(self) -> TransactionFinished | None:
        found = self._finished
        return found.of(self._number) if isinstance(found, TransactionsFinished) else found

    @property
    def txid(self) -> TxId | None:
        """Its id; None when it was not sent."""
        return None if (one := self._one) is None else one.txid

    @property
    def is_ok(self) -> bool:
        """Whether the server has carried it out."""
        return self._finished is not None and self._finished.is_ok

    @property
    def code(self) -> int:
        """Why not."""
        return BlazeCode.TRANSACTION_LOST if self._finished is None else self._finished.code

    @property
    def is_sent(self) -> bool:
        """False: there was no connection, and the server never saw it."""
        return self._finished is not None

    @property
    def is_known(self) -> bool:
        """False: no answer has come, and the server may have done it."""
        return (one := self._one) is None or not one.is_local

    @property
    def body(self) -> bytes | None:
        """The result object as it came; None without one."""
        return None if (one := self._one) is None else one.body

    @property
    def encoding(self) -> Encoding | None:
        """Of the result object."""
        return None if (one := self._one) is None else one.encoding

    @property
    def value(self) -> NClassValue | None:
        """The result object as the codec reads it; None without one.

        Raises:
            StateError: there is no model.
            DecodeError: it is none of its class.
        """
        if self.body is None or self._reader is None:
            return None
        return self._reader.value(self.body, self.encoding or Encoding.INDEXNOTZERO)

    @property
    def object(self) -> ModelObject | None:
        """The result object; None without one.

        Raises:
            StateError: there is no model.
            DecodeError: it is none of its class.
        """
        value = self.value
        return None if value is None or self._reader is None else self._reader.object(value)

    def check(self) -> Result:
        """The result itself, if the server has carried the transaction out.

        Raises:
            TransactionRefused: the server has answered no.
            OutcomeUnknown: no answer has come.
            ConnectionClosed: it was not sent.
        """
        if self.is_ok:
            return self
        if not self.is_sent:
            raise ConnectionClosed("there is no connection; the transaction was not sent")
        raise TransactionRefused(self) if self.is_known else OutcomeUnknown(self)

    def __repr__(self) -> str:
        name = getattr(self.code, "name", self.code)
        return f"<Result {'ok' if self.is_ok else name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Result, (self._one,)
