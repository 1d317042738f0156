"""What a broker can be told: for TOML, the command line, Python and the documentation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wireloom.errors import OptionError, SourceError
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.sections import (
    LimitSettings,
    ProgramSettings,
    TapSettings,
    TlsSettings,
)
from wireloom.services._shell.settings import MisplacedError, section, setting

if TYPE_CHECKING:
    from wireloom.formats.blaze.model import Model
    from wireloom.formats.blaze.session import ServerSettings
    from wireloom.services.blaze.store.api import Policy, StoreSettings

__all__ = [
    "BrokerSettings",
    "PolicySettings",
    "ProtocolSettings",
    "StorageSettings",
    "SubscriptionSettings",
    "TransactionSettings",
]


@dataclass(frozen=True, slots=True)
class ProtocolSettings:
    """Connections, in the words of the protocol."""

    max_frame: int = setting(
        1 << 20, "Bytes of one packet; who announces more is disconnected.", flag="--max-frame"
    )
    handshake_s: float = setting(
        10.0, "Seconds for CONREQ to come, and to be decided on.", flag="--handshake-s"
    )
    heartbeat_min: int = setting(
        1, "The least seconds of heartbeat that are agreed to.", flag="--heartbeat-min"
    )
    heartbeat_max: int = setting(
        255, "The most seconds of heartbeat that are agreed to.", flag="--heartbeat-max"
    )
    heartbeat_required: bool = setting(
        False, "Answer clients that want no heartbeat with the most.", flag="--heartbeat-required"
    )
    idle_s: float = setting(
        120.0,
        "Seconds of silence after which a client without a heartbeat is asked for one; 0: never."
        " Clients of 2017 and 2019 do not answer, and are not asked.",
        flag="--idle-s",
    )
    stall_s: float = setting(
        60.0, "Seconds in which a client may take nothing of what waits for it; then it is cut off."
    )

    def __post_init__(self) -> None:
        if not 0 <= self.heartbeat_min <= self.heartbeat_max <= 255:
            raise OptionError("heartbeat_min and heartbeat_max must be from 0 to 255, in order")


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Transactions."""

    timeout_s: float = setting(
        30.0, "Seconds for a transaction to be answered; then it fails with 203.", flag="--tx-s"
    )
    max_flying: int = setting(
        16_384, "Unanswered transactions of one connection; more are refused with 3."
    )
    held_flying: int = setting(
        1_024, "Unanswered transactions from which on a connection is not read from."
    )
    max_per_s: int = setting(
        0,
        "Transactions per second of one connection; then it is read from more slowly. 0: any.",
    )
    max_completed: int = setting(
        4_096, "Answered ids that are remembered for each connection, beside those in the store."
    )
    strict_ids: bool = setting(
        False, "Refuse transaction ids with a zero in them with 200.", flag="--strict-ids"
    )
    handler_threads: int = setting(8, "Threads for handlers that are not coroutines.")


