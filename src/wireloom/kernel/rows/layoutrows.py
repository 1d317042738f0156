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
from wireloom.kernel.walk.decimals import HINT_BLANK
from wireloom.kernel.walk.fastfields import put_hinted_string, quick_decimal
from wireloom.kernel.walk.fields import wide_state
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
from wireloom.kernel.walk.layouts import LONGEST_TEXT
from wireloom.kernel.walk.scalars import put_date_text, put_time_text, signed_of, unsigned_of
from wireloom.kernel.walk.walk import GOOD

__all__: list[str] = []

NO_LAYOUT = cython.declare(cython.int, -1)

# The bits of a place that hold its row, its segment, where it is in that, and the size of a number;
# the plan is in the lowest bits.
P_ROW = cython.declare(cython.int, 8)
P_AT = cython.declare(cython.int, 16)
P_SEGMENT = cython.declare(cython.int, 32)
P_SIZE = cython.declare(cython.int, 40)


def copy_facts(rows, layouts, slot, row, count, has_hints):
    """What the rows have in common with those of the last message of that layout."""
    first: cython.Py_ssize_t = slot * layouts.most
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


def begin_of(layouts, place):
    """Where the value of a place begins in the message found last."""
    return layouts.begins[place >> P_SEGMENT & 0xFF] + (place >> P_AT & 0xFFFF)


def put_decimals(rows, layouts, places, count, start, data, end):
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
        at = begin_of(layouts, place)
        bits = be64(data, at, end)
        hint = u8(data, at + 10, end)
        if hint < 16 or hint > 31 or not quick_decimal(rows, bits, hint):
            return False
        rows.hint[row] = hint
        rows.value_real[row] = bits
        rows.value_decimal[2 * row] = rows.decimal_low
        rows.value_decimal[2 * row + 1] = rows.decimal_high
    return True


def put_numbers(rows, layouts, places, count, start, data):
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
        at = begin_of(layouts, place)
        stop = at + (place >> P_SIZE)
        if plan == PLAN_INT:
            rows.value_int[row] = signed_of(data, at, stop)
        elif plan == PLAN_REAL:
            rows.value_real[row] = be64(data, at, stop)
        else:
            bits = unsigned_of(data, at, stop)
            if bits >> 63:
                return False
            rows.value_int[row] = cython.cast(cython.longlong, bits)
    return True


def put_texts(walk, rows, layouts, slot, places, texts, start, count, data, end):
    """Texts, and the dates and times that they state; False if one is rare.

    There are so many `texts` in `count` rows. Whole words are written; the next text overwrites
    what is after this one.
    """
    first: cython.Py_ssize_t = slot * layouts.most
    place: cython.ulonglong
    row: cython.Py_ssize_t
    done: cython.Py_ssize_t = start
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    size: cython.int
    text: cython.int = cython.cast(cython.int, rows.text_used)
    i: cython.Py_ssize_t
    hint: cython.longlong
    mask: cython.int
    is_plain: cython.bint
    for i in range(texts):
        place = places[i]
        row = place >> P_ROW & 0xFF
        hint = layouts.hint[first + row]
        row += start
        at = begin_of(layouts, place)
        size = cython.cast(cython.int, u8(data, at - 1, end))
        stop = at + size - 1
        if cython.compiled:
            is_plain = copy_short(cython.address(rows.text[0]), text, data, at, stop, end)
        else:
            is_plain = copy_short(rows.text, text, data, at, stop, end)
        if not is_plain:
            return False
        while done < row:
            done += 1
            rows.text_ends[done] = text
        text += size - 1
        rows.size[row] = size
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
    while done < start + count:
        done += 1
        rows.text_ends[done] = text
    return True


def has_layouts(walk, rows):
    """Whether messages are read by their layouts: into rows of all usual columns, or wide ones."""
    return walk.has_wide != rows.keeps and (walk.has_wide or rows.is_whole)


def repeated_message(walk, rows, layouts, data, pos, end, most):
    """Read the fields ``data[pos:end]`` of a message by its layout; `NO_LAYOUT` if it cannot."""
    state: cython.int = NO_LAYOUT
    if not has_layouts(walk, rows):
        return NO_LAYOUT
    if walk.has_wide:
        state = repeated_cells(walk, rows, layouts, data, pos, end, most)
    else:
        walk.fields_read = repeated_rows(walk, rows, layouts, data, pos, end, most)
        if walk.fields_read:
            state = GOOD
    if state == GOOD:
        state = walk.close(end, cython.cast(cython.int, walk.fields_read), 0)
    return state


def repeated_rows(walk, rows, layouts, data, pos, end, most):
    """Append the rows of the fields ``data[pos:end]``, at most `most` of them; 0 if it cannot."""
    slot: cython.Py_ssize_t = layouts.find(data, pos, end)
    start: cython.Py_ssize_t = rows.count
    row: cython.Py_ssize_t
    count: cython.Py_ssize_t
    decimals: cython.Py_ssize_t
    numbers: cython.Py_ssize_t
    texts: cython.Py_ssize_t
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
    if not put_decimals(rows, layouts, places, decimals, start, data, end):
        return 0
    places = places + decimals if cython.compiled else places[decimals:]
    if not put_numbers(rows, layouts, places, numbers, start, data):
        return 0
    places = places + numbers if cython.compiled else places[numbers:]
    texts = count - decimals - numbers
    if not put_texts(walk, rows, layouts, slot, places, texts, start, count, data, end):
        return 0
    rows.seen |= layouts.seen[slot]
    rows.text_used = rows.text_ends[start + count]
    if walk.path:
        for row in range(start, start + count):
            rows.keys.set_path(row, walk.path)
    rows.count = start + count
    return count


