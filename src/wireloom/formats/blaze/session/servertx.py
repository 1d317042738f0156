"""Transactions in a server (SPEC §8.3)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from wireloom.errors import DecodeError
from wireloom.formats.blaze.body import encode_nclass
from wireloom.formats.blaze.codes import (
    BlazeCode,
    Encoding,
    TransactionResult,
    TransactionType,
)
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.packets import (
    TransactionRequest,
    TransactionResponse,
)
from wireloom.formats.blaze.session.events import (
    SessionEvent,
    TransactionAborted,
    TransactionRequested,
    TxId,
)
from wireloom.formats.blaze.session.quick import REQUEST
from wireloom.formats.blaze.session.serverbase import Flying, ServerBase
from wireloom.formats.blaze.session.states import (
    SERVER_TRANSACTION,
    Act,
    ServerState,
    Work,
)

__all__ = ["ServerTransactions"]

_TXPRID_AT = 20
_ACCEPTED = SERVER_TRANSACTION.after(Work.RECEIVED, Act.ACCEPT)


class ServerTransactions(ServerBase):
    """Takes transactions, and sends each outcome once."""

    @property
    def flying(self) -> int:
        """Transactions that have no answer yet."""
        return len(self._flying)

    def respond(
        self,
        txid: TxId,
        now: float,
        *,
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
        is_sent = flying.wants_result or code is BlazeCode.REASON_IN_RESULT_NCLASS
        self._answer(txid, code, result if is_sent else None, flying.encoding, is_ok=is_good)
        self._finish(txid, Act.RESPOND)
        return self._drained(now)

    def _finish(self, txid: TxId, act: Act) -> None:
        flying = self._flying.pop(txid)
        flying.state = SERVER_TRANSACTION.after(flying.state, act)
        self._completed[txid] = None
        if len(self._completed) > self.settings.max_completed:
            self._completed.popitem(last=False)
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
            self._send(self._numbers.response(is_ok, code, txid))
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

    def _reject(self, txid: TxId, code: BlazeCode) -> list[SessionEvent]:
        self.counts["rejected"] += 1
        if txid[2] and txid[3]:
            self._answer(txid, code)
            return []
        # An answer repeats the id, and the codec does not write one with zeros.
        self._answer((txid[0], txid[1], 1, 1), code)
        raw = bytearray(self._unsent.pop())
        raw[_TXPRID_AT - 4 : _TXPRID_AT] = txid[2].to_bytes(4, "big")
        raw[_TXPRID_AT : _TXPRID_AT + 4] = txid[3].to_bytes(4, "big")
        self._send(bytes(raw))
        return []

    def _txrqst(
        self, fields: dict[str, int], packet: TransactionRequest | None, now: float
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
            return self._reject(txid, BlazeCode.REQUEST_MALFORMED)
        if packet.txtype not in self.settings.transaction_types:
            return self._reject(txid, BlazeCode.REQUEST_UNSUPPORTED)
        encoding = value = None
        if packet.nclsid is not None and packet.enctyp is not None:
            encoding = self.dialect.encoding(packet.enctyp)
            if encoding not in self.behaviour.encodings:
                return self._reject(txid, BlazeCode.REQUEST_UNSUPPORTED)
            try:
                value = self._object(packet.nclsid, encoding, packet.body)
            except DecodeError:
                return self._reject(txid, BlazeCode.REQUEST_MALFORMED)
        if self.state is ServerState.DRAINING:
            return self._reject(txid, BlazeCode.SERVER_ABORTED)
        if len(self._flying) >= self.settings.max_flying:
            return self._reject(txid, BlazeCode.SERVER_ERROR)
        deadline = now + self.settings.transaction_timeout
        state = SERVER_TRANSACTION.after(Work.RECEIVED, Act.ACCEPT)
        self._flying[txid] = Flying(state, deadline, encoding, bool(packet.rsclrq))
        if len(self._flying) == 1:
            self._timers.set(Act.RESPOND, deadline)
        return [
            TransactionRequested(
                txid,
                packet.txtype,
                packet.txactn,
                bool(packet.rsclrq),
                packet.nclsid,
                encoding,
                packet.body,
                value,
            )
        ]

    def _good_request(self, frame: bytes, now: float) -> TransactionRequested | None:
        """A transaction that is to be carried out; None if it may have to be refused."""
        _, word, plid, svid, cnid, prid, _, clsenc, connid = REQUEST.unpack_from(frame)
        txid = (plid, svid, cnid, prid)
        action = self._numbers.actions.get(word >> 25 & 7)
        encoding = self._numbers.encodings.get(clsenc >> 28)
        nclsid = clsenc & 0xFFFFF
        given = self.settings
        if (
            action is None
            or encoding is None
            or self.model is None
            or not nclsid
            or not prid
            or connid != self.connid
            or cnid != self.connid
            or word >> 28 != TransactionType.NCLASS
            or TransactionType.NCLASS not in given.transaction_types
            or encoding not in self.behaviour.encodings
            or (given.is_strict and not (plid and svid))
            or txid in self._flying
            or txid in self._completed
            or len(self._flying) >= given.max_flying
        ):
            return None
        body = frame[REQUEST.size :]
        is_canonical = True
        try:
            value = self._object(nclsid, encoding, body, strict=True)
        except DecodeError:
            is_canonical = False
            try:
                value = self._object(nclsid, encoding, body)
            except DecodeError:
                return None
        wants_result = bool(word >> 24 & 1)
        deadline = now + given.transaction_timeout
        if not self._flying:
            self._timers.set(Act.RESPOND, deadline)
        self._flying[txid] = Flying(_ACCEPTED, deadline, encoding, wants_result)
        return TransactionRequested(
            txid,
            TransactionType.NCLASS,
            action,
            wants_result,
            nclsid,
            encoding,
            body,
            value,
            is_canonical,
        )

    def _expire(self, now: float) -> list[SessionEvent]:
        """Answer transactions that have timed out; they wait in the order of their deadlines."""
        events: list[SessionEvent] = []
        while self._flying:
            txid, flying = next(iter(self._flying.items()))
            if flying.deadline > now + 1e-6:
                self._timers.set(Act.RESPOND, flying.deadline)
                break
            self._finish(txid, Act.TIMEOUT)
            self._answer(txid, BlazeCode.TRANSACTION_TIMEOUT)
            events.append(TransactionAborted(txid, BlazeCode.TRANSACTION_TIMEOUT))
        return events + self._drained(now)
