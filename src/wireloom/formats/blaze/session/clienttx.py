"""Transactions of a client (SPEC §8.3)."""

from __future__ import annotations

import struct
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
from wireloom.formats.blaze.session.clientbase import ClientBase, ClientSettings, FlyingState
from wireloom.formats.blaze.session.events import SessionEvent, TransactionFinished, TxId
from wireloom.formats.blaze.session.states import CLIENT_TRANSACTION, Act, ClientState

__all__ = ["ClientTransactions"]

_SHORT_REQUEST = struct.Struct(">7I")
_REQUEST = struct.Struct(">9I")


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
        *,
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
        self._must_be_open(is_new=True)
        if len(self._flying) >= self.settings.max_flying:
            raise StateError(f"{len(self._flying)} transactions fly already")
        shape = (type, action, wants_result, encoding, nclsid)
        words = self._request_words.get(shape)
        if words is None:
            words = self._request_words[shape] = self._words_of(*shape)
        given = self.settings
        made = self._next_txid()
        while made in self._flying:  # still pending since before the numbers wrapped around
            made = self._next_txid()
        if body is None:
            self._send(_SHORT_REQUEST.pack(*words, *made, self.connid))
        else:
            size = _REQUEST.size + len(body)
            self._send(_REQUEST.pack(*words[:2], *made, size, words[2], self.connid) + body)
        self._has_sent(now)
        limit = given.request_timeout if timeout is None else timeout
        self._flying[made] = FlyingState()
        self._await("tx", made, limit, now)
        return made

    def _next_txid(self) -> TxId:
        self._txprid = self._txprid % 0xFFFFFFFF + 1
        return self.settings.platform, self.settings.service, self.connid, self._txprid

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
        if txid not in self._flying:
            raise StateError(f"transaction {txid} does not fly")
        self._land(txid, Act.CANCEL)
        finished = TransactionFinished(txid, False, BlazeCode.CLIENT_ABORTED, is_local=True)
        return [finished, *self._done(now)]

    def _land(self, txid: TxId, act: Act) -> None:
        flying = self._flying.pop(txid)
        flying.state = CLIENT_TRANSACTION.after(flying.state, act)
        del self._deadlines["tx", txid]

    def _answered(self, txid: TxId, is_ok: bool, code: Any, now: float) -> list[SessionEvent]:
        """An answer without a result."""
        if txid not in self._flying:
            self.counts["unknown_answers"] += 1
            return []
        self._land(txid, Act.TXRESP)
        finished = TransactionFinished(txid, is_ok, code)
        if self._state is ClientState.CONNECTED:
            return [finished]
        return [finished, *self._done(now)]

    def _txresp(self, packet: TransactionResponse, now: float) -> list[SessionEvent]:
        if packet.txid not in self._flying:
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
        self._land(packet.txid, Act.TXRESP)
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
