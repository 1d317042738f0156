"""Transactions in a server (SPEC §8.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from itertools import repeat
from typing import Any, Protocol

from wireloom.errors import DecodeError, EncodeError
from wireloom.formats.blaze.body import encode_nclass
from wireloom.formats.blaze.codes import (
    BlazeCode,
    Encoding,
    TransactionResult,
    TransactionType,
)
from wireloom.formats.blaze.nclass import ClassLayout, NClassValue, layout_of
from wireloom.formats.blaze.packets import (
    TransactionRequest,
    TransactionResponse,
)
from wireloom.formats.blaze.session.events import (
    RequestRejected,
    SessionEvent,
    TransactionAborted,
    TransactionRequested,
    TxId,
)
from wireloom.formats.blaze.session.runs import Run
from wireloom.formats.blaze.session.serverbase import ServerBase, ServerSettings
from wireloom.formats.blaze.session.states import (
    SERVER_TRANSACTION,
    Act,
    ServerState,
    Work,
)
from wireloom.formats.blaze.session.subscriptions import EventIds

__all__ = ["ServerTransactions"]

_TXPRID_AT = 20
_UNUSED = 0x00FFFFFF
"""Bits of TXREQW."""
_CLSENC_UNUSED = 0x0FF00000
_NCLASS = TransactionType.NCLASS
_SEE_RESULT = BlazeCode.REASON_IN_RESULT_NCLASS

_Reader = Callable[[bytes, bool], Any]
_Shape = tuple[IntEnum, bool, int, Encoding, ClassLayout, _Reader | None, bool]
"""Action, whether a result is wanted, class, encoding, layout, what reads plain objects, and
whether they have zeros."""

# A transaction is in the state that ACCEPT leads to as long as it flies; and all of this ends it.
for _act in (Act.RESPOND, Act.TIMEOUT, Act.LOST):
    SERVER_TRANSACTION.after(SERVER_TRANSACTION.after(Work.RECEIVED, Act.ACCEPT), _act)


class Answer(Protocol):
    """What became of a transaction."""

    @property
    def is_ok(self) -> bool:
        """Whether it was carried out."""

    @property
    def code(self) -> BlazeCode:
        """Why not."""

    @property
    def result(self) -> NClassValue | None:
        """An object for a client that wants one, or that explains the code 7."""


class ServerTransactions(ServerBase):
    """Takes transactions, and sends each outcome once."""

    def __init__(
        self,
        settings: ServerSettings | None = None,
        now: float = 0.0,
        *,
        event_ids: EventIds | None = None,
    ) -> None:
        super().__init__(settings, now, event_ids=event_ids)
        self._shapes: dict[tuple[int, int], _Shape] = {}

    @property
    def flying(self) -> int:
        """Transactions that have no answer yet."""
        return len(self._flying)

    def respond(
        self,
        txid: TxId,
        now: float,
        code: BlazeCode = BlazeCode.NO_ERROR,
        result: NClassValue | None = None,
        is_ok: bool | None = None,
    ) -> list[SessionEvent]:
        """Answer a transaction; an answer that is no longer awaited is dropped and counted.

        Args:
            txid: its id.
            now: the time.
            code: why it failed; NO_ERROR: it did not.
            result: the object that the client may have asked for, or that explains the code 7.
            is_ok: the outcome, where the code does not imply it.

        Raises:
            EncodeError: the result cannot be written.
        """
        flying = self._flying.get(txid)
        if flying is None:
            self.counts["late_answers"] += 1
            return []
        is_good = code is BlazeCode.NO_ERROR if is_ok is None else is_ok
        request = flying[1]
        is_sent = request.wants_result or code is BlazeCode.REASON_IN_RESULT_NCLASS
        self._answer(txid, code, result if is_sent else None, request.encoding, is_ok=is_good)
        self._finish(txid)
        return [] if self._state is ServerState.CONNECTED else self._drained(now)

    def respond_all(
        self,
        txids: Iterable[TxId],
        outcomes: Iterable[Answer],
        now: float,
        failed: Callable[[EncodeError], object],
    ) -> list[SessionEvent]:
        """Answer several transactions, see `respond`.

        Args:
            txids: their ids.
            outcomes: of each.
            now: the time.
            failed: gets to know that a result cannot be written, and so is not sent.
        """
        flying = self._flying
        events: list[SessionEvent] = []
        numbers: list[int] = []  # of one sender, with one outcome: they are answered together
        plid = svid = 0
        end = False, BlazeCode.NO_ERROR
        for txid, outcome in zip(txids, outcomes, strict=True):
            found = flying.get(txid)
            code = outcome.code
            if (
                found is None
                or (found[1].wants_result and outcome.result is not None)
                or code is _SEE_RESULT
            ):
                self._answer_alike(plid, svid, numbers, *end)
                numbers = []
                try:
                    events += self.respond(txid, now, code, outcome.result, outcome.is_ok)
                except EncodeError as error:
                    failed(error)
                    events += self.respond(txid, now, code, is_ok=outcome.is_ok)
                continue
            if txid[0] != plid or txid[1] != svid or end != (outcome.is_ok, code):
                self._answer_alike(plid, svid, numbers, *end)
                numbers = []
                plid, svid = txid[:2]
                end = outcome.is_ok, code
            numbers.append(txid[3])
            del flying[txid]
        self._answer_alike(plid, svid, numbers, *end)
        return events if self._state is ServerState.CONNECTED else events + self._drained(now)

    def _answer_alike(
        self, plid: int, svid: int, numbers: list[int], is_ok: bool, code: BlazeCode
    ) -> None:
        """Answer transactions of one sender, which do not fly any more, without a result."""
        if numbers:
            sender = plid, svid, self.connid
            self._send_packets(self._numbers.responses(sender, numbers, is_ok, code), len(numbers))
            self._complete(sender, numbers)

    def _finish(self, txid: TxId) -> None:
        del self._flying[txid]
        self._complete(txid[:3], (txid[3],))

    def _complete(self, sender: tuple[int, int, int], numbers: Sequence[int]) -> None:
        """Remember ids that were answered."""
        self._completed.add(sender, numbers)
        if not self._flying:
            self._timers.cancel(Act.RESPOND)

    def _answer(
        self,
        txid: TxId,
        code: BlazeCode,
        result: NClassValue | None = None,
        encoding: Encoding | None = None,
        *,
        is_ok: bool = False,
    ) -> None:
        if result is None and txid[2] and txid[3]:
            self._send_packets(self._numbers.responses(txid[:3], (txid[3],), is_ok, code))
            return
        parts: dict[str, Any] = {}
        if result is not None:
            # The answer is encoded as the request was, except as a delta, which would have no base.
            wanted = Encoding.ALL if encoding is Encoding.ALL else Encoding.INDEXNOTZERO
            first = self.dialect.first_index_of(result.model)
            body = encode_nclass(result, wanted, first_index=first)
            parts = {"rescls": 1, "enctyp": wanted, "nclsid": result.nclass.id, "body": body}
        self._write(
            TransactionResponse(
                txresl=TransactionResult.TXOK if is_ok else TransactionResult.TXKO,
                blzcod=code,
                txplid=txid[0],
                txsvid=txid[1],
                txcnid=txid[2],
                txprid=txid[3],
                **parts,
            )
        )

    def _reject(self, txid: TxId, code: BlazeCode, reason: str = "") -> list[SessionEvent]:
        self.counts["rejected"] += 1
        events: list[SessionEvent] = [RequestRejected("TXRQST", txid, code, reason)]
        if txid[2] and txid[3]:
            self._answer(txid, code)
            return events
        # An answer repeats the id, and the codec does not write one with zeros.
        self._answer((txid[0], txid[1], 1, 1), code)
        raw = bytearray(self._unsent.pop())
        raw[_TXPRID_AT - 4 : _TXPRID_AT] = txid[2].to_bytes(4, "big")
        raw[_TXPRID_AT : _TXPRID_AT + 4] = txid[3].to_bytes(4, "big")
        self._send(bytes(raw))
        return events

    def _txrqst(
        self, fields: dict[str, int], packet: TransactionRequest | None, reason: str, now: float
    ) -> list[SessionEvent]:
        txid = (fields["txplid"], fields["txsvid"], fields["txcnid"], fields["txprid"])
        if txid[2] != self.connid or not txid[3]:
            return self._reject(txid, BlazeCode.INVALID_TRANSACTION_ID)
        if self.settings.is_strict and not all(txid):
            return self._reject(txid, BlazeCode.INVALID_TRANSACTION_ID)
        if txid in self._flying:
            return self._reject(txid, BlazeCode.TRANSACTION_ALREADY_FLYING)
        if txid in self._completed:
            return self._reject(txid, BlazeCode.DUPLICATED_TRANSACTION_ID)
        if packet is None or not isinstance(packet.txactn, IntEnum) or not packet.txactn:
            why = reason or f"TXACTN {fields['txactn']}"
            return self._reject(txid, BlazeCode.REQUEST_MALFORMED, why)
        if packet.txtype not in self.settings.transaction_types:
            return self._reject(txid, BlazeCode.REQUEST_UNSUPPORTED)
        encoding = value = None
        if packet.nclsid is not None and packet.enctyp is not None:
            encoding = self.dialect.encoding(packet.enctyp)
            if encoding not in self.behaviour.encodings:
                return self._reject(txid, BlazeCode.REQUEST_UNSUPPORTED)
            try:
                value = self._object(packet.nclsid, encoding, packet.body)
            except DecodeError as error:
                return self._reject(txid, BlazeCode.REQUEST_MALFORMED, f"body: {error}")
        if self.state is ServerState.DRAINING:
            return self._reject(txid, BlazeCode.SERVER_ABORTED)
        if len(self._flying) >= self.settings.max_flying:
            return self._reject(txid, BlazeCode.SERVER_ERROR)
        deadline = now + self.settings.transaction_timeout
        if not self._flying:
            self._timers.set(Act.RESPOND, deadline)
        request = TransactionRequested(
            txid,
            packet.txtype,
            packet.txactn,
            bool(packet.rsclrq),
            packet.nclsid,
            encoding,
            packet.body,
            value,
        )
        self._flying[txid] = (deadline, request)
        return [request]

    def _good_requests(self, run: Run, now: float, events: list[SessionEvent]) -> int:
        """Take transactions that are to be carried out, up to one that is not; gives its place."""
        words, (numbers,), bodies, _ = run
        _, word, plid, svid, cnid, _, _, clsenc, connid = words
        shape = self._shapes.get((word, clsenc)) or self._shape(word, clsenc)
        is_strict = self.settings.is_strict
        if (
            shape is None
            or not self.connid == connid == cnid
            or (is_strict and not (plid and svid))
        ):
            return 0
        action, wants_result, nclsid, encoding, layout, read, has_zeros = shape
        requests: list[TransactionRequested] = []
        txids = self._unused((plid, svid, cnid), numbers)
        for txid, body in zip(txids, bodies, strict=False):
            items = None if read is None else read(body, has_zeros)
            is_canonical = True
            if items is not None:
                value: NClassValue | None = NClassValue(layout, items, encoding)
            else:
                try:
                    value = self._object(nclsid, encoding, body, strict=True)
                except DecodeError:
                    is_canonical = False
                    try:
                        value = self._object(nclsid, encoding, body)
                    except DecodeError:
                        break
            requests.append(
                TransactionRequested(
                    txid, _NCLASS, action, wants_result, nclsid, encoding, body, value, is_canonical
                )
            )
        if requests:
            deadline = now + self.settings.transaction_timeout
            if not self._flying:
                self._timers.set(Act.RESPOND, deadline)
            self._flying.update(zip(txids, zip(repeat(deadline), requests), strict=False))
            events += requests
        return len(requests)

    def _unused(self, sender: tuple[int, int, int], numbers: Sequence[int]) -> list[TxId]:
        """Ids of transactions that may begin: up to one that is not new, or too many fly."""
        numbers = numbers[: max(0, self.settings.max_flying - len(self._flying))]
        txids = [(*sender, number) for number in numbers]
        if (
            0 not in numbers
            and not self._completed.has_any(sender, numbers)
            and self._flying.keys().isdisjoint(txids)
            and (isinstance(numbers, range) or len(set(numbers)) == len(numbers))
        ):
            return txids
        known: set[int] = {0}
        for place, txid in enumerate(txids):
            if txid[3] in known or txid in self._completed or txid in self._flying:
                return txids[:place]
            known.add(txid[3])
        return txids

    def _shape(self, word: int, clsenc: int) -> _Shape | None:
        """What the words TXREQW and CLSENC of a good request say; None if it may be no good one."""
        action = self._numbers.actions.get(word >> 25 & 7)
        encoding = self._numbers.encodings.get(clsenc >> 28)
        found = None if self.model is None else self.model.nclass(clsenc & 0xFFFFF)
        if (
            action is None
            or encoding is None
            or found is None
            or word >> 28 != _NCLASS
            or _NCLASS not in self.settings.transaction_types
            or encoding not in self.behaviour.encodings
        ):
            return None
        assert self.model is not None
        assert self._first_index is not None
        layout = layout_of(self.model, found.name)
        is_plain = encoding is not Encoding.ALL and len(layout.slots) <= self._limits.max_fields
        read = layout.flat(self._first_index).read if is_plain else None
        has_zeros = encoding is Encoding.INDEXDELTA
        shape = (action, bool(word >> 24 & 1), found.id, encoding, layout, read, has_zeros)
        if not word & _UNUSED and not clsenc & _CLSENC_UNUSED:  # else there would be too many
            self._shapes[word, clsenc] = shape
        return shape

    def _expire(self, now: float) -> list[SessionEvent]:
        """Answer transactions that have timed out; they wait in the order of their deadlines."""
        events: list[SessionEvent] = []
        while self._flying:
            txid, (deadline, _) = next(iter(self._flying.items()))
            if deadline > now + 1e-6:
                self._timers.set(Act.RESPOND, deadline)
                break
            self._finish(txid)
            self._answer(txid, BlazeCode.TRANSACTION_TIMEOUT)
            events.append(TransactionAborted(txid, BlazeCode.TRANSACTION_TIMEOUT))
        return events + self._drained(now)