@dataclass(frozen=True, slots=True)
class SubscriptionSettings:
    """Subscriptions."""

    window: int = setting(
        1,
        "Events of a subscription that may be without SBSACK; 1 is what clients of 2017 know.",
        flag="--window",
    )
    cumulative_acks: bool = setting(
        False, "Whether SBSACK counts for all earlier events, too.", flag="--cumulative-acks"
    )
    max_queue: int = setting(
        10_000, "Changes that wait in one subscription; then see overflow.", flag="--max-queue"
    )
    overflow: Literal["stop", "conflate"] = setting(
        "stop",
        "What happens to a subscription that is too slow: stop ends it with code 3,"
        " conflate goes over to the last change of each object.",
        flag="--overflow",
        metavar="stop|conflate",
    )
    max_subscriptions: int = setting(256, "Subscriptions of one connection.")
    download_rows: int = setting(256, "Stored objects that are read at once.")

    def __post_init__(self) -> None:
        if not self.window or not self.download_rows:
            raise OptionError("window and download_rows must be at least 1")


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What actions do where the document leaves it open."""

    insert_existing: Literal["refuse", "replace"] = setting(
        "refuse",
        "INS of an object that exists: refused with 4, or written as UPD.",
        metavar="refuse|replace",
    )
    update_missing: Literal["refuse", "insert"] = setting(
        "refuse",
        "UPD of an object that does not exist: refused with 4, or written as INS.",
        metavar="refuse|insert",
    )
    delete_missing: Literal["refuse", "accept"] = setting(
        "refuse",
        "DEL of an object that does not exist: refused with 4, or fine.",
        metavar="refuse|accept",
    )
    reset: Literal["class", "object", "refuse"] = setting(
        "class",
        "RST: deletes all objects of the class, zeroes the one, or is refused with 6.",
        metavar="class|object|refuse",
    )

    def policy(self) -> Policy:
        """The same for the store."""
        from wireloom.services.blaze.store.api import Policy

        return Policy(**dataclasses.asdict(self))


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Limits and intervals of the store."""

    max_pending: int = setting(
        16_384, "Writes that wait; at half of it connections are not read from."
    )
    max_group: int = setting(512, "Writes in one commit.")
    poll_s: float = setting(1.0, "How often changes of other brokers are looked for in any case.")
    log_s: float = setting(3600.0, "How long changes are kept for other brokers.")
    log_rows: int = setting(1_000_000, "The most changes that are kept for other brokers.")
    txid_s: float = setting(86_400.0, "How long ids of transactions are remembered.")
    txid_rows: int = setting(
        2_000_000, "The most runs of such ids: those of one connection and commit are one."
    )
    deleted_s: float = setting(
        2_592_000.0,
        "How long deleted objects are remembered, for subscribers that were away: who was away for"
        " longer gets everything anew, behind an RST. 0: forever.",
    )

    def settings(self) -> StoreSettings:
        """The same for the store."""
        from wireloom.services.blaze.store.api import StoreSettings

        return StoreSettings(
            max_pending=self.max_pending,
            max_group=self.max_group,
            poll_interval=self.poll_s,
            log_seconds=self.log_s,
            log_rows=self.log_rows,
            txid_seconds=self.txid_s,
            txid_rows=self.txid_rows,
            deleted_seconds=self.deleted_s,
        )


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """All that a broker can be told."""

    model: Path = setting(
        dataclasses.MISSING, "Classes of the objects, a .blz file.", flag="--model", metavar="FILE"
    )
    store: str = setting(
        dataclasses.MISSING,
        "Where objects are kept: sqlite:///FILE or postgresql://HOST/DATABASE.",
        flag="--store",
        metavar="URL",
        is_secret=True,
    )
    listen: Address = setting(
        Address("127.0.0.1", 12345),
        "Where clients connect; port 0 takes any that is free.",
        flag="--listen",
        metavar="HOST:PORT",
    )
    dialect: Literal["document", "2017", "2019"] = setting(
        "document",
        "Whose numbering and habits are spoken.",
        flag="--dialect",
        metavar="document|2017|2019",
    )
    handlers: str | None = setting(
        None,
        "A module, or a .py file, with `hooks`: what the application does and allows.",
        flag="--handlers",
        metavar="MODULE",
    )
    protocol: ProtocolSettings = section(ProtocolSettings)
    transactions: TransactionSettings = section(TransactionSettings)
    subscriptions: SubscriptionSettings = section(SubscriptionSettings)
    policy: PolicySettings = section(PolicySettings)
    storage: StorageSettings = section(StorageSettings)
    limits: LimitSettings = section(LimitSettings)
    tls: TlsSettings = section(TlsSettings)
    tap: TapSettings = section(TapSettings)
    program: ProgramSettings = section(ProgramSettings)

    def check(self) -> None:
        """Whether a broker can be made of it, but for its handlers: they are not run for that.

        Raises:
            OptionError: the store's address is none, or a file cannot be used.
            SourceError: the model is wrong.
        """
        from wireloom.formats.blaze.blz import load_blz
        from wireloom.services.blaze.store.database import check_address

        try:
            load_blz(self.model)
        except SourceError as error:
            if error.line:  # a fault in the model, which has the better place
                raise
            raise MisplacedError("model", str(error)) from None
        try:
            check_address(self.store)
        except OptionError as error:
            raise MisplacedError("store", error.reason) from None
        try:
            self.tls.context()
        except SourceError as error:
            raise MisplacedError("tls", str(error)) from None

    def server(self, model: Model, clock_offset: float) -> ServerSettings:
        """What each session is told."""
        from wireloom.formats.blaze.session import ServerSettings
        from wireloom.wire import Limits

        protocol, transactions, subscriptions = (
            self.protocol,
            self.transactions,
            self.subscriptions,
        )
        return ServerSettings(
            dialect=self.dialect,
            model=model,
            limits=Limits(max_frame=protocol.max_frame),
            handshake_timeout=protocol.handshake_s,
            heartbeat_limits=(protocol.heartbeat_min, protocol.heartbeat_max),
            is_heartbeat_required=protocol.heartbeat_required,
            transaction_timeout=transactions.timeout_s,
            max_flying=transactions.max_flying,
            max_completed=transactions.max_completed,
            is_strict=transactions.strict_ids,
            window=subscriptions.window,
            has_cumulative_acks=subscriptions.cumulative_acks,
            max_queue=subscriptions.max_queue,
            overflow=subscriptions.overflow,
            max_subscriptions=subscriptions.max_subscriptions,
            download_batch=subscriptions.download_rows,
            idle_timeout=protocol.idle_s,
            drain_timeout=self.program.drain_s,
            clock_offset=clock_offset,
        )
