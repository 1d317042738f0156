"""Transactions of a client (SPEC §8.3)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from wireloom.errors import DecodeError, StateError
from wireloom.formats.blaze.body import encode_nclass
from wireloom.formats.blaze.codes import (
    Action,
    BlazeCode,
    Encoding,
    TransactionResult,
    TransactionType,
)
from wireloom.formats.blaze.dialects import translate
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.packets import TransactionRequest, TransactionResponse
from wireloom.formats.blaze.session.clientbase import ClientBase, ClientSettings
from wireloom.formats.blaze.session.events import SessionEvent, TransactionFinished, TxId
from wireloom.formats.blaze.session.quick import Columns
from wireloom.formats.blaze.session.states import CLIENT_TRANSACTION, Act, ClientState, Flight

__all__ = ["ClientTransactions"]

# A transaction flies as long as it is in `_flying`; and all of this ends it.
for _act in (Act.TXRESP, Act.TIMEOUT, Act.CANCEL, Act.LOST):
    CLIENT_TRANSACTION.after(Flight.FLYING, _act)


class ClientTransactions(ClientBase):
    """Sends transactions, many at a time, and pairs them with their answers."""

    def __init__(self, settings: ClientSettings | None = None) -> None:
        super().__init__(settings)
        self._txprid = 0
        self._request_words: dict[Any, tuple[int, ...]] = {}

    @property
    def flying(self) -> int:
        """Transactions that have no answer yet."""
        return len(self._flying)

    def transact(
        self,
        action: Action,
        value: NClassValue | None,
        now: float,
        *,
        encoding: Encoding = Encoding.INDEXNOTZERO,
        type: TransactionType = TransactionType.NCLASS,
        wants_result: bool = False,
        timeout: float | None = None,
    ) -> TxId:
        """Send a transaction; returns its id, and `TransactionFinished` follows in any case.

        Raises:
            StateError: no connection, too many are pending, or the dialect has no such request.
            EncodeError: the object or the action cannot be written.
        """
        nclsid = body = None
        if value is not None:
            first = self.dialect.first_index_of(value.model)
            nclsid, body = value.nclass.id, encode_nclass(value, encoding, first_index=first)
        return self.transact_body(
            action,
            nclsid,
            body,
            now,
            encoding=encoding,
            type=type,
            wants_result=wants_result,
            timeout=timeout,
        )

    def transact_body(
        self,
        action: Action | IntEnum,
        nclsid: int | None,
        body: bytes | None,
        now: float,
        encoding: Encoding = Encoding.INDEXNOTZERO,
        type: TransactionType = TransactionType.NCLASS,
        wants_result: bool = False,
        timeout: float | None = None,
    ) -> TxId:
        """Like `transact`, for an object that is already encoded, or for none.

        Raises:
            StateError: no connection, too many are pending, or the dialect has no such request.
            EncodeError: the action cannot be written.
        """
        (number,) = self.transact_bodies(
            action, nclsid, (body,), now, encoding, type, wants_result, timeout
        )
        return self.txid(number)

    def transact_bodies(
        self,
        action: Action | IntEnum,
        nclsid: int | None,
        bodies: Sequence[bytes | None],
        now: float,
        encoding: Encoding = Encoding.INDEXNOTZERO,
        type: TransactionType = TransactionType.NCLASS,
        wants_result: bool = False,
        timeout: float | None = None,
    ) -> Sequence[int]:
        """Like `transact_body`, for several objects of one class: the last part of their ids.

        Raises:
            StateError: no connection, too many are pending, or the dialect has no such request.
            EncodeError: the action cannot be written.
        """
        if self._state is not ClientState.CONNECTED:
            self._must_be_open(is_new=True)
        flying = self._flying
        if len(flying) + len(bodies) > self.settings.max_flying:
            raise StateError(f"{len(flying)} transactions fly already")
        shape = (type, action, wants_result, encoding, nclsid)
        words = self._request_words.get(shape)
        if words is None:
            words = self._request_words[shape] = self._words_of(*shape)
        if not bodies:
            return ()
        numbers = self._next_numbers(len(bodies))
        deadline = now + (self.settings.request_timeout if timeout is None else timeout)
        flying.update(dict.fromkeys(numbers, deadline))
        sender = self.txid(0)[:3]
        columns: Columns
        if nclsid is None:
            columns = (*words, sender, numbers, self.connid)
        else:
            head, word, clsenc = words
            columns = (head, word, sender, numbers, None, clsenc, self.connid, list(bodies))
        self._send_packets(columns, len(bodies))
        self._has_sent(now)
        self._ring_by(deadline)
        return numbers

    def _next_numbers(self, count: int) -> range | list[int]:
        """The last part of ids that nothing pending has."""
        first = self._txprid % 0xFFFFFFFF + 1
        made = range(first, first + count)
        if made[-1] <= 0xFFFFFFFF and self._flying.keys().isdisjoint(made):  # nearly always
            self._txprid = made[-1]
            return made
        numbers: list[int] = []
        while len(numbers) < count:  # some are pending since before they wrapped around
            self._txprid = self._txprid % 0xFFFFFFFF + 1
            if self._txprid not in self._flying:
                numbers.append(self._txprid)
        return numbers

    def _words_of(
        self,
        type: TransactionType,
        action: Action | IntEnum,
        wants_result: bool,
        encoding: Encoding,
        nclsid: int | None,
    ) -> tuple[int, ...]:
        """The words of a TXRQST that do not change: PKTHDR, TXREQW and, for an object, CLSENC."""
        parts: dict[str, Any] = {}
        if nclsid is not None:
            if encoding not in self.behaviour.encodings:
                raise StateError(f"dialect {self.dialect.name} does not work in {encoding.name}")
            parts = {"enctyp": encoding, "nclsid": nclsid, "body": b""}
        elif not self.behaviour.has_short_requests:
            raise StateError(f"dialect {self.dialect.name} has no request without an object")
        parts |= dict.fromkeys(("txplid", "txsvid", "txcnid", "txprid", "connid"), 1)
        packet = TransactionRequest(txtype=type, txactn=action, rsclrq=int(wants_result), **parts)
        raw = translate(packet, self.dialect).encode()
        words = struct.unpack(f">{len(raw) // 4}I", raw)
        return words[:2] if nclsid is None else (*words[:2], words[7])

    def cancel(self, txid: TxId, now: float) -> list[SessionEvent]:
        """Stop waiting for a transaction. The server may still carry it out.

        Raises:
            StateError: it is not pending.
        """
        if txid != self.txid(txid[3]) or txid[3] not in self._flying:
            raise StateError(f"transaction {txid} does not fly")
        del self._flying[txid[3]]
        finished = TransactionFinished(txid, False, BlazeCode.CLIENT_ABORTED, is_local=True)
        return [finished, *self._done(now)]

    def _txresp(self, packet: TransactionResponse, now: float) -> list[SessionEvent]:
        number = packet.txprid
        if number not in self._flying or packet.txid != self.txid(number):
            self.counts["unknown_answers"] += 1
            return []
        value = encoding = None
        if packet.nclsid is not None and packet.enctyp is not None:
            encoding = self.dialect.encoding(packet.enctyp)
            if encoding is None:
                return self._violation(f"a result in the encoding {packet.enctyp}", now)
            try:
                value = self._object(packet.nclsid, encoding, packet.body)
            except DecodeError as error:
                return self._violation(f"a result that cannot be read: {error}", now)
        del self._flying[number]
        finished = TransactionFinished(
            packet.txid,
            packet.txresl == TransactionResult.TXOK,
            packet.blzcod,
            False,
            packet.nclsid,
            encoding,
            packet.body,
            value,
        )
        return [finished, *self._done(now)]
