"""Rows of messages whose layout has been seen before (`Layouts`).

The columns that describe a field are copied, and values are read from the same positions as last
time. Anything that differs, or is rare, makes it give up; then the message is read field by field.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be16, be64, copy_short, u8
from wireloom.kernel.rows.fieldrows import (
    V_BLANK,
    V_DECIMAL,
    V_HINT,
    V_INT,
    V_NAME,
    V_REAL,
    V_TEXT,
)
from wireloom.kernel.shim import later
from wireloom.kernel.walk.decimals import HINT_BLANK
from wireloom.kernel.walk.fastfields import lane_decimal, lane_string
from wireloom.kernel.walk.headercache import (
    F_HEADER,
    F_NAMED,
    F_SIZE,
    F_TYPE,
    H_FACTS,
    H_NEXT,
    H_WORDS,
    PLAN_DECIMAL,
    PLAN_HINTED,
    PLAN_INT,
    PLAN_NONE,
    PLAN_REAL,
    PLAN_STRING,
    PLAN_UINT,
)
from wireloom.kernel.walk.scalars import put_date_text, put_time_text, signed_of, unsigned_of
from wireloom.kernel.walk.walk import GOOD

__all__: list[str] = []

wide_state = later("walk.messages", "wide_state")

NO_LAYOUT = cython.declare(cython.int, -1)

# The bits of a place that hold its row and its bytes; the plan is in the lowest bits.
P_ROW = cython.declare(cython.int, 8)
P_AT = cython.declare(cython.int, 16)
P_STOP = cython.declare(cython.int, 32)

_LONGEST_TEXT = cython.declare(cython.Py_ssize_t, 64)


def copy_facts(rows, layouts, slot, row, count, has_hints):
    """What the rows have in common with those of the last message of that layout."""
    first: cython.Py_ssize_t = slot * layouts.most
    text: cython.int = cython.cast(cython.int, rows.text_used)
    i: cython.Py_ssize_t
    if cython.compiled:
        memcpy(cython.address(rows.position[row]), cython.address(layouts.position[0]), 4 * count)
        memcpy(cython.address(rows.name[row]), cython.address(layouts.name[first]), 4 * count)
        memcpy(cython.address(rows.size[row]), cython.address(layouts.size[first]), 4 * count)
        memcpy(cython.address(rows.type[row]), cython.address(layouts.type[first]), count)
        memcpy(cython.address(rows.low[row]), cython.address(layouts.low[first]), count)
        memcpy(cython.address(rows.high[row]), cython.address(layouts.high[first]), count)
        memset(cython.address(rows.value_int[row]), 0, 8 * count)
        memset(cython.address(rows.value_real[row]), 0, 8 * count)
        if has_hints:
            memcpy(cython.address(rows.hint[row]), cython.address(layouts.hint[first]), 8 * count)
            memset(cython.address(rows.value_decimal[2 * row]), 0, 16 * count)
    else:
        for i in range(count):
            rows.position[row + i] = i
            rows.name[row + i] = layouts.name[first + i]
            rows.size[row + i] = layouts.size[first + i]
            rows.type[row + i] = layouts.type[first + i]
            rows.low[row + i] = layouts.low[first + i]
            rows.high[row + i] = layouts.high[first + i]
            rows.value_int[row + i] = 0
            rows.value_real[row + i] = 0
            if has_hints:
                rows.hint[row + i] = layouts.hint[first + i]
                rows.value_decimal[2 * (row + i)] = 0
                rows.value_decimal[2 * (row + i) + 1] = 0
    for i in range(count):
        rows.text_ends[row + i + 1] = text + layouts.text_end[first + i]


def put_decimals(rows, places, count, start, data, pos, end):
    """Reals with a hint that makes them decimals; False if one is not a decimal."""
    place: cython.ulonglong
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    i: cython.Py_ssize_t
    hint: cython.longlong
    bits: cython.ulonglong
    for i in range(count):
        place = places[i]
        row = start + (place >> P_ROW & 0xFF)
        at = pos + (place >> P_AT & 0xFFFF)
        bits = be64(data, at, end)
        hint = u8(data, at + 10, end)
        if hint < 16 or hint > 31 or not lane_decimal(rows, bits, hint):
            return False
        rows.hint[row] = hint
        rows.value_real[row] = bits
        rows.value_decimal[2 * row] = rows.decimal_low
        rows.value_decimal[2 * row + 1] = rows.decimal_high
    return True


def put_numbers(rows, places, count, start, data, pos, end):
    """Other numbers; False if one is rare."""
    place: cython.ulonglong
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    i: cython.Py_ssize_t
    plan: cython.uint
    bits: cython.ulonglong
    for i in range(count):
        place = places[i]
        plan = place & 0xFF
        row = start + (place >> P_ROW & 0xFF)
        at = pos + (place >> P_AT & 0xFFFF)
        stop = pos + (place >> P_STOP)
        if plan == PLAN_INT:
            rows.value_int[row] = signed_of(data, at, stop)
        elif plan == PLAN_REAL:
            rows.value_real[row] = be64(data, at, end)
        else:
            bits = unsigned_of(data, at, stop)
            if bits >> 63:
                return False
            rows.value_int[row] = cython.cast(cython.longlong, bits)
    return True


def put_texts(walk, rows, layouts, slot, places, count, start, data, pos, end):
    """Texts, and the dates and times that they state; False if one is rare.

    Whole words are written; the next text overwrites what is after this one.
    """
    first: cython.Py_ssize_t = slot * layouts.most
    place: cython.ulonglong
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    text: cython.Py_ssize_t
    i: cython.Py_ssize_t
    hint: cython.longlong
    mask: cython.int
    is_plain: cython.bint
    for i in range(count):
        place = places[i]
        row = place >> P_ROW & 0xFF
        hint = layouts.hint[first + row]
        row += start
        at = pos + (place >> P_AT & 0xFFFF)
        stop = pos + (place >> P_STOP)
        text = rows.text_ends[row + 1] - (stop - at)
        if cython.compiled:
            is_plain = copy_short(cython.address(rows.text[0]), text, data, at, stop, end)
        else:
            is_plain = copy_short(rows.text, text, data, at, stop, end)
        if not is_plain:
            return False
        if 256 <= hint < 261:
            rows.count = row
            rows.mask = 0
            if hint != 256 and hint != 258:
                put_time_text(rows, data, at, stop)
            elif put_date_text(walk, rows, data, at, stop) != GOOD:
                rows.count = start
                return False
            rows.count = start
            mask = rows.mask & rows.want
            rows.low[row] |= mask & 0xFF
            rows.high[row] |= mask >> 8
            rows.seen |= mask
    return True


def repeated_rows(walk, rows, layouts, data, pos, end, most):
    """Append the rows of the fields ``data[pos:end]``, at most `most` of them; 0 if it cannot."""
    slot: cython.Py_ssize_t = layouts.find(data, pos, end)
    start: cython.Py_ssize_t = rows.count
    row: cython.Py_ssize_t
    count: cython.Py_ssize_t
    decimals: cython.Py_ssize_t
    numbers: cython.Py_ssize_t
    has_hints: cython.bint = rows.dense & V_HINT
    if slot < 0:
        return 0
    count = layouts.counts[slot]
    if count > most or count > rows.capacity - start:
        return 0
    if layouts.seen[slot] & V_HINT and not has_hints:
        return 0
    decimals = layouts.decimals[slot]
    numbers = layouts.numbers[slot]
    if decimals and not has_hints:
        return 0
    copy_facts(rows, layouts, slot, start, count, has_hints)
    if cython.compiled:
        places = cython.address(layouts.places[slot * layouts.most])
    else:
        places = layouts.places[slot * layouts.most :]
    if not put_decimals(rows, places, decimals, start, data, pos, end):
        return 0
    places = places + decimals if cython.compiled else places[decimals:]
    if not put_numbers(rows, places, numbers, start, data, pos, end):
        return 0
    places = places + numbers if cython.compiled else places[numbers:]
    count -= decimals + numbers
    if not put_texts(walk, rows, layouts, slot, places, count, start, data, pos, end):
        return 0
    count += decimals + numbers
    rows.seen |= layouts.seen[slot]
    rows.text_used = rows.text_ends[start + count]
    if walk.path:
        for row in range(start, start + count):
            rows.keys.set_path(row, walk.path)
    rows.count = start + count
    return count


def repeated_cells(walk, rows, layouts, data, pos, end, most, wide_row):
    """Set the wide cells of the fields ``data[pos:end]``, where rows are not kept.

    `NO_LAYOUT` if it cannot, and nothing is set; `walk.lane_count` is how many fields there are.
    """
    slot: cython.Py_ssize_t = layouts.find(data, pos, end)
    first: cython.Py_ssize_t
    last: cython.Py_ssize_t
    place: cython.ulonglong
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    i: cython.Py_ssize_t
    plan: cython.uint
    name: cython.int
    mask: cython.int
    state: cython.int
    hint: cython.longlong
    number: cython.longlong
    bits: cython.ulonglong
    if slot < 0 or layouts.counts[slot] > most:
        return NO_LAYOUT
    first = slot * layouts.most
    last = first + layouts.numbers[slot]
    for i in range(first, last):
        place = layouts.places[i]
        at = pos + (place >> P_AT & 0xFFFF)
        if place & 0xFF == PLAN_UINT and unsigned_of(data, at, pos + (place >> P_STOP)) >> 63:
            return NO_LAYOUT
    for i in range(first, last):
        place = layouts.places[i]
        plan = place & 0xFF
        at = pos + (place >> P_AT & 0xFFFF)
        stop = pos + (place >> P_STOP)
        name = layouts.name[first + (place >> P_ROW & 0xFF)]
        mask = V_NAME
        hint = -1
        number = 0
        bits = 0
        if plan == PLAN_DECIMAL:
            hint = u8(data, stop + 2, end)
            mask |= V_HINT
            if hint == HINT_BLANK:
                mask |= V_BLANK
            else:
                mask |= V_REAL
                bits = be64(data, at, stop)
        elif plan == PLAN_INT:
            number = signed_of(data, at, stop)
            mask |= V_INT
        elif plan == PLAN_REAL:
            bits = be64(data, at, stop)
            mask |= V_REAL
        elif plan == PLAN_UINT:
            number = cython.cast(cython.longlong, unsigned_of(data, at, stop))
            mask |= V_INT
        else:
            if plan == PLAN_HINTED:
                hint = layouts.hint[first + (place >> P_ROW & 0xFF)]
                mask |= V_HINT
            state = lane_string(walk, rows, data, at, stop + 1, end, max(0, hint))
            if state != GOOD:
                return state
            mask |= rows.mask
        rows.put_values(0, mask, number, bits, 0, 0, max(0, hint))
        rows.mask = mask
        rows.real_bits = bits
        rows.real_hint = cython.cast(cython.int, hint)
        rows.real_single = False
        if plan < PLAN_STRING:
            rows.text_stop = -1
        state = wide_state(walk, rows, wide_row, name, data, at)
        rows.text_used = 0
        rows.binary_used = 0
        if state != GOOD:
            return state
    walk.lane_count = layouts.counts[slot]
    return GOOD


def keep_layout(walk, layouts, rows, shapes, data, pos, end, count):
    """Keep the layout of a message that was just read, if it has nothing rare."""
    slot: cython.Py_ssize_t
    columns: cython.int = 0 if rows.keeps else cython.cast(cython.int, walk.wide.columns)
    if count <= layouts.most and layouts.is_due(end - pos):
        slot = layouts.start(data, pos, end)
        if learn(layouts, slot, rows, shapes, data, pos, end, count, columns):
            layouts.finish(slot, end - pos, count)
        else:
            layouts.give_up(slot)


def learn(layouts, slot, rows, shapes, data, pos, end, count, columns):
    """What the rows of a message have in common with those of the next ones like it.

    With `columns`, only fields whose name has a number below it get a place, in their order.
    """
    start: cython.Py_ssize_t = pos
    first: cython.Py_ssize_t = slot * layouts.most
    used: cython.Py_ssize_t = first
    header: cython.Py_ssize_t
    record: cython.Py_ssize_t
    facts: cython.ulonglong
    plan: cython.int
    mask: cython.int
    size: cython.Py_ssize_t
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    text: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    group: cython.int
    turn: cython.int
    place: cython.ulonglong
    layouts.seen[slot] = 0
    for group in range(3):
        if group == 1:
            layouts.decimals[slot] = cython.cast(cython.int, used - first)
        elif group == 2:
            layouts.numbers[slot] = cython.cast(cython.int, used - first - layouts.decimals[slot])
        record = 0
        pos = start
        for i in range(count):
            header = shapes.records[record + H_NEXT]
            record = H_WORDS * header
            facts = shapes.records[record + H_FACTS]
            plan = facts & 0xFF
            size = facts >> F_SIZE & 0xFF
            mask = facts >> F_NAMED & 1
            at = pos + (facts >> F_HEADER & 0xFF)
            stop = at + size
            if plan == PLAN_NONE or shapes.fid[header] >= 0:
                return False
            if not shapes.is_at(record, facts, data, pos, end):
                return False
            layouts.cover(slot, pos - start, at - start)
            layouts.hint[first + i] = 0
            turn = 1
            if plan == PLAN_DECIMAL:
                turn = 0
                pos = stop + 3
                if be16(data, stop, end) != 0x0601:
                    return False
                layouts.cover(slot, stop - start, stop + 2 - start)
                mask |= V_REAL | V_DECIMAL | V_HINT
            elif plan < PLAN_STRING:
                pos = stop
                mask |= V_REAL if plan == PLAN_REAL else V_INT
            else:
                turn = 2
                size = u8(data, at, end)
                at += 1
                stop = at + size - 1
                pos = stop + 1
                if size == 0 or size > _LONGEST_TEXT or pos > end or u8(data, stop, end) != 0:
                    return False
                mask |= V_TEXT
                if plan == PLAN_HINTED:
                    mask |= V_HINT
                    if end - pos < 4 or be16(data, pos, end) != 0x0602:
                        return False
                    layouts.hint[first + i] = be16(data, pos + 2, end)
                    pos += 4
                layouts.cover(slot, at - 1 - start, at - start)
                layouts.cover(slot, stop - start, pos - start)
                if group == 0:
                    text += size - 1
            if columns:
                turn = 1 if 0 <= shapes.name[header] < columns else -1
            if turn == group:
                place = stop - start
                place = place << P_STOP - P_AT | (at - start)
                place = place << P_AT - P_ROW | i
                layouts.places[used] = place << P_ROW | plan
                used += 1
            if group == 0:
                mask &= rows.want
                layouts.seen[slot] |= mask
                layouts.low[first + i] = mask & 0xFF
                layouts.high[first + i] = mask >> 8
                layouts.name[first + i] = max(0, shapes.name[header])
                layouts.type[first + i] = facts >> F_TYPE & 0xFF
                layouts.size[first + i] = cython.cast(cython.int, size)
                layouts.text_end[first + i] = cython.cast(cython.int, text)
    return pos == end
