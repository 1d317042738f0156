"""What a Blaze broker asks of its store: writes with durable outcomes, rows, changes, ids.

A broker uses it like this::

    store = await open_store(
        "sqlite:///fleet.db", model, first_index=get_dialect(name).first_index_of(model)
    )
    event_ids = await store.event_ids()               # for every ServerSession
    await store.start(on_changes, on_gap)             # fan-out: Change objects for `publish`
    connid = await store.next_connid()                # for `ServerSession.accept`
    store.submit_all([Write.of(request), …], done)    # TransactionRequested → Outcome of each
    found = await store.portion(nclsid, after, count, deleted_after)     # DownloadWanted → ...
    session.download(sbsrid, found.rows, len(found.rows) < count, last=found.last, ...)
    await store.close()

All of it belongs to one event loop; callbacks run in it and must not block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, Self

from wireloom.formats.blaze.body import decode_nclass, encode_nclass
from wireloom.formats.blaze.codes import BlazeCode, Encoding
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.session.events import Stamp, TransactionRequested, TxId
from wireloom.formats.blaze.session.subscriptions import Change, EventIds

__all__ = [
    "STORED_FIRST_INDEX",
    "Done",
    "Outcome",
    "Policy",
    "Portion",
    "Store",
    "StoreSettings",
    "StoreStatus",
    "StoredChange",
    "Write",
]

STORED_FIRST_INDEX = 1
"""INDEX of the first field in stored bodies, whatever dialect is spoken: it may change later."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What actions do where the document leaves it open (SPEC §8.3)."""

    insert_existing: Literal["refuse", "replace"] = "refuse"
    """INS of an object that exists: code 4, or rewritten and announced as UPD."""
    update_missing: Literal["refuse", "insert"] = "refuse"
    """UPD of an object that does not exist: code 4, or created and announced as INS."""
    delete_missing: Literal["refuse", "accept"] = "refuse"
    """DEL and REMOVE of an object that does not exist: code 4, or fine and nothing announced."""
    reset: Literal["class", "object", "refuse"] = "class"
    """RST: delete every object of the class logically and announce one RST, set the object to
    zero but for its key and announce UPD, or code 6."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Limits and intervals; times are in seconds."""

    max_pending: int = 16_384
    """Writes that wait; more are answered with code 3. Sixteen busy connections of 1,024 each."""
    max_group: int = 1024
    """Writes in one commit: larger groups are hardly faster, and keep those behind them waiting."""
    poll_interval: float = 1.0
    """How often changes of other brokers are looked for when no notification comes. PostgreSQL."""
    has_notices: bool = True
    """Whether brokers wake each other. Switch it off behind a pooler that cannot LISTEN; changes of
    others then wait for the next poll."""
    log_seconds: float = 3600.0
    """How long changes are kept for other brokers; one that was away for longer gets `on_gap`."""
    log_rows: int = 1_000_000
    """The most changes that are kept for other brokers, roughly."""
    txid_seconds: float = 86_400.0
    """How long ids of transactions are remembered."""
    txid_rows: int = 2_000_000
    """The most runs of such ids, roughly; those of one connection and one commit are a run."""
    deleted_seconds: float = 2_592_000.0
    """How long objects that were deleted logically are kept, for subscribers that were away; one
    that was away for longer gets everything anew. 0: forever."""
    prune_interval: float = 60.0
    """How often what is too old is removed."""
    retry_interval: float = 0.25
    """Between attempts to reach a database that is gone; writes wait meanwhile."""


@dataclass(slots=True)  # like those below, not frozen, which would take three times as long
class Write:
    """What a transaction wants done to an object."""

    action: IntEnum
    """By its name: INS, UPD, DLT, DEL, RST or RESET, REMOVE."""
    object: NClassValue
    """The image (INS, UPD), the delta (DLT), or anything with the key (DEL, RST, REMOVE)."""
    txid: TxId | None = None
    """None: of the broker itself, and never a duplicate."""
    body: bytes | None = None
    """The object in INDEXNOTZERO, its first INDEX being `STORED_FIRST_INDEX`, when it is at hand:
    what `encode_nclass` would make, which is then spared."""

    @classmethod
    def of(cls, request: TransactionRequested) -> Self:
        """The write that a session tells of; it must have an object.

        Raises:
            ValueError: it has none.
        """
        if request.nclass is None:
            raise ValueError(f"transaction {request.txid} has no object")
        return cls(request.action, request.nclass, request.txid)


