"""What a group of writes does to the database: decided in memory, written with few statements.

The rows of all keys in the group are read first, under the lock of their classes. Then each write
is decided after those before it, so that a refused one leaves nothing behind. What remains of each
object is written once.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter, itemgetter

from sqlalchemy import Connection

from wireloom.errors import EncodeError, StoreError
from wireloom.formats.blaze.body import apply_delta, decode_nclass, encode_nclass
from wireloom.formats.blaze.codes import Action, BlazeCode, Encoding
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.session.events import Stamp, TxId
from wireloom.formats.blaze.session.subscriptions import Change
from wireloom.services.blaze.store.api import (
    STORED_FIRST_INDEX,
    Outcome,
    Policy,
    StoredChange,
    Write,
)
from wireloom.services.blaze.store.flat import Key
from wireloom.services.blaze.store.statements import (
    Books,
    Logged,
    Rows,
    Run,
    Statements,
    Stored,
)
from wireloom.services.blaze.store.tables import StoredClass

__all__ = ["Committed", "Committer", "ModelChanged", "logged_key", "next_stamp"]

_ORIGIN = struct.Struct(">3I")
_MAX_COUNTER = 0xFFFFFFFF
_class_of = attrgetter("object.layout.nclass.id")

# Looked up once: for each write, the members of enums would take longer than much of the rest.
_INS, _UPD, _DEL = Action.INS, Action.UPD, Action.DEL
_NOT_ZERO, _DELTA = Encoding.INDEXNOTZERO, Encoding.INDEXDELTA
_NO_ERROR = BlazeCode.NO_ERROR
_MALFORMED = BlazeCode.REQUEST_MALFORMED
_UNSUPPORTED = BlazeCode.REQUEST_UNSUPPORTED
_REFUSED = BlazeCode.APPLICATION_ERROR
_PASSED_ON = {"INS": Action.INS, "UPD": Action.UPD, "DEL": Action.DEL, "REMOVE": Action.DEL}
_REPEATED = Outcome(False, BlazeCode.DUPLICATED_TRANSACTION_ID, reason="the id was answered before")


class ModelChanged(StoreError):
    """Another broker has brought a newer model: this one cannot go on with its own."""


def next_stamp(last: Stamp, now: int) -> Stamp:
    """The stamp behind `last`, whatever the clock says."""
    if now > last[0]:
        return now, 0
    return (last[0], last[1] + 1) if last[1] < _MAX_COUNTER else (last[0] + 1, 0)


def logged_key(key: Key) -> str | None:
    """What tells objects apart in the log, and in the changes of who has one."""
    # A number from PostgreSQL may be a Decimal or a bool, one from an object never is.
    return ascii(key) if key else None


@dataclass(slots=True)
class Committed:
    """What a group did."""

    outcomes: list[Outcome] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    before: dict[int, Stamp] = field(default_factory=dict)
    """The last stamp of each class before it."""
    after: dict[int, Stamp] = field(default_factory=dict)
    """The last stamp of each class that has changed."""
    objects: Counter[int] = field(default_factory=Counter)
    """By how many more the objects of each class are; and so the rows, deleted ones included."""
    rows: Counter[int] = field(default_factory=Counter)


class _Row:
    """An object as the group has it at the moment."""

    __slots__ = (
        "body",
        "is_dirty",
        "is_live",
        "is_there",
        "stamp",
        "value",
        "was_live",
        "was_there",
    )

    def __init__(self, stored: Stored | None) -> None:
        if stored is None:
            self.is_there = self.was_there = self.is_live = self.was_live = False
            self.body = b""
        else:
            self.is_there = self.was_there = True  # there is a row, deleted or not
            self.is_live = self.was_live = not stored[0]
            self.body = stored[1]
        self.value: NClassValue | None = None
        self.stamp: Stamp = (0, 0)
        self.is_dirty = False


class Refused(Exception):
    """The answer to a write that is not done."""

    def __init__(self, code: BlazeCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def _refusal(error: Refused | EncodeError) -> Outcome:
    code = error.code if isinstance(error, Refused) else _MALFORMED
    return Outcome(False, code, reason=str(error))


class Committer:
    """Carries out groups of writes."""

    def __init__(
        self,
        model: Model,
        classes: dict[int, StoredClass],
        statements: Statements,
        policy: Policy,
        *,
        generation: int,
        first_index: int,
        sender: str,
        clock: Callable[[], float],
    ) -> None:
        self.model = model
        self.classes = classes
        self.statements = statements
        self.policy = policy
        self.generation = generation
        self.first_index = first_index
        self.is_stored_dialect = first_index == STORED_FIRST_INDEX
        self.sender = sender
        self.clock = clock
        self.passing: dict[int, Stamp] = {}
        """Classes of which the database keeps nothing but a stamp that is ahead of all that were
        given away; and the last that was."""

    def pass_on(self, writes: Sequence[Write]) -> Committed:
        """Carry out writes to classes in `passing`, without the database."""
        group = _Group(self, None)
        group.done.before.update(self.passing)
        for nclsid, some in groupby(writes, _class_of):
            group.pass_on(self.classes[nclsid], some)
        self.passing.update(group.done.after)
        return group.done

    def commit(
        self,
        connection: Connection,
        writes: Sequence[Write],
        marker: bytes = b"",
        *,
        is_repeated: bool = False,
    ) -> Committed | None:
        """Carry out a group in the connection's transaction.

        Args:
            connection: in a transaction, which the caller commits.
            writes: the group.
            marker: an id of the group, by which it is recognised.
            is_repeated: whether it was tried before; None is given when it was carried out then.

        Raises:
            ModelChanged: another broker has brought a newer model.
        """
        return _Group(self, connection).commit(writes, marker, is_repeated)


class _Group:
    def __init__(self, committer: Committer, connection: Connection | None) -> None:
        self.committer = committer
        self._connection = connection
        self.statements = committer.statements
        self.done = Committed()
        self.now = int(committer.clock())
        self.rows: dict[int, dict[Key, _Row]] = {}
        self.logged: list[Logged] = []
        self._policy = committer.policy
        self._first_index = committer.first_index
        self._is_stored_dialect = committer.is_stored_dialect
        self._has_log = committer.statements.has_log

    @property
    def connection(self) -> Connection:
        assert self._connection is not None  # something is stored
        return self._connection

    def commit(self, writes: Sequence[Write], marker: bytes, is_repeated: bool) -> Committed | None:
        done = self.done
        passing = self.committer.passing
        classes = self.committer.classes
        nclsids = list(map(_class_of, writes))
        wanted = sorted(set(nclsids) & classes.keys())
        places, repeated = _places(writes)
        keys, asked = _keys(writes, nclsids, classes)
        ids = _runs(places)
        found = self.statements.begin(
            self.connection,
            wanted,
            ids,
            {nclsid: list(each) for nclsid, each in asked.items()},
            marker if is_repeated else b"",
        )
        if found.is_done:
            return None
        for nclsid in wanted:
            state = found.states.get(nclsid)
            if state is None or state.generation != self.committer.generation:
                raise ModelChanged("another broker has brought a newer model to the database")
            done.before[nclsid] = passing.get(nclsid, state.stamp)
        for origin, first, last in found.known:
            head = _ORIGIN.unpack(origin)
            old = [id for id in places if id[:3] == head and first <= id[3] <= last]
            repeated.update(map(places.pop, old))
        if found.known:
            ids = _runs(places)
        for nclsid, some in asked.items():
            there = found.rows[nclsid]
            self.rows[nclsid] = {key: _Row(there.get(key)) for key in some}
        stored = map(classes.get, nclsids)
        for place, (write, each, key) in enumerate(zip(writes, stored, keys, strict=True)):
            if place in repeated:
                done.outcomes.append(_REPEATED)
            else:
                self.do(write, each, key)
        stamps = {nclsid: stamp for nclsid, stamp in done.after.items() if nclsid not in passing}
        if marker:
            ids.append((marker, 0, 0))
        answered = [(*run, self.now) for run in ids]
        books = Books(stamps, self.logged, answered, self.committer.sender)
        self.statements.finish(self.connection, self._take_dirty(self.rows), books)
        passing.update({id: stamp for id, stamp in done.after.items() if id in passing})
        return done

    def pass_on(self, stored: StoredClass, writes: Iterable[Write]) -> None:
        """Carry out writes to a class that is neither stored nor logged."""
        nclsid, key_of, first = stored.nclass.id, stored.flat.checked_key, self._first_index
        outcomes, changes = self.done.outcomes, self.done.changes
        for write in writes:
            value, body = write.object, write.body
            action = _PASSED_ON.get(write.action._name_)  # `name` takes many times as long
            try:
                key = key_of(value)
            except EncodeError as error:
                self.do(write, stored, error)
                continue
            if action is None or body is None or not self._is_stored_dialect:
                self.do(write, stored, key)
                continue
            # The same as `_pass_on` does, without its calls: this is most of the work.
            stamp = self._stamp(nclsid)
            bodies = {_NOT_ZERO: body}
            change = Change(nclsid, action, stamp, key or None, bodies, 0, value, first)
            changes.append(change)
            outcomes.append(Outcome(True, _NO_ERROR, change, None if action is _DEL else value))

    def do(self, write: Write, stored: StoredClass | None, key: Key | EncodeError) -> None:
        """Decide on a write, and note its outcome."""
        done = self.done
        try:
            if isinstance(key, EncodeError):
                raise key
            if stored is None:
                raise Refused(_MALFORMED, "the model has no such class")
            if stored.table is None:
                outcome = self._pass_on(write, stored, key)
            else:
                outcome = self._decide(write, stored, key)
        except (Refused, EncodeError) as error:
            outcome = _refusal(error)
        done.outcomes.append(outcome)
        if outcome.change is not None:
            done.changes.append(outcome.change)

    def _decide(self, write: Write, stored: StoredClass, key: Key) -> Outcome:
        action = write.action._name_  # `name` takes many times as long
        row = self.rows[stored.nclass.id][key]
        if action in ("INS", "UPD"):
            value, policy = write.object, self._policy
            if value.encoding is _DELTA:
                raise Refused(_MALFORMED, f"{action} wants a whole object, not a delta")
            if not row.is_live:
                if action == "UPD" and policy.update_missing == "refuse":
                    raise Refused(_REFUSED, "there is no such object")
                return self._write(_INS, value, stored, key, row, write.body)
            if action == "INS" and policy.insert_existing == "refuse":
                raise Refused(_REFUSED, "the object exists")
            return self._write(_UPD, value, stored, key, row, write.body)
        if action == "DLT":
            return self._merge(write, stored, key, row)
        if action in ("DEL", "REMOVE"):
            return self._delete(action == "REMOVE", stored, key, row)
        if action in ("RST", "RESET"):
            return self._reset(write, stored, key, row)
        raise Refused(_UNSUPPORTED, f"there is no action {action}")

    def _merge(self, write: Write, stored: StoredClass, key: Key, row: _Row) -> Outcome:
        if not row.is_live:
            raise Refused(_REFUSED, "there is no such object")
        delta = write.object
        primary = stored.nclass.primary_key
        assert primary is not None
        if any(name not in delta for name in primary.fields):
            # Receivers find the object by it, also where it is zero.
            items = {**dict(delta), **{name: delta.read(name) for name in primary.fields}}
            delta = NClassValue(delta.layout, items, Encoding.INDEXDELTA)
        image = apply_delta(self._value(row, stored), delta)
        return self._write(Action.DLT, image, stored, key, row, None, delta)

    def _delete(self, is_removal: bool, stored: StoredClass, key: Key, row: _Row) -> Outcome:
        if not row.is_live and not (is_removal and row.is_there):
            if self._policy.delete_missing == "refuse":
                raise Refused(_REFUSED, "there is no such object")
            return Outcome(True)
        change = None
        if row.is_live:
            stamp = self._stamp(stored.nclass.id)
            change = self._change(Action.DEL, stored, key, stamp, row.body, None)
            row.stamp = stamp
        row.is_live = False
        row.is_there = not is_removal
        row.is_dirty = True
        return Outcome(True, change=change)

    def _reset(self, write: Write, stored: StoredClass, key: Key, row: _Row) -> Outcome:
        policy = self._policy.reset
        nclsid = stored.nclass.id
        if policy == "refuse":
            raise Refused(_UNSUPPORTED, "RST is not allowed here")
        primary = stored.nclass.primary_key
        assert primary is not None
        if policy == "object":
            if not row.is_live:
                raise Refused(_REFUSED, "there is no such object")
            items = {name: write.object.read(name) for name in primary.fields}
            image = NClassValue(write.object.layout, items, Encoding.INDEXNOTZERO)
            return self._write(Action.UPD, image, stored, key, row)
        self.statements.write(self.connection, self._take_dirty([nclsid]))
        first = self._stamp(nclsid)
        if first[1] > _MAX_COUNTER // 2:
            first = first[0] + 1, 0  # there must be room for all of them
        count = self.statements.clear(self.connection, nclsid, first)
        self.done.objects[nclsid] -= count
        for other in self.rows[nclsid].values():
            other.is_live = other.was_live = False
        # Each deleted row has a stamp of its own; the event that tells of all of them comes last.
        last = first[0], first[1] + count
        self.done.after[nclsid] = last
        empty = NClassValue(write.object.layout, {}, Encoding.INDEXNOTZERO)
        body = encode_nclass(empty, first_index=STORED_FIRST_INDEX)
        return Outcome(True, change=self._change(Action.RST, stored, (), last, body, None))

    def _pass_on(self, write: Write, stored: StoredClass, key: Key) -> Outcome:
        """A write to a class that is not stored: its change is all there is."""
        value = write.object
        action = _PASSED_ON.get(write.action._name_)  # `name` takes many times as long
        if action is None:
            raise Refused(_UNSUPPORTED, f"{write.action.name} of a class that is not stored")
        if value.encoding is _DELTA and action is not _DEL:
            raise Refused(_MALFORMED, f"{action} wants a whole object, not a delta")
        body = write.body or encode_nclass(value, _NOT_ZERO, first_index=STORED_FIRST_INDEX)
        stamp = self._stamp(stored.nclass.id)
        change = self._change(action, stored, key, stamp, body, value)
        return Outcome(True, _NO_ERROR, change, None if action is _DEL else value)

    def _write(
        self,
        action: Action,
        image: NClassValue,
        stored: StoredClass,
        key: Key,
        row: _Row,
        body: bytes | None = None,
        delta: NClassValue | None = None,
    ) -> Outcome:
        if body is None:  # before anything changes: it may be too large to be encoded
            body = encode_nclass(image, _NOT_ZERO, first_index=STORED_FIRST_INDEX)
        stamp = self._stamp(stored.nclass.id)
        change = self._change(action, stored, key, stamp, body, image, delta)
        row.is_live = row.is_there = row.is_dirty = True
        row.body, row.value, row.stamp = body, image, stamp
        return Outcome(True, _NO_ERROR, change, image)

    def _value(self, row: _Row, stored: StoredClass) -> NClassValue:
        if row.value is None:
            row.value = decode_nclass(
                self.committer.model, stored.nclass, row.body, first_index=STORED_FIRST_INDEX
            )
        return row.value

    def _stamp(self, nclsid: int) -> Stamp:
        after = self.done.after
        last = after.get(nclsid) or self.done.before[nclsid]
        if last[0] >= self.now and last[1] < _MAX_COUNTER:  # nearly always
            stamp = last[0], last[1] + 1
        else:
            stamp = next_stamp(last, self.now)
        after[nclsid] = stamp
        return stamp

    def _change(
        self,
        action: Action,
        stored: StoredClass,
        key: Key,
        stamp: Stamp,
        body: bytes,
        image: NClassValue | None,
        delta: NClassValue | None = None,
    ) -> Change:
        bodies = {_NOT_ZERO: body} if self._is_stored_dialect else {}
        raw_delta = None
        if delta is not None:
            raw_delta = encode_nclass(delta, _DELTA, first_index=STORED_FIRST_INDEX)
            bodies[_DELTA] = (
                raw_delta
                if self._is_stored_dialect
                else encode_nclass(delta, _DELTA, first_index=self._first_index)
            )
        name: str | Key | None = key or None
        nclsid = stored.nclass.id
        if self._has_log:
            name = text = logged_key(key)
            self.logged.append(Logged(nclsid, *stamp, action, text, body, raw_delta))
        first = self._first_index
        if image is not None:
            return Change(nclsid, action, stamp, name, bodies, 0, image, first)
        model = self.committer.model
        return StoredChange(nclsid, action, stamp, name, bodies, 0, None, first, body, model)

    def _take_dirty(self, nclsids: Iterable[int]) -> Rows:
        """What is to be done to rows of some classes, after which they are as they should be."""
        written: dict[int, list[Key]] = {}
        removed: dict[int, list[Key]] = {}
        for nclsid in nclsids:
            stored = self.committer.classes[nclsid]
            columns = stored.flat.row
            lines: list[Key] = []
            gone: list[Key] = []
            objects = rows = 0
            for key, row in self.rows[nclsid].items():
                if not row.is_dirty:
                    continue
                row.is_dirty = False
                objects += row.is_live - row.was_live
                rows += row.is_there - row.was_there
                row.was_live, row.was_there = row.is_live, row.is_there
                if row.is_there:
                    value = row.value
                    if value is None:
                        value = self._value(row, stored)
                    lines.append((*row.stamp, 0 if row.is_live else 1, *columns(value), row.body))
                else:
                    gone.append(key)
            if lines:
                written[nclsid] = lines
            if gone:
                removed[nclsid] = gone
            self.done.objects[nclsid] += objects
            self.done.rows[nclsid] += rows
        return Rows(written, removed)


def _places(writes: Sequence[Write]) -> tuple[dict[TxId, int], set[int]]:
    """Which write has an id first; and those that repeat one."""
    txids = [write.txid for write in writes]
    places = {txid: place for place, txid in enumerate(txids) if txid is not None}
    if len(places) == len(txids):
        return places, set()
    repeated: set[int] = set()
    places = {}
    for place, txid in enumerate(txids):
        if txid is not None and places.setdefault(txid, place) != place:
            repeated.add(place)
    return places, repeated


def _runs(ids: Iterable[TxId]) -> list[Run]:
    """The runs that ids make up, as they come."""
    found: list[Run] = []
    plid = svid = cnid = first = last = 0
    for id in ids:
        if id[3] != last + 1 or id[2] != cnid or id[1] != svid or id[0] != plid:
            if last:
                found.append((_ORIGIN.pack(plid, svid, cnid), first, last))
            plid, svid, cnid, first = id
        last = id[3]
    if last:
        found.append((_ORIGIN.pack(plid, svid, cnid), first, last))
    return found


def _keys(
    writes: Sequence[Write], nclsids: Sequence[int], classes: Mapping[int, StoredClass]
) -> tuple[list[Key | EncodeError], dict[int, dict[Key, None]]]:
    """The keys of writes; and, by class, those that may have rows."""
    keys: list[Key | EncodeError] = []
    asked: dict[int, dict[Key, None]] = {}
    for nclsid, some in groupby(zip(nclsids, writes, strict=True), itemgetter(0)):
        stored = classes.get(nclsid)
        if stored is None:
            keys += [() for _ in some]
            continue
        found = _keys_of(stored.flat.checked_key, [write for _, write in some])
        keys += found
        usable = {key: None for key in found if not isinstance(key, EncodeError)}
        if usable and stored.table is not None:
            asked.setdefault(nclsid, {}).update(usable)
    return keys, asked


def _keys_of(
    key_of: Callable[[NClassValue], Key], writes: Sequence[Write]
) -> list[Key | EncodeError]:
    """The keys of writes to one class, or what is wrong with them."""
    try:
        return [key_of(write.object) for write in writes]
    except EncodeError:
        keys: list[Key | EncodeError] = []
        for write in writes:
            try:
                keys.append(key_of(write.object))
            except EncodeError as error:
                keys.append(error)
        return keys