def repeated_cells(walk, rows, layouts, data, pos, end, most):
    """Set the wide cells of the fields ``data[pos:end]``, where rows are not kept.

    `NO_LAYOUT` if it cannot, and nothing is set; `walk.fields_read` is how many fields there are.
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
        at = begin_of(layouts, place)
        if place & 0xFF == PLAN_UINT and unsigned_of(data, at, at + (place >> P_SIZE)) >> 63:
            return NO_LAYOUT
    for i in range(first, last):
        place = layouts.places[i]
        plan = place & 0xFF
        at = begin_of(layouts, place)
        stop = at + (place >> P_SIZE)
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
            state = put_hinted_string(
                walk, rows, data, at, at + u8(data, at - 1, end), end, max(0, hint)
            )
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
        state = wide_state(walk, rows, name, data, at)
        rows.text_used = 0
        rows.binary_used = 0
        if state != GOOD:
            return state
    walk.fields_read = layouts.counts[slot]
    return GOOD


def keep_layout(walk, layouts, rows, headers, data, pos, end, count):
    """Keep the layout of a message that was just read, if it has nothing rare."""
    slot: cython.Py_ssize_t
    is_kept: cython.bint
    columns: cython.int = 0 if rows.keeps else cython.cast(cython.int, walk.wide.columns)
    if has_layouts(walk, rows) and count <= layouts.most and layouts.is_due(data, pos, end):
        slot = layouts.start(data, pos, end)
        is_kept = learn(layouts, slot, rows, headers, data, pos, end, count, columns)
        if is_kept and layouts.has_twin(pos):
            is_kept = learn(layouts, slot, rows, headers, data, pos, end, count, columns)
        if is_kept:
            put_places(layouts, slot, count, columns)
            layouts.finish(data, end, count)
        else:
            layouts.give_up()


def learn(layouts, slot, rows, headers, data, pos, end, count, columns):
    """What the rows of a message have in common with those of the next ones like it.

    False if it has something rare. The place of every value is put in `new_places`; with `columns`,
    only if the number of the field's name is below that.
    """
    first: cython.Py_ssize_t = slot * layouts.most
    header: cython.Py_ssize_t
    record: cython.Py_ssize_t = 0
    facts: cython.ulonglong
    plan: cython.int
    mask: cython.int
    size: cython.Py_ssize_t
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    i: cython.Py_ssize_t
    place: cython.ulonglong
    layouts.seen[slot] = 0
    for i in range(count):
        header = headers.records[record + H_NEXT]
        record = H_WORDS * header
        facts = headers.records[record + H_FACTS]
        plan = facts & 0xFF
        size = facts >> F_SIZE & 0xFF
        mask = facts >> F_NAMED & 1
        at = pos + (facts >> F_HEADER & 0xFF)
        stop = at + size
        if plan == PLAN_NONE or headers.fid[header] >= 0:
            return False
        if not headers.is_at(record, facts, data, pos, end):
            return False
        layouts.cover(data, pos, at)
        layouts.hint[first + i] = 0
        if plan >= PLAN_STRING:
            size = u8(data, at, end)
            at += 1
            stop = at + size
            if size == 0 or size > LONGEST_TEXT or stop > end or u8(data, stop - 1, end):
                return False
        place = size if plan < PLAN_STRING else 0
        place = place << P_SIZE - P_SEGMENT | layouts.made
        place = place << P_SEGMENT - P_AT | (at - layouts.begin)
        place = place << P_AT - P_ROW | i
        layouts.new_places[i] = place << P_ROW | plan
        if columns and not 0 <= headers.name[header] < columns:
            layouts.new_places[i] = 0
        pos = stop
        if plan == PLAN_DECIMAL:
            if be16(data, stop, end) != 0x0601:
                return False
            layouts.cover(data, stop, stop + 2)
            mask |= V_REAL | V_DECIMAL | V_HINT
            pos = stop + 3
        elif plan < PLAN_STRING:
            mask |= V_REAL if plan == PLAN_REAL else V_INT
        else:
            # A text with a hint is a date or a time, whose size does not vary.
            layouts.cover_text(data, at - 1, end, plan == PLAN_HINTED)
            mask |= V_TEXT
            if plan == PLAN_HINTED:
                if end - stop < 4 or be16(data, stop, end) != 0x0602:
                    return False
                layouts.hint[first + i] = be16(data, stop + 2, end)
                layouts.cover(data, stop, stop + 4)
                mask |= V_HINT
                pos = stop + 4
        mask &= rows.want
        layouts.seen[slot] |= mask
        layouts.low[first + i] = mask & 0xFF
        layouts.high[first + i] = mask >> 8
        layouts.name[first + i] = max(0, headers.name[header])
        layouts.type[first + i] = facts >> F_TYPE & 0xFF
        layouts.size[first + i] = cython.cast(cython.int, size)
    return pos == end


def put_places(layouts, slot, count, columns):
    """Put the places of a new layout in their order: decimals, other numbers, texts.

    For `columns` all are in the middle, in the order of the fields.
    """
    first: cython.Py_ssize_t = slot * layouts.most
    used: cython.Py_ssize_t = first
    i: cython.Py_ssize_t
    group: cython.int
    turn: cython.int
    plan: cython.uint
    for group in range(3):
        if group == 1:
            layouts.decimals[slot] = cython.cast(cython.int, used - first)
        elif group == 2:
            layouts.numbers[slot] = cython.cast(cython.int, used - first - layouts.decimals[slot])
        for i in range(count):
            plan = layouts.new_places[i] & 0xFF
            if columns:
                turn = 1
            else:
                turn = 0 if plan == PLAN_DECIMAL else 1 if plan < PLAN_STRING else 2
            if turn == group and plan != PLAN_NONE:
                layouts.places[used] = layouts.new_places[i]
                used += 1
