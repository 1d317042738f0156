"""A subscription in the server: what waits to be sent, in which order, how much (SPEC §8.4).

Stamps only ever increase within a subscription: download by stamp, then changes by stamp, and a
change that the download already included is left out. So a client can always resume from the last
stamp it has seen.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from wireloom.errors import StateError
from wireloom.formats.blaze.body import encode_nclass
from wireloom.formats.blaze.codes import (
    Action,
    Encoding,
    EventType,
    FlowType,
    SubscriptionMode,
    SubscriptionType,
)
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.session.events import Stamp, SubscriptionRequested
from wireloom.formats.blaze.session.outstanding import Outstanding
from wireloom.formats.blaze.session.quick import Numbers
from wireloom.formats.blaze.session.states import SERVER_SUBSCRIPTION, Act, Service
from wireloom.kernel import either

__all__ = [
    "CONFLATED",
    "Batch",
    "Change",
    "EventIds",
    "LiveQueue",
    "Outgoing",
    "ServerSubscription",
]

CONFLATED: Mapping[tuple[Action, Action], Action] = {
    (Action.INS, Action.UPD): Action.INS,
    (Action.INS, Action.DLT): Action.INS,
    (Action.DEL, Action.INS): Action.UPD,
    (Action.UPD, Action.DLT): Action.UPD,
    (Action.DLT, Action.DLT): Action.UPD,
}
"""What a waiting action and a newer one on the same object combine to; else the newer one."""


# Looked up once: a member of an enum takes longer than all else that `Change.full` does.
_ALL, _NOT_ZERO = Encoding.ALL, Encoding.INDEXNOTZERO

_PATIENCE = 256
"""Events that may be sent ahead of an object which changes all the time: then it is sent as it is,
although a newer change waits behind it."""


class EventIds:
    """Counters of SEVTID, one per class, from 1; shared by the sessions of a broker."""

    def __init__(self, last: Mapping[int, int] | None = None) -> None:
        self._last = Counter(last)

    def next(self, nclsid: int) -> int:
        """The next id of a class; after 2^32 - 1 comes 1."""
        self._last[nclsid] = self._last[nclsid] % 0xFFFFFFFF + 1
        return self._last[nclsid]

    def take(self, nclsid: int, count: int) -> Sequence[int]:
        """The next ids of a class."""
        last = self._last[nclsid]
        if last + count > 0xFFFFFFFF:
            return [self.next(nclsid) for _ in range(count)]
        self._last[nclsid] = last + count
        return range(last + 1, last + count + 1)


@dataclass(slots=True)  # not frozen, which would take three times as long
class Change:
    """An object as it is stored, or a change to one; its bytes are shared by all subscribers."""

    nclsid: int
    action: Action
    stamp: Stamp
    key: Hashable
    """Its primary key. None: it concerns the whole class, and is never conflated."""
    bodies: dict[Encoding, bytes] = field(compare=False, repr=False)
    """The object in every encoding that is asked for; INDEXDELTA holds what has changed."""
    sevtid: int = 0
    """Id of the event; 0: each subscription takes the next one of the class."""
    image: NClassValue | None = field(default=None, compare=False, repr=False)
    """The object, from which further encodings are made."""
    first_index: int | None = None

    @classmethod
    def of(
        cls,
        action: Action,
        image: NClassValue,
        stamp: Stamp,
        *,
        delta: NClassValue | None = None,
        sevtid: int = 0,
        first_index: int | None = None,
    ) -> Self:
        """A change from the object's new image, and from what differs if that is known.

        Raises:
            EncodeError: a value does not fit its field.
        """
        bodies: dict[Encoding, bytes] = {}
        if delta is not None:
            bodies[Encoding.INDEXDELTA] = encode_nclass(
                delta, Encoding.INDEXDELTA, first_index=first_index
            )
        return cls(image.nclass.id, action, stamp, image.key(), bodies, sevtid, image, first_index)

    def full(self, encoding: Encoding) -> bytes:
        """The whole object; made once, then shared.

        Raises:
            StateError: the change came without the object.
            EncodeError: a value does not fit its field.
        """
        wanted = _ALL if encoding is _ALL else _NOT_ZERO
        body = self.bodies.get(wanted)
        if body is None:
            if self.image is None:
                raise StateError(f"the change has no body in {wanted.name}")
            body = encode_nclass(self.image, wanted, first_index=self.first_index)
            self.bodies[wanted] = body
        return body


class Batch:
    """Changes of one class that are published together, in stamp order.

    Their packets are made once for all subscribers that get them alike.
    """

    __slots__ = ("_packets", "changes", "ids", "nclsid")

    def __init__(self, changes: Sequence[Change], ids: EventIds) -> None:
        """Give changes that have no id the next ones of their class, which all subscribers see."""
        self.changes = changes
        self.nclsid = changes[0].nclsid
        new = [change for change in changes if not change.sevtid]
        taken = ids.take(self.nclsid, len(new))
        for change, sevtid in zip(new, taken, strict=True):
            change.sevtid = sevtid
        is_new = len(new) == len(changes)
        self.ids = taken if is_new else [change.sevtid for change in changes]
        self._packets: dict[tuple[int, int], bytes] = {}

    def packets(self, numbers: Numbers, subscription: ServerSubscription, count: int) -> bytes:
        """The first changes as live events of a subscription to whole objects.

        Raises:
            EncodeError: an object cannot be written in its encoding.
        """
        key = subscription.frame_key, count
        found = self._packets.get(key)
        if found is None:
            encoding = subscription.request.encoding
            columns = numbers.live_events(
                subscription.sbsrid, self.changes[:count], self.ids[:count], encoding
            )
            found = self._packets[key] = either().join_packets(columns, count)
        return found


class _Waiting:
    __slots__ = ("change", "due", "is_fixed")

    def __init__(self, change: Change, due: int) -> None:
        self.change = change
        self.due = due
        self.is_fixed = False


class LiveQueue:
    """Changes that wait to be sent, in stamp order.

    With conflation, a newer change of an object replaces the one that waits. It goes to the end, as
    its stamp demands; so that an object which changes all the time is sent at all, a change that
    should have been sent long ago stays, and only later ones are replaced.
    """

    def __init__(self, is_conflated: bool) -> None:
        self.is_conflated = is_conflated
        self._entries: OrderedDict[int, _Waiting] = OrderedDict()
        self._newest: dict[Hashable, int] = {}
        self._fixed: set[Hashable] = set()
        self._count = 0
        self._taken = 0

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, change: Change) -> None:
        """Add a change, whose stamp is the newest."""
        due = self._taken + len(self._entries)
        key = change.key
        if key is None:
            self._newest.clear()  # nothing may move past a change of the whole class
        elif self.is_conflated:
            place = self._newest.get(key)
            if place is not None:
                waiting = self._entries[place]
                if key in self._fixed or self._taken <= waiting.due + _PATIENCE:
                    del self._entries[place]
                    change, due = _conflated(waiting.change, change), waiting.due
                else:
                    waiting.is_fixed = True
                    self._fixed.add(key)
            self._newest[key] = self._count
        self._entries[self._count] = _Waiting(change, due)
        self._count += 1

    def take(self) -> Change:
        """The change that is next.

        Raises:
            KeyError: none waits.
        """
        place, waiting = self._entries.popitem(last=False)
        self._taken += 1
        key = waiting.change.key
        if waiting.is_fixed:
            self._fixed.discard(key)
        elif self._newest.get(key) == place:
            del self._newest[key]
        return waiting.change

    def conflate(self) -> None:
        """From now on keep only the newest change of each object, also among those that wait."""
        if not self.is_conflated:
            self.is_conflated = True
            waiting, self._entries = self._entries, OrderedDict()
            for entry in waiting.values():
                self.put(entry.change)

    def drop_until(self, stamp: Stamp) -> int:
        """Drop what is not newer than a stamp; returns how many were dropped."""
        count = 0
        while self._entries and next(iter(self._entries.values())).change.stamp <= stamp:
            self.take()
            count += 1
        return count


def _conflated(old: Change, new: Change) -> Change:
    # The image that the delta changes was dropped, so the whole object is sent.
    action = CONFLATED.get((old.action, new.action), new.action)
    bodies = new.bodies
    if Encoding.INDEXDELTA in bodies:
        bodies = {kind: raw for kind, raw in bodies.items() if kind is not Encoding.INDEXDELTA}
    if action is new.action and bodies is new.bodies:
        return new
    return replace(new, action=action, bodies=bodies)


class Outgoing(NamedTuple):
    """An event that is to be written now."""

    kind: EventType
    action: Action = Action.NONE
    stamp: Stamp = (0, 0)
    sevtid: int = 0
    body: bytes | None = None


class ServerSubscription:
    """One subscription of one connection."""

    def __init__(
        self,
        sbsrid: int,
        request: SubscriptionRequested,
        *,
        is_stored: bool,
        has_download_end: bool = True,
        has_stop: bool = True,
        batch: int = 256,
        max_held: int = 65_536,
        accepts: Callable[[Change], bool] | None = None,
    ) -> None:
        self.sbsrid = sbsrid
        self.request = request
        self.state = Service.REQUESTED
        self.frame_key = sbsrid << 4 | request.encoding
        """The key under which a batch keeps its packets for subscriptions like this one."""
        self.outstanding = Outstanding()
        self.position: Stamp = (
            request.since if request.mode is not SubscriptionMode.LIVE else (0, 0)
        )
        """Stamp of the newest change that was taken for sending."""
        self.live = LiveQueue(request.flow is FlowType.LAST)
        self._rows: deque[Change] = deque()
        self._has_end = has_download_end
        self._has_stop = has_stop
        self._batch = batch
        self._max_held = max_held
        self._accepts = accepts
        self._is_asked = False  # rows were asked for and have not arrived
        self._is_complete = not is_stored  # the last row is there
        self._has_begun = not is_stored  # rows have arrived
        self._deleted_after = request.since if any(request.since) else None
        self._newest: Stamp = (0, 0)  # of the live changes
        self._held: OrderedDict[Hashable, None] = OrderedDict()
        self._holds_all = is_stored and request.mode is SubscriptionMode.ALL

    def step(self, act: Act) -> None:
        """Make a transition of `SERVER_SUBSCRIPTION`.

        Raises:
            StateError: it is not allowed.
        """
        self.state = SERVER_SUBSCRIPTION.after(self.state, act)

    def start(self) -> None:
        """It was accepted: begin."""
        past = self.request.mode is not SubscriptionMode.LIVE
        self.step(Act.START_DOWNLOAD if past else Act.START_LIVE)

    @property
    def wants(self) -> tuple[Stamp, int, Stamp | None] | None:
        """The rows to ask for; None when enough wait.

        Those newer than a stamp; how many; and since when deleted ones are wanted, too (None: they
        are not, as the client has no object yet).
        """
        if self.state is not Service.DOWNLOADING or self._is_asked or self._is_complete:
            return None
        if len(self._rows) > self._batch // 2:
            return None
        self._is_asked = True
        return self._asked_after, self._batch, self._deleted_after

    @property
    def _asked_after(self) -> Stamp:
        return self._rows[-1].stamp if self._rows else self.position

    def add_rows(
        self,
        rows: Iterable[Change],
        is_last: bool,
        *,
        last: Stamp | None = None,
        forgotten: Stamp = (0, 0),
    ) -> bool:
        """Rows that were asked for, in stamp order; False if a deletion may be missing from them.

        Args:
            rows: the rows.
            is_last: whether there are no more.
            last: the newest stamp of the class before they were read.
            forgotten: up to here, the store does not know any more what was deleted.

        Raises:
            StateError: none were asked for, or they are not newer than those before.
        """
        if not self._is_asked:
            raise StateError(f"subscription {self.sbsrid} asked for no rows")
        given = list(rows)
        newest = self._asked_after
        deleted_after = self._deleted_after
        if deleted_after is not None and forgotten > max(deleted_after, newest):
            return False
        for row in given:
            if row.stamp <= newest:
                raise StateError(f"row {row.stamp} is not newer than {newest}")
            newest = row.stamp
        if not given and not is_last:
            raise StateError("no rows, and yet not the last ones")
        self._rows += given
        self._is_asked = False
        self._is_complete = is_last
        if not self._has_begun:
            self._has_begun = True
            if deleted_after is None:
                self._deleted_after = last
            elif last is not None and last < self.position:
                self.position = last  # a position ahead of the class's: what comes now is newer
        return True

    def start_over(self, marker: Change) -> None:
        """Send everything that is stored, behind an event that tells to forget all objects."""
        self._rows.clear()
        self._rows.append(marker)
        self.position = (0, 0)
        self._deleted_after = None
        self._is_asked = self._has_begun = self._is_complete = False

    def add_change(self, change: Change) -> bool:
        """A live change; False if this subscription does not get it, or already has it."""
        if self.state not in (Service.DOWNLOADING, Service.LIVE):
            return False
        if self.request.mode is SubscriptionMode.PAST:
            return False
        if change.stamp <= self._newest:
            return False
        if change.stamp <= self.position and (
            self._has_begun or self.state is not Service.DOWNLOADING
        ):
            return False
        self._newest = change.stamp
        if self._accepts is not None and not self._accepts(change):
            return False
        self.live.put(change)
        return True

    @property
    def is_plain(self) -> bool:
        """Whether a live change could be sent as it is, with nothing before it."""
        return (
            self.state is Service.LIVE
            and not self.live
            and not self.live.is_conflated
            and self._accepts is None
            and self.request.kind is SubscriptionType.SNAPSHOT
        )

    def pass_on(self, changes: Sequence[Change]) -> bool:
        """Changes are sent without waiting; False if this subscription has some of them."""
        first = changes[0].stamp
        if first <= self._newest or first <= self.position:
            return False
        self._newest = self.position = changes[-1].stamp
        return True

    @property
    def is_ready(self) -> bool:
        """Whether `next` has something."""
        if self.state is Service.DOWNLOADING:
            return bool(self._rows) or self._is_complete
        return self.state is Service.ENDING or bool(self.live)

    def next(self) -> Outgoing | None:
        """The event that is to be sent next; None when there is none."""
        while self._rows:
            row = self._rows.popleft()
            self.position = row.stamp
            if self._accepts is None or self._accepts(row):
                return self._data(EventType.DATADWNL, row)
        if self.state is Service.DOWNLOADING:
            return self._end_download() if self._is_complete else None
        if self.state is Service.ENDING:
            self.step(Act.STOP)
            return Outgoing(EventType.STOP)
        if self.state is Service.LIVE and self.live:
            change = self.live.take()
            self.position = change.stamp
            return self._data(EventType.DATALIVE, change)
        return None

    def _end_download(self) -> Outgoing | None:
        is_past = self.request.mode is SubscriptionMode.PAST
        if not is_past:
            self.step(Act.DOWNLOADED)
            self.live.drop_until(self.position)
        elif self._has_stop:
            self.step(Act.DOWNLOADED_PAST)
        else:
            self._is_complete = False  # silent from here on, until the client stops it
            self._is_asked = True
        return Outgoing(EventType.DWNLEND) if self._has_end else self.next()

    def _data(self, kind: EventType, change: Change) -> Outgoing:
        request, action = self.request, change.action
        delta = change.bodies.get(Encoding.INDEXDELTA)
        if (
            action is Action.DLT
            and delta is not None
            and request.kind is SubscriptionType.INCREMENTAL
            and request.encoding is Encoding.INDEXDELTA
            and kind is EventType.DATALIVE
            and self._accepts is None  # a filtered change may be missing from the base
            and (self._holds_all or change.key in self._held)
        ):
            body = delta
        else:
            action = Action.UPD if action is Action.DLT else action
            body = change.full(request.encoding)
        self._note_held(change, action)
        return Outgoing(kind, action, change.stamp, change.sevtid, body)

    def _note_held(self, change: Change, action: Action) -> None:
        if self.request.kind is not SubscriptionType.INCREMENTAL or self._holds_all:
            return
        if action is Action.RST:
            self._held.clear()
        elif action is Action.DEL:
            self._held.pop(change.key, None)
        else:
            self._held[change.key] = None
            self._held.move_to_end(change.key)
            if len(self._held) > self._max_held:
                self._held.popitem(last=False)
