"""Frames → rows: the entry point, and the messages in the payloads of others."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be32, room
from wireloom.kernel.rows.fieldrows import FieldRows
from wireloom.kernel.walk.qform import QFORM, QFORM_MAGIC, qform_message
from wireloom.kernel.walk.tibmsg import TIBMSG, TIBMSG_MAGIC, tibmsg_message
from wireloom.kernel.walk.tibrv import TIBRV, TIBRV_MAGIC, tibrv_message
from wireloom.kernel.walk.walk import (
    ASKED,
    BAD,
    GOOD,
    MOST_NESTED,
    MOST_NESTED_BYTES,
    NEED_TEXT,
    Walk,
)

__all__ = ["PAYLOAD", "message_rows", "recognised_payloads"]

PAYLOAD = cython.declare(cython.int, -1)


def one_message(walk, rows, format, data, pos, end, nesting):
    """Append the rows of the message of that format at the start of ``data[pos:end]``."""
    if format == TIBMSG:
        return tibmsg_message(walk, rows, walk.tibmsg_headers, data, pos, end, nesting)
    if format == TIBRV:
        return tibrv_message(walk, rows, walk.tibrv_headers, data, pos, end, nesting)
    return qform_message(walk, rows, data, pos, end, nesting)


def message_rows(
    walk: Walk,
    format: cython.int,
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.int][::1],
    offsets: cython.const[cython.longlong][::1],
    times: cython.const[cython.longlong][::1],
    base: cython.longlong,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    framed: cython.const[cython.int][::1],
) -> tuple[int, int]:
    """Append the rows of the frames ``first`` to ``last - 1``, each one message.

    With the format `PAYLOAD`, each is the payload of a transport, which may hold messages.

    Args:
        walk: where the rows go.
        format: number of the format.
        data: what holds the frames.
        starts: where each starts in `data`.
        lengths: the bytes of each.
        offsets: where each starts in its stream; if empty, at its start plus `base`.
        times: when each was captured; may be empty.
        base: stream offset of ``data[0]``.
        first: number of the first.
        last: number after the last.
        framed: the lengths of the frames that contain these; if empty, `lengths`.

    Returns:
        The first frame not done, and what became of it: `GOOD` when all are done.
    """
    index: cython.Py_ssize_t = first
    state: cython.int = GOOD
    pos: cython.longlong
    size: cython.longlong
    offset: cython.longlong
    rows: FieldRows = walk.rows
    total: cython.longlong = data.shape[0]
    if total == 0 or first < 0 or last > starts.shape[0] or last > lengths.shape[0]:
        return index, GOOD if first >= last else BAD
    if (offsets.shape[0] and offsets.shape[0] < last) or (times.shape[0] and times.shape[0] < last):
        return index, BAD
    if framed.shape[0] and framed.shape[0] < last:
        return index, BAD
    start = cython.address(data[0]) if cython.compiled else data
    with cython.nogil:
        while index < last:
            pos = starts[index]
            size = lengths[index]
            walk.mark()
            if pos < 0 or pos > total or not room(pos, total, size):
                state = BAD
            else:
                state = (
                    payload_rows(walk, rows, start, pos, pos + size)
                    if format == PAYLOAD
                    else one_message(walk, rows, format, start, pos, pos + size, 0)
                )
            if state == GOOD and walk.is_asking:
                state = ASKED
            if state != GOOD:
                walk.back()
                break
            offset = offsets[index] if offsets.shape[0] else pos + base
            walk.commit(
                offset,
                framed[index] if framed.shape[0] else cython.cast(cython.int, size),
                times[index] if times.shape[0] else 0,
            )
            index += 1
    return index, state


def recognised(data, pos, end):
    """The number of the format whose magic a payload starts with; -1 for none."""
    first: cython.uint = be32(data, pos, end)
    if first == TIBMSG_MAGIC and end - pos >= 9:
        return TIBMSG
    if first == QFORM_MAGIC:
        return QFORM
    return TIBRV if be32(data, pos + 4, end) == TIBRV_MAGIC and first >= 8 else -1


def field_payload(walk, rows, data, end, nesting, index, names, name_at, name_end):
    """Append the rows of the messages that fill the data of the field just read, if any do.

    It is at position `index` of a message that ends at `end` and lies in `nesting` others; its name
    is ``names[name_at:name_end]``. Data that has a magic and is not what it says is `BAD`, so that
    the object path can say why.
    """
    pos: cython.Py_ssize_t = walk.data_at
    stop: cython.Py_ssize_t = walk.data_end
    rest: cython.Py_ssize_t = end - walk.field_end
    format: cython.int = recognised(data, pos, stop) if stop - pos >= 8 else -1
    path: cython.int = walk.path
    path_size: cython.int = walk.path_size
    level: cython.Py_ssize_t = walk.message_level
    message_row: cython.Py_ssize_t = walk.message_row
    wide_row: cython.Py_ssize_t = walk.wide_row
    header: cython.Py_ssize_t = walk.header
    field_end: cython.Py_ssize_t = walk.field_end
    state: cython.int
    if format < 0:
        return GOOD
    state = walk.step(walk.name, names, name_at, name_end, index)
    if state == GOOD:
        state = filled_rows(walk, rows, format, data, pos, stop, nesting + 1)
    walk.path = path
    walk.path_size = path_size
    walk.message_level = level
    walk.message_row = message_row
    walk.wide_row = wide_row
    walk.header = header
    walk.field_end = field_end
    if state == GOOD and not rows.reserve(rest):
        walk.need_bytes = rest
        return walk.refuse(NEED_TEXT)
    return state


def filled_rows(walk, rows, format, data, pos, end, nesting):
    """Append the rows of the messages that fill ``data[pos:end]``, which is not empty."""
    level_base: cython.Py_ssize_t = walk.level_base
    level_top: cython.Py_ssize_t = walk.level_top
    path_size: cython.int = walk.path_size
    number: cython.Py_ssize_t = 0
    size: cython.longlong
    state: cython.int
    walk.nested_bytes += end - pos
    if nesting > MOST_NESTED or walk.nested_bytes > MOST_NESTED_BYTES:
        return BAD
    while pos < end:
        size = be32(data, pos, end)
        if format == TIBMSG:
            size = 9 + cython.cast(cython.longlong, be32(data, pos + 5, end))
        elif format == QFORM:
            size = 8 + cython.cast(cython.longlong, be32(data, pos + 4, end))
        walk.path_size = path_size
        if number or size != end - pos:
            walk.suffix(False, number)
        state = walk.settle()
        if state != GOOD:
            return state
        walk.level_base = walk.level_top
        state = one_message(walk, rows, format, data, pos, end, nesting)
        if state != GOOD:
            return state
        walk.level_base = level_base
        walk.level_top = level_top
        pos = walk.message_end
        number += 1
    return GOOD


def payload_rows(walk, rows, data, pos, end):
    """Append the rows of the messages that fill a payload of a transport, if any do."""
    format: cython.int = recognised(data, pos, end) if end - pos >= 8 else -1
    return GOOD if format < 0 else filled_rows(walk, rows, format, data, pos, end, 1)


def recognised_payloads(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    sizes: cython.const[cython.int][::1],
    first: cython.int,
    frames: cython.int[::1],
    places: cython.longlong[::1],
    lengths: cython.int[::1],
) -> int:
    """Find the payloads that start with the magic of a message; return how many there are.

    Args:
        data: what holds the payloads.
        starts: where each starts.
        sizes: one more than the bytes of each, or 0.
        first: number of the first one's frame.
        frames: gets the frame of each that is found,
        places: where it starts,
        lengths: and its bytes.
    """
    index: cython.Py_ssize_t
    found: cython.Py_ssize_t = 0
    pos: cython.longlong
    size: cython.longlong
    total: cython.longlong = data.shape[0]
    if total == 0:
        return 0
    start = cython.address(data[0]) if cython.compiled else data
    with cython.nogil:
        for index in range(len(starts)):
            pos = starts[index]
            size = cython.cast(cython.longlong, sizes[index]) - 1
            if size < 8 or pos < 0 or pos > total or not room(pos, total, size):
                continue
            if recognised(start, pos, pos + size) >= 0:
                frames[found] = first + cython.cast(cython.int, index)
                places[found] = pos
                lengths[found] = cython.cast(cython.int, size)
                found += 1
    return found