@dataclass(slots=True)
class Outcome:
    """What became of a write. A good one is durable."""

    is_ok: bool
    code: BlazeCode = BlazeCode.NO_ERROR
    change: Change | None = None
    """What it changed; None when nothing, so also when it was refused."""
    result: NClassValue | None = None
    """The object as it is now, for a client that wants it (INS, UPD, DLT, RST of one object)."""
    reason: str = ""
    """For a log: why it was refused."""


Done = Callable[[Sequence[Write], Sequence[Outcome]], None]
"""Gets writes, and what became of each."""


@dataclass(slots=True)
class StoredChange(Change):
    """A change whose object is read only when somebody asks for more than its stored bytes.

    `image` is None; `value` gives the object, for filters.
    """

    stored: bytes = field(default=b"", compare=False, repr=False)
    """The whole object in INDEXNOTZERO, its first INDEX being `STORED_FIRST_INDEX`."""
    model: Model | None = field(default=None, compare=False, repr=False)

    def value(self) -> NClassValue:
        """The object.

        Raises:
            DecodeError: the model is not the one it was stored with.
        """
        assert self.model is not None
        return decode_nclass(self.model, self.nclsid, self.stored, first_index=STORED_FIRST_INDEX)

    def read_delta(self, delta: bytes) -> NClassValue:
        """What has changed, from stored bytes.

        Raises:
            DecodeError: the model is not the one it was stored with.
        """
        assert self.model is not None
        return decode_nclass(
            self.model, self.nclsid, delta, Encoding.INDEXDELTA, first_index=STORED_FIRST_INDEX
        )

    def full(self, encoding: Encoding) -> bytes:
        """The whole object; made once, then shared.

        Raises:
            DecodeError: the model is not the one it was stored with.
        """
        wanted = Encoding.ALL if encoding is Encoding.ALL else Encoding.INDEXNOTZERO
        body = self.bodies.get(wanted)
        if body is None:
            body = encode_nclass(self.value(), wanted, first_index=self.first_index)
            self.bodies[wanted] = body
        return body


@dataclass(frozen=True, slots=True)
class Portion:
    """Part of a download."""

    rows: list[Change]
    """By their stamps: INS, and DEL for deleted ones. Fewer than asked for: there are no more."""
    last: Stamp = (0, 0)
    """The newest stamp of the class before they were read."""
    forgotten: Stamp = (0, 0)
    """Of what was deleted up to here, the store may not know any more."""


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """How the store is, for metrics and ``/readyz``."""

    is_up: bool
    """Whether the database answered last time, and writes are taken."""
    error: str
    """Why no more writes are taken; empty: they are."""
    rows: Mapping[str, int]
    """Objects of each stored class that are not deleted."""
    deleted: Mapping[str, int]
    """Objects of each stored class that are deleted logically."""
    pending: int
    """Writes that wait."""
    commits: int
    """Since the start."""
    writes: int
    """Answered since the start, refused ones included."""
    failures: int
    """Groups that the database refused, or that had to be tried again."""
    last_commit: float
    """Unix time of the last commit; 0: none since the start."""
    last_group: int
    """Writes in the last commit."""
    latency: float
    """Of the last commit, in seconds: from taking the group to its being durable."""
    max_latency: float
    """The longest commit since the start, in seconds."""
    foreign_changes: int
    """Changes of other brokers that were handed on."""
    gaps: int
    """How often changes of other brokers were lost, see `Store.start`."""


