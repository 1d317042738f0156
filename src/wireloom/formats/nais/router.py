"""The junction's router: records from the sessions of one line to those of others (SPEC §6).

No sockets and no clock: a shell reports connections, what they sent and when, asks for the bytes
that go to each, and wakes the router at `next_timeout`. A record is delivered at most once to a
session, and what is not delivered is counted under one of the names in `Counters`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wireloom.errors import OptionError, StateError
from wireloom.formats.nais.counters import Counters, Dropped, SessionInfo
from wireloom.formats.nais.lines import Direction, LineOptions, Queue, Transform
from wireloom.formats.nais.packets import NaisPacket, read_packet
from wireloom.formats.nais.routed import (
    Address,
    Item,
    Line,
    Session,
    is_one_frame,
    is_plain,
    payload_len,
    record_of,
    stamped,
    whole,
)
from wireloom.formats.nais.rules import HEADER_LEN, MIN_FRAME_LEN, SYNC_END, SYNC_START
from wireloom.formats.nais.schema import BUILT_IN, NaisType, TypeRegistry
from wireloom.formats.nais.sessionids import HOLD_S, SessionIds
from wireloom.framing import Frame, Problem, Record, Text
from wireloom.sessions import CLOCK_SLACK
from wireloom.wire import Buffer

__all__ = ["UNDELIVERABLE", "Counters", "Dropped", "Router", "SessionInfo"]

_FORMAT = "nais"
UNDELIVERABLE = -2
"""Status of the Ack by which a junction says that there is no such session (SPEC, E12)."""


class Router:
    """Lines, the routes between them, and the sessions on them."""

    def __init__(self, *, hold_s: float = HOLD_S, types: TypeRegistry = BUILT_IN) -> None:
        """A junction without lines.

        Args:
            hold_s: how long the id of a closed session is not used again.
            types: the schemas that validating lines read payloads with.

        Raises:
            OptionError: `hold_s` is negative.
        """
        self._types = types
        self._hold_s = hold_s
        self._ids = SessionIds(hold_s)
        self._removed = Counters()
        self._lines: dict[str, Line] = {}
        self._addresses: dict[int, Address] = {}
        self._sessions: dict[int, Session] = {}
        self._ready: dict[int, None] = {}
        self._events: list[Dropped] = []

    # --- topology

    def add_line(self, name: str, options: LineOptions | None = None) -> None:
        """Add a line.

        Raises:
            OptionError: there is already one of that name.
        """
        if name in self._lines:
            raise OptionError(f"line {name!r} is there already")
        self._lines[name] = Line(name, options or LineOptions())

    def add_route(
        self, a: str, b: str, a_to_b: Direction | None = None, b_to_a: Direction | None = None
    ) -> None:
        """Connect two lines, both ways unless a direction is closed.

        Raises:
            OptionError: no such line, the same line twice, or the two already have a route: with
                another, everything would arrive twice.
        """
        first, second = self._line(a), self._line(b)
        if first is second:
            raise OptionError(f"a route from {a!r} to itself would be an echo")
        if any(peer is second for peer, _ in first.peers):
            raise OptionError(f"{a!r} and {b!r} have a route already")
        first.peers.append((second, a_to_b or Direction()))
        second.peers.append((first, b_to_a or Direction()))
        first.is_plain = second.is_plain = None

    def remove_line(self, name: str) -> None:
        """Remove a line, with its routes; what it stored is lost, and counted.

        Raises:
            OptionError: no such line.
            StateError: it has sessions; they have to be disconnected first.
        """
        line = self._line(name)
        if line.sessions:
            raise StateError(f"line {name!r} has {len(line.sessions)} sessions")
        for other in self._lines.values():
            other.peers = [(peer, direction) for peer, direction in other.peers if peer is not line]
            other.is_plain = None
        line.counters.lost_on_close += len(line.store)
        self._removed.add(line.counters)
        del self._lines[name]

    def clear_routes(self) -> None:
        """Remove all routes, and leave lines and sessions as they are."""
        for line in self._lines.values():
            line.peers = []
            line.is_plain = None

    @property
    def lines(self) -> tuple[str, ...]:
        """Names of the lines, in the order in which they were added."""
        return tuple(self._lines)

    @property
    def counters(self) -> Counters:
        """The sums over all lines, including those that were removed."""
        total = Counters()
        for counted in (self._removed, *(line.counters for line in self._lines.values())):
            total.add(counted)
        return total

    def line_counters(self, name: str) -> Counters:
        """What a line has counted: records received there, and records to be sent there.

        Raises:
            OptionError: no such line.
        """
        return self._line(name).counters

    def sessions(self) -> Iterator[SessionInfo]:
        """All connections and the peers behind trunks, by id."""
        for number, address in sorted(self._addresses.items()):
            session = address.session
            if address.remote:
                yield SessionInfo(
                    number, session.line.name, address.since, 0, session.id, address.remote
                )
            else:
                yield SessionInfo(number, session.line.name, session.since, session.queue.size)

    # --- connections

    def connect(self, line: str, now: float) -> int:
        """A connection came up on a line; returns the id of its session.

        Raises:
            OptionError: no such line.
            StateError: no id is free; the connection has to be refused.
        """
        where = self._line(line)
        while where.resting and where.resting[0] <= now:
            where.resting.popleft()
        options, live = where.options, len(where.sessions)
        if live >= options.max_sessions or live + len(where.resting) >= options.max_ids:
            where.counters.refused += 1
            held = len(where.resting)
            raise StateError(f"line {line!r} has {live} sessions, and {held} ids of it are held")
        number = self._ids.allot(now)
        if number is None:
            where.counters.refused += 1
            raise StateError(
                f"no session id is free: {self._ids.live} are in use, {self._ids.held} held"
            )
        session = Session(number, where, now)
        self._sessions[number] = session
        self._addresses[number] = Address(session)
        where.sessions[number] = session
        where.had_session = True
        where.counters.expired += where.store.expire(now)
        for item in where.store.take():
            self._deliver_stored(where, item, now)
        return number

    def disconnect(self, session: int, now: float) -> list[Dropped]:
        """The connection has closed. Unfinished input is given up, and its id is put on hold.

        Raises:
            StateError: there is no such connection.
        """
        gone = self._session(session)
        for record in gone.decoder.close():
            self._route(gone, record, now)
        line = gone.line
        line.counters.lost_on_close += len(gone.queue)
        line.resting.append(now + self._hold_s)
        del line.sessions[session]
        del self._sessions[session]
        self._ready.pop(session, None)
        for number in (session, *gone.virtual.values()):
            del self._addresses[number]
            self._ids.free(number, now)
        return self._take_events()

    def receive(
        self, session: int, data: Buffer, now: float, *, checks_idle: bool = True
    ) -> list[Dropped]:
        """Route what a connection has sent; on a message line, `data` is one message.

        Args:
            session: the connection.
            data: what it has sent.
            now: the time.
            checks_idle: whether to give up an unfinished frame after too long a silence. A shell
                that was busy itself cannot tell; it leaves that to `handle_timeout`.

        Raises:
            StateError: there is no such connection.
        """
        source = self._session(session)
        if source.line.options.is_message_line:
            if data:  # an empty message is not a record
                self._route(source, whole(source, bytes(data)), now)
            source.offset += len(data)
        else:
            # By the clock, whether the shell checked its timer or its socket first.
            if checks_idle:
                self._check_idle(source, now)
            if source.line.is_plain is None:
                source.line.is_plain = is_plain(source.line)
            rest = self._route_plain(source, bytes(data), now) if source.line.is_plain else data
            for record in source.decoder.feed(rest):
                self._route(source, record, now)
        source.heard = now
        return self._take_events()

    def ready(self) -> list[int]:
        """The sessions with something new to send since the last call."""
        ready = list(self._ready)
        self._ready.clear()
        return ready

    def data_to_send(self, session: int, now: float, most: int | None = None) -> bytes:
        """The bytes for a stream connection, oldest first; what is too old is dropped.

        Args:
            session: the connection.
            now: the time.
            most: take whole records up to this many bytes, and at least one; None: all.

        Raises:
            StateError: there is no such connection.
        """
        return b"".join(self.messages_to_send(session, now, most))

    def messages_to_send(self, session: int, now: float, most: int | None = None) -> list[bytes]:
        """The same, record by record: for message lines.

        Raises:
            StateError: there is no such connection.
        """
        target = self._session(session)
        target.line.counters.expired += target.queue.expire(now)
        return target.queue.take(most)

    def pending(self, session: int) -> int:
        """Bytes that wait for a connection.

        Raises:
            StateError: there is no such connection.
        """
        return self._session(session).queue.size

    # --- time

    def next_timeout(self, now: float) -> float | None:
        """Seconds until `handle_timeout` is to be called, 0 if it is overdue; None: not at all."""
        times = [
            session.heard + session.line.options.idle_s
            for session in self._sessions.values()
            if session.decoder.is_in_frame
        ]
        queues: Iterable[Queue[bytes] | Queue[Item]] = (
            *(session.queue for session in self._sessions.values()),
            *(line.store for line in self._lines.values()),
        )
        times += [expiry for queue in queues if (expiry := queue.next_expiry) is not None]
        return max(0.0, min(times) - now) if times else None

    def handle_timeout(self, now: float) -> list[Dropped]:
        """Give up unfinished frames on idle lines, and drop records that are too old."""
        for session in list(self._sessions.values()):
            self._check_idle(session, now)
            session.line.counters.expired += session.queue.expire(now)
        for line in self._lines.values():
            line.counters.expired += line.store.expire(now)
        return self._take_events()

    def _check_idle(self, session: Session, now: float) -> None:
        until = session.heard + session.line.options.idle_s
        if session.decoder.is_in_frame and until <= now + CLOCK_SLACK:
            for record in session.decoder.idle():
                self._route(session, record, now)

    # --- many frames at once

    def _route_plain(self, source: Session, data: bytes, now: float) -> bytes:
        """Route the small whole frames at the start of `data`; return the rest.

        The same as `_route`, in a tenth of the time, for lines whose routes let everything pass,
        which is what most junctions do most of the time. Anything less simple is left.
        """
        decoder, pos = source.decoder, 0
        while decoder.is_in_frame and pos < len(data):  # the end of a frame that began before
            start, pos = pos, pos + decoder.missing
            for record in decoder.feed(data[start:pos]):
                self._route(source, record, now)
        if decoder.pending:
            return data[pos:]
        start, end = pos, len(data)
        most, stamp = source.line.plain_payload, bytes([source.id])
        frames: list[bytes] = []
        while pos + MIN_FRAME_LEN <= end and data[pos] == SYNC_START:
            size = data[pos + HEADER_LEN]
            stop = pos + MIN_FRAME_LEN + size
            if size > most or stop > end or data[stop - 1] != SYNC_END or not data[pos + 1]:
                break
            if data[pos + 3]:  # to one session
                self._spread(source, frames, now)
                frames = []
                self._route(source, Frame(_FORMAT, 0, data[pos:stop]), now)
            else:
                frames.append(data[pos : pos + 2] + stamp + data[pos + 3 : stop])
            pos = stop
        self._spread(source, frames, now)
        decoder.skip(pos - start)
        return data[pos:]

    def _spread(self, source: Session, frames: list[bytes], now: float) -> None:
        """Queue stamped frames that are for everyone."""
        if not frames:
            return
        count = len(frames)
        source.line.counters.frames_in += count
        size = sum(map(len, frames))
        for peer, _ in source.line.peers:
            if not peer.sessions:
                for frame in frames:
                    self._to_nobody(peer, Item(frame, True, 0, source.id), now)
                continue
            until = now + peer.options.max_age_s
            waiting = [(until, len(frame), frame) for frame in frames]
            counters = peer.counters
            for session in peer.sessions.values():
                counters.frames_out += count
                counters.overflow += session.queue.put_all(waiting, size)
                self._ready[session.id] = None

    # --- one record

    def _route(self, source: Session, record: Record, now: float) -> None:
        line = source.line
        if isinstance(record, Problem):
            self._drop(line, "problems", source.id, detail=record.code)
            return
        if line.options.incoming is not None:
            made = self._made(line, line.options.incoming, record, source.id)
            if made is None:
                return
            record = record_of(made, record.offset)
        if isinstance(record, Text):
            line.counters.texts_in += 1
            sender, dline, type = source.id, 0, None
        else:
            line.counters.frames_in += 1
            type, dline = record.data[1], record.data[3]
            if not self._is_acceptable(source, record):
                return
            found = self._sender(source, record.data[2], now)
            if found is None:
                self._drop(line, "no_virtual_id", source.id, type=type)
                return
            sender = found
        if not line.peers:
            self._drop(line, "unrouted", source.id, type=type)
            return
        reached = False
        for peer, direction in line.peers:
            reached |= self._send_over(peer, direction, record, sender, dline, now)
        if not reached:
            self._undeliverable(source, dline, type, now)

    def _is_acceptable(self, source: Session, frame: Frame) -> bool:
        """Whether a frame may go on at all (SPEC §6.1)."""
        if frame.data[1] == 0:
            self._drop(source.line, "type_zero", source.id, type=0)
            return False
        if source.line.options.validates:
            packet = read_packet(frame.data, source.line.options.rules, types=self._types)
            if packet.is_bad_payload:
                detail = packet.message_error
                self._drop(source.line, "bad_payload", source.id, type=packet.type, detail=detail)
                return False
        return True

    def _send_over(
        self,
        peer: Line,
        direction: Direction,
        record: Frame | Text,
        sender: int,
        dline: int,
        now: float,
    ) -> bool:
        """Send a record along one route; False if its addressee is not on that line."""
        if dline and not self._may_be_on(peer, dline):
            return False
        type = record.data[1] if isinstance(record, Frame) else None
        if not (direction.is_plain or direction.passes(type)):
            self._drop(peer, "filtered", sender, type=type, is_target=True)
            return True
        item = self._transformed(peer, direction, record, sender, dline)
        if item is None or not self._fits(peer, item):
            return True
        if peer.sessions:
            self._deliver(peer, item, now)
        else:
            self._to_nobody(peer, item, now)
        return True

    def _to_nobody(self, peer: Line, item: Item, now: float) -> None:
        """A record for a line without a session."""
        if not peer.had_session or peer.options.keeps_when_empty:
            peer.counters.stored += 1
            peer.counters.overflow += peer.store.put(item, len(item.data), now)
        else:
            type = item.data[1] if item.is_frame else None
            self._drop(peer, "no_session", item.sender, type=type, is_target=True)

    def _may_be_on(self, peer: Line, dline: int) -> bool:
        """Whether a frame to this id is for that line, now or when its first session connects."""
        address = self._addresses.get(dline)
        if address is not None:
            return address.session.line is peer
        return not peer.sessions and (not peer.had_session or peer.options.keeps_when_empty)

    def _made(
        self, line: Line, transform: Transform, record: Frame | Text, sender: int
    ) -> bytes | None:
        """What a transform makes of a record on its way from or to a line; None: it is dropped."""
        type = record.data[1] if isinstance(record, Frame) else None
        try:
            made = transform(record)
        except Exception as error:
            # A user's function: whatever it raises must not stop the line.
            detail = f"{error.__class__.__name__}: {error}"
            self._drop(line, "transform_errors", sender, type=type, detail=detail, is_target=True)
            return None
        if not made:
            self._drop(line, "discarded", sender, type=type, is_target=True)
            return None
        return bytes(made)

    def _transformed(
        self, peer: Line, direction: Direction, record: Frame | Text, sender: int, dline: int
    ) -> Item | None:
        """What goes to the line. DLINE is from before the transform, SLINE is stamped after it."""
        data, is_frame = record.data, isinstance(record, Frame)
        if direction.transform is not None:
            made = self._made(peer, direction.transform, record, sender)
            if made is None:
                return None
            data, is_frame = made, is_one_frame(made)
        if is_frame:
            data = stamped(data, sender)
        return Item(data, is_frame, dline, sender)

    def _fits(self, peer: Line, item: Item) -> bool:
        """Whether the far end of a line accepts a frame: its TYPE, and its size."""
        if not item.is_frame:
            return True
        options, type = peer.options, item.data[1]
        if type == 0:  # made by a transform
            self._drop(peer, "type_zero", item.sender, type=type, is_target=True)
            return False
        if options.send_types is not None and type not in options.send_types:
            self._drop(peer, "filtered", item.sender, type=type, is_target=True)
            return False
        size = payload_len(item.data)
        if not options.min_send_payload <= size <= options.max_send_payload:
            limits = f"{options.min_send_payload} to {options.max_send_payload}"
            detail = f"{size} bytes of payload, the line takes {limits}"
            self._drop(peer, "wrong_size", item.sender, type=type, detail=detail, is_target=True)
            return False
        return True

    def _deliver(self, line: Line, item: Item, now: float) -> None:
        data = item.data
        address = None
        if item.dline:
            address = self._addresses[item.dline]
            if address.remote and item.is_frame:
                data = data[:3] + bytes([address.remote]) + data[4:]
        if line.options.outgoing is not None:
            record = Frame(_FORMAT, 0, data) if item.is_frame else Text(_FORMAT, 0, data, True)
            made = self._made(line, line.options.outgoing, record, item.sender)
            if made is None:
                return
            data = made
        if address is not None and not line.options.is_broadcast:
            self._queue(address.session, data, item.is_frame, now)
            return
        for session in line.sessions.values():
            self._queue(session, data, item.is_frame, now)

    def _deliver_stored(self, line: Line, item: Item, now: float) -> None:
        if item.dline and not self._may_be_on(line, item.dline):
            self._drop(line, "undeliverable", item.sender, is_target=True)
        else:
            self._deliver(line, item, now)

    def _queue(self, session: Session, data: bytes, is_frame: bool, now: float) -> None:
        counters = session.line.counters
        if is_frame:
            counters.frames_out += 1
        else:
            counters.texts_out += 1
        counters.overflow += session.queue.put(data, len(data), now)
        self._ready[session.id] = None

    def _undeliverable(self, source: Session, dline: int, type: int | None, now: float) -> None:
        detail = f"no session {dline}"
        self._drop(source.line, "undeliverable", source.id, type=type, detail=detail)
        how = source.line.options.notify_undeliverable
        if how == "text":
            self._queue(source, f"no session {dline}\n".encode(), False, now)
        elif how == "ack":
            ack = NaisPacket.from_message(NaisType.ACK, {"id": type, "status": UNDELIVERABLE})
            self._queue(source, ack.encode(), True, now)

    # --- ids

    def _sender(self, source: Session, sline: int, now: float) -> int | None:
        """The id that a frame's SLINE becomes; None if no id is left for a peer behind a trunk.

        For a client it is the client's own id, whatever the client wrote there. A junction at the
        other end of a trunk wrote the sender, in its own ids.
        """
        if not (source.line.options.is_trunk and sline):
            return source.id
        known = source.virtual.get(sline)
        if known is not None:
            source.virtual.move_to_end(sline)
            return known
        if len(source.virtual) >= source.line.options.max_virtual:
            _, silent = source.virtual.popitem(last=False)
            del self._addresses[silent]
            self._ids.free(silent, now)
        number = self._ids.allot(now)
        if number is not None:
            source.virtual[sline] = number
            self._addresses[number] = Address(source, sline, now)
        return number

    # --- helpers

    def _line(self, name: str) -> Line:
        try:
            return self._lines[name]
        except KeyError:
            raise OptionError(f"no line {name!r}") from None

    def _session(self, number: int) -> Session:
        try:
            return self._sessions[number]
        except KeyError:
            raise StateError(f"no connection has the session id {number}") from None

    def _drop(
        self,
        line: Line,
        reason: str,
        session: int,
        *,
        type: int | None = None,
        detail: str = "",
        is_target: bool = False,
    ) -> None:
        """Count a record at the line where it was dropped, on its way in or, `is_target`, out."""
        setattr(line.counters, reason, getattr(line.counters, reason) + 1)
        self._events.append(Dropped(reason, session, line.name if is_target else "", type, detail))

    def _take_events(self) -> list[Dropped]:
        events, self._events = self._events, []
        return events
