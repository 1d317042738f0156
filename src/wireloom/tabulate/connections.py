"""Connections: finding out what every body is from both directions of a connection.

A packet may say itself what its body is. Otherwise a request in the other direction, and the answer
to it before the packet, say so. Which request an answer belongs to depends on capture times alone,
not on how the capture is cut into groups: it is the latest one captured before the answer. Within a
stream, as in raw captures, the order counts.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.arrow.bodies import Bodies, Lesson
from wireloom.arrow.frames import FrameBatch
from wireloom.captures import Stream
from wireloom.columnar.packettables import PacketDecoder
from wireloom.formats import get, names
from wireloom.tables import table
from wireloom.tabulate.groups import Segment
from wireloom.tabulate.settings import Settings

__all__ = ["Connections", "Direction", "read_bodies", "told_formats"]

_MAX_ENDED: Final = 4096
"""Connections with one direction ended that are remembered for the other one."""

_MAX_REQUESTS: Final = 1 << 20
"""Requests remembered per direction; when a client makes more, they are forgotten."""

_BEFORE_ALL: Final = -(1 << 63)


def read_bodies(settings: Settings, kernel: Any) -> dict[str, Bodies]:
    """What reads bodies, by format.

    Args:
        settings: how streams are read.
        kernel: the kernel to use.
    """
    fields = settings.table("fields") if "fields" in settings.tables else table("fields").select(())
    made = {
        name: get(name)
        .columns()
        .bodies(
            settings.format_options(name),
            table=fields,
            limits=settings.limits,
            strict=settings.strict,
            kernel=kernel,
        )
        for name in names()
    }
    return {name: bodies for name, bodies in made.items() if bodies is not None}


def told_formats(settings: Settings) -> list[str]:
    """The formats that streams may be in and whose bodies depend on what came before."""
    return [
        name
        for name in settings.formats or names()
        if get(name).columns().is_told(settings.format_options(name))
    ]


class Direction:
    """What is known from one direction of a connection."""

    __slots__ = ("active", "count", "latest", "read_to", "requests", "siblings")

    def __init__(self, siblings: list[Direction]) -> None:
        self.active: Any = None
        """What is known of its own bodies: `Bodies.state`."""
        self.siblings = siblings
        """All directions of the connection, this one included."""
        self.requests: dict[int, tuple[array[int], array[int]]] = {}
        """When each request was captured, and for which class and encoding."""
        self.count = 0
        self.latest = _BEFORE_ALL
        """Capture time of the frames so far; one that waited for others counts as their time."""
        self.read_to = 0
        """Stream offset up to which its requests are known."""

    def learn(self, request: int, word: int) -> None:
        """It has made a request, in its latest frame."""
        if self.count >= _MAX_REQUESTS:
            self.requests.clear()
            self.count = 0
        moments, words = self.requests.setdefault(request, (array("q"), array("q")))
        moments.append(self.latest)
        words.append(word)
        self.count += 1

    def known_at(self, request: int, moment: int) -> int:
        """The word of the latest request of that number at a moment; 0 if there was none."""
        moments, words = self.requests.get(request, _NO_REQUESTS)
        place = bisect_right(moments, moment)
        return words[place - 1] if place else 0


_NO_REQUESTS: Final = array("q"), array("q")


class Connections:
    """All connections of a capture whose bodies depend on earlier packets; for one thread."""

    def __init__(self, settings: Settings, kernel: Any) -> None:
        """No connection yet.

        Raises:
            SourceError: a model cannot be found or read.
        """
        self.formats = told_formats(settings)
        """The formats of these connections."""
        self._bodies = read_bodies(settings, kernel)
        self._packets = {
            format: PacketDecoder(
                format,
                columns=("frame_offset",),
                limits=settings.limits,
                strict=settings.strict,
                kernel=kernel,
                **settings.packet_options(format),
            )
            for format in self.formats
        }
        self._known: OrderedDict[Any, list[Direction]] = OrderedDict()
        self._open: dict[Any, int] = {}  # number of open streams of each connection

    def join(self, stream: Stream) -> Direction:
        """A new stream."""
        key = _key(stream)
        siblings = self._known.setdefault(key, [])
        self._open[key] = self._open.get(key, 0) + 1
        made = Direction(siblings)
        siblings.append(made)
        return made

    def leave(self, stream: Stream) -> None:
        """A stream has ended."""
        key = _key(stream)
        self._open[key] -= 1
        if self._open[key]:
            return
        del self._open[key]
        # The other direction may turn up only after this one has ended.
        self._known.move_to_end(key)
        if len(self._known) > _MAX_ENDED + len(self._open):
            oldest = next(iter(self._known))
            if oldest not in self._open:
                del self._known[oldest]

    def settle(self, segments: Iterable[Segment], waiting: Iterable[Segment]) -> None:
        """Find the classes of all bodies in some segments.

        Everything captured before the last of their frames must be given now, or have been given
        earlier.

        Args:
            segments: of streams in these formats, in order; they get their `words`.
            waiting: frames that are certain only once others follow.
        """
        found = [(segment, *self._lessons(segment)) for segment in segments]
        answers = [
            (segment, self._learn(segment, told), illegal) for segment, told, illegal in found
        ]
        for segment in waiting:
            direction = segment.state.direction
            before = direction.latest
            self._learn(segment, self._lessons(segment)[0])
            direction.latest = before  # these frames come again
        for segment, asked, illegal in answers:
            direction = segment.state.direction
            assert segment.batch is not None
            bodies = self._bodies[segment.batch.format]
            if direction.active is None:
                direction.active = bodies.state()
            told = [
                (index, request, word)
                for index, request, moment in asked
                if (word := _known_to_others(direction, request, moment))
            ]
            segment.words = bodies.classes(
                segment.batch, direction.active, passed_over=illegal, told=told
            )

    def _lessons(self, segment: Segment) -> tuple[list[Lesson], list[int]]:
        """What a segment's frames say about subscriptions, and those that are not legal packets."""
        batch = segment.batch
        assert batch is not None
        found = self._bodies[batch.format].lessons(batch)
        if not found:
            return found, []
        offsets = array("q", [batch.offsets[each[0]] for each in found])
        lengths = array("i", [batch.lengths[each[0]] for each in found])
        places = (memoryview(offsets), memoryview(lengths))
        few = FrameBatch(batch.format, batch.data, batch.base, *places)
        refused = {each.index for each in self._packets[batch.format].check(few)}
        legal = [each for place, each in enumerate(found) if place not in refused]
        return legal, [found[place][0] for place in refused]

    def _learn(self, segment: Segment, lessons: list[Lesson]) -> list[tuple[int, int, int]]:
        """Learn the requests of a segment; return its answers: frame, request, and capture time.

        What was learned while it was waiting is skipped.
        """
        batch, direction = segment.batch, segment.state.direction
        assert batch is not None
        answers = []
        begin = 0
        for index, is_request, request, word in lessons:
            direction.latest = max(direction.latest, _latest(segment.ts_ns, begin, index + 1))
            begin = index + 1
            if not is_request:
                answers.append((index, request, direction.latest))
            elif batch.base + batch.offsets[index] >= direction.read_to:
                direction.learn(request, word)
        direction.latest = max(direction.latest, _latest(segment.ts_ns, begin, batch.count))
        last = batch.count - 1
        end = batch.base + batch.offsets[last] + batch.lengths[last]
        direction.read_to = max(direction.read_to, end)
        return answers


def _known_to_others(direction: Direction, request: int, moment: int) -> int:
    """What the other directions of a connection knew of a request at a moment."""
    for other in direction.siblings:
        if other is not direction and (word := other.known_at(request, moment)):
            return word
    return 0


def _latest(times: Sequence[int] | memoryview | None, first: int, last: int) -> int:
    """The latest of some times, if there are any."""
    if times is None or first >= last:
        return _BEFORE_ALL
    if last - first == 1:
        return times[first]
    part = pa.py_buffer(times[first:last])
    found: int = pc.max(pa.Array.from_buffers(pa.int64(), last - first, [None, part], 0)).as_py()
    return found


def _key(stream: Stream) -> Any:
    """The same for both directions."""
    ends = frozenset({(stream.src, stream.src_port), (stream.dst, stream.dst_port)})
    return stream.protocol, ends, stream.turn, stream.source if not stream.src else ""