class Store(ABC):
    """Objects of a model's stored classes, and what a broker must remember.

    A class is stored when the model marks it ``@persistent``. Writes to others go the same
    way, get a stamp and reach all brokers, but leave no row behind; DLT and RST of them are refused
    with code 6. Where there are no other brokers, nothing of such a write is kept, its id included,
    and so there is nothing to wait for; sessions remember ids, too.

    Stamps are (Unix seconds, counter within that second), strictly rising in each class: also when
    the clock goes backwards, after a restart, and between brokers on one database.
    """

    model: Model
    settings: StoreSettings
    policy: Policy

    @property
    @abstractmethod
    def pending(self) -> int:
        """Writes that were submitted and have no outcome."""

    @property
    def is_full(self) -> bool:
        """Whether a write would be refused for want of room."""
        return self.pending >= self.settings.max_pending

    @abstractmethod
    def is_stored(self, nclsid: int) -> bool:
        """Whether objects of the class are stored; `is_stored` of `start_subscription`."""

    @abstractmethod
    def submit_all(self, writes: Sequence[Write], done: Done) -> None:
        """Do writes, in this order; `done` gets them back with their outcomes, which are durable.

        It may get some of them at a time, and gets them in the order of submission.
        What waits is committed together, and one that is refused does not harm the others. The
        changes of a group go to `on_changes` right after its outcomes. When `is_full`,
        writes are refused with code 3 at once: stop reading from clients before, see `room`.
        After `close` it is refused with code 206. Codes otherwise: 201 for an id that was
        answered before, 4 for what the policy or the key forbids, 5 for an object without a usable
        key, 6 for an action that the class does not have, 3 when the database refuses.
        """

    def submit(self, write: Write, done: Callable[[Outcome], None]) -> None:
        """The same for one write."""
        self.submit_all((write,), lambda _, outcomes: done(outcomes[0]))

    @abstractmethod
    async def apply(self, write: Write) -> Outcome:
        """Do a write, and wait until it is durable."""

    @abstractmethod
    async def room(self) -> None:
        """Wait until less than half of `max_pending` waits."""

    async def rows(self, nclsid: int, after: Stamp, count: int) -> list[Change]:
        """The rows of a `portion`; from (0, 0) on without deleted ones, else with them.

        Raises:
            StoreError: the database cannot be read.
        """
        return (await self.portion(nclsid, after, count, after if any(after) else None)).rows

    @abstractmethod
    async def portion(
        self, nclsid: int, after: Stamp, count: int, deleted_after: Stamp | None
    ) -> Portion:
        """Up to `count` rows newer than `after`; a class that is not stored has none.

        Deleted ones are among them if they are newer than `deleted_after`; None: there are none.

        Raises:
            StoreError: the database cannot be read.
        """

    @abstractmethod
    async def get(self, nclsid: int, key: NClassValue) -> NClassValue | None:
        """The object with the key of that object; None when there is none or it is deleted.

        Raises:
            StoreError: the database cannot be read.
        """

    @abstractmethod
    async def start(
        self,
        on_changes: Callable[[Sequence[Change]], None],
        on_gap: Callable[[int], None],
    ) -> None:
        """Hand on every change that any broker on this database commits from now on.

        Each once, and in each class by its stamp. Own ones come as they are made, others are
        read from the log of changes.

        Args:
            on_changes: gets them, encoded already.
            on_gap: gets a class whose changes were removed from the log before this broker
                read them, because it was away for longer than `StoreSettings.log_seconds`. Stop
                the subscriptions of the class, so that clients resume with PARTIAL.

        Raises:
            StateError: it was started before.
            StoreError: the database cannot be read.
        """

    @abstractmethod
    async def next_connid(self) -> int:
        """A connection's id that no broker on this database has given before.

        Raises:
            StoreError: the database cannot be reached.
        """

    @abstractmethod
    async def event_ids(self) -> EventIds:
        """Counters of SEVTID that go on behind those of the last run, and of other brokers.

        Raises:
            StoreError: the database cannot be reached.
        """

    @abstractmethod
    async def status(self) -> StoreStatus:
        """How the store is; it does not fail when the database does."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what waits, then let go of the database; twice does no harm."""
