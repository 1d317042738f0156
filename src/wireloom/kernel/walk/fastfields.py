"""The fast path (`known_fields`): runs of fields seen before, read with few instructions.

What a field is follows from its header's record (`HeaderCache`), not from its bytes. The fast path
stops before the first field that differs from the record, or that is rare; the walker reads that
one and returns here. It checks what the walkers check and gives the same rows.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be16, be64, u8
from wireloom.kernel.rows.fieldrows import (
    V_BLANK,
    V_DECIMAL,
    V_FID,
    V_HINT,
    V_INT,
    V_REAL,
)
from wireloom.kernel.walk.decimals import HINT_BLANK, as_bits, as_double, as_signed
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
from wireloom.kernel.walk.names import high_product
from wireloom.kernel.walk.scalars import put_date_text, put_time_text, signed_of, unsigned_of
from wireloom.kernel.walk.walk import BAD, GOOD

__all__: list[str] = []

_QUICK_SURE = cython.declare(cython.double, 2251799813685248.0)
_QUICK_SHIFT = cython.declare(cython.double, 6755399441055744.0)
"""3 * 2**51."""
_QUICK_SHIFT_BITS = cython.declare(cython.longlong, 0x4338000000000000)
_QUICK_ALL = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_QUICK_LONGEST = cython.declare(cython.uint, 0x79)
"""From here on, this byte is not the size of a TibrvMsg string."""


def quick_decimal(rows, bits, hint):
    """See `FieldRows.decimal`; quicker in the usual case of `Wide.scaled`."""
    value: cython.double
    shifted: cython.double
    off: cython.double
    units: cython.longlong
    low: cython.ulonglong
    power: cython.ulonglong
    if 16 <= hint <= 31:
        value = as_double(bits) * rows.wide.reals[hint - 16]
        if -_QUICK_SURE < value < _QUICK_SURE:
            # A double this large has no fraction, and its low bits are the number.
            shifted = value + _QUICK_SHIFT
            off = value - (shifted - _QUICK_SHIFT)
            if -0.25 < off < 0.25:
                units = as_signed(as_bits(shifted)) - _QUICK_SHIFT_BITS
                low = cython.cast(cython.ulonglong, units) & _QUICK_ALL
                power = rows.wide.powers[31 - hint]
                rows.decimal_high = (
                    high_product(low, power) - (power if units < 0 else 0) & _QUICK_ALL
                )
                rows.decimal_low = low * power & _QUICK_ALL
                return True
    elif hint > 8:
        return False
    return rows.decimal(bits, cython.cast(cython.int, hint), False)


def known_fields(walk, rows, headers, data, pos, end, index, most):
    """Read fields from `pos` on; return where it stopped.

    They start at position `index` of their message, behind a field with the header `walk.header`;
    at most `most` are read. `walk.header`, `next_header` and `fields_read` say what was found.
    """
    header: cython.Py_ssize_t = walk.header
    record: cython.Py_ssize_t = H_WORDS * header
    next: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t = rows.count
    top: cython.Py_ssize_t = walk.level_top
    first: cython.Py_ssize_t = top
    size: cython.Py_ssize_t
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    facts: cython.ulonglong
    plan: cython.uint
    type: cython.int
    mask: cython.int
    name: cython.int
    hint: cython.longlong
    number: cython.longlong
    bits: cython.ulonglong
    low: cython.ulonglong
    high: cython.ulonglong
    has_fids: cython.bint = headers.has_fids
    is_chosen: cython.bint = False
    is_read: cython.bint = rows.keeps
    # Whether a row has more than the columns written here.
    is_more: cython.bint = walk.has_wide or walk.path != 0 or not rows.keeps or not rows.is_full
    if rows.keeps:
        most = min(most, rows.capacity - row)
    most += top
    while top < most:
        next = headers.records[record + H_NEXT]
        record = H_WORDS * next
        facts = headers.records[record + H_FACTS]
        if not headers.is_at(record, facts, data, pos, end):
            next = headers.next_of(header, data, pos, end)
            if next == 0:
                break
            record = H_WORDS * next
            facts = headers.records[record + H_FACTS]
        plan = facts & 0xFF
        size = facts >> F_SIZE & 0xFF
        type = facts >> F_TYPE & 0xFF
        mask = facts >> F_NAMED & 1
        name = headers.name[next]
        at = pos + (facts >> F_HEADER & 0xFF)
        stop = at + size
        hint = 0
        number = 0
        bits = 0
        low = 0
        high = 0
        if is_more:
            is_chosen = (
                walk.has_wide and walk.level == walk.message_level and 0 <= name < walk.wide.columns
            )
            is_read = rows.keeps or is_chosen
        if plan == PLAN_DECIMAL:
            if be16(data, stop, end) != 0x0601:
                break
            hint = u8(data, stop + 2, end)
            bits = be64(data, at, stop)
            stop += 3
            mask |= V_HINT | V_REAL
            if hint == HINT_BLANK:
                mask ^= V_BLANK | V_REAL
                bits = 0
            elif rows.want & V_DECIMAL and quick_decimal(rows, bits, hint):
                mask |= V_DECIMAL
                low = rows.decimal_low
                high = rows.decimal_high
        elif plan == PLAN_INT:
            number = signed_of(data, at, stop)
            mask |= V_INT
        elif plan == PLAN_REAL:
            bits = be64(data, at, stop)
            mask |= V_REAL
        elif plan == PLAN_UINT:
            bits = unsigned_of(data, at, stop)
            if bits >> 63:
                break
            number = cython.cast(cython.longlong, bits)
            bits = 0
            mask |= V_INT
        elif plan == PLAN_NONE:
            break
        else:
            size = u8(data, at, end)
            at += 1
            stop = at + size
            if stop > end or (size >= _QUICK_LONGEST and has_fids):
                break
            if plan == PLAN_HINTED:
                if end - stop < 4 or be16(data, stop, end) != 0x0602:
                    break
                hint = be16(data, stop + 2, end)
                mask |= V_HINT
            if is_read:
                rows.count = row
                if put_hinted_string(walk, rows, data, at, stop, end, hint) != GOOD:
                    break
                mask |= rows.mask
            if plan == PLAN_HINTED:
                stop += 4
        walk.level_names[top] = name
        if is_more:
            rows.count = row
            if is_read:
                rows.put_values(row, mask, number, bits, low, high, hint)
            if is_chosen:
                rows.mask = mask
                rows.real_bits = bits
                rows.real_hint = cython.cast(cython.int, hint) if mask & V_HINT else -1
                rows.real_single = False
                if plan < PLAN_STRING:
                    rows.text_stop = -1
                if wide_state(walk, rows, name, data, at) != GOOD:
                    if plan >= PLAN_STRING:
                        rows.text_used = rows.text_start
                        rows.binary_used = rows.binary_start
                    break
            if not rows.keeps:
                rows.text_used = 0
                rows.binary_used = 0
            elif walk.path:
                rows.keys.set_path(row, walk.path)
        else:
            rows.put_full_values(row, number, bits, low, high, hint)
        if rows.keeps:
            if has_fids and headers.fid[next] >= 0:
                rows.count = row
                rows.put_fid(headers.fid[next])
                mask |= V_FID
            rows.put_facts(row, index, type, cython.cast(cython.int, size), name, mask)
            row += 1
        top += 1
        header = next
        next = 0
        pos = stop
        index += 1
        if pos == end:
            break
    rows.count = row
    walk.fields_read = top - first
    walk.level_top = top
    walk.header = header
    walk.next_header = next
    return pos


def put_hinted_string(walk, rows, data, pos, stop, end, hint):
    """Put a string, and the date or time that its hint says it is; `rows.mask` is its own."""
    rows.mask = 0
    rows.text_start = rows.text_used
    rows.binary_start = rows.binary_used
    rows.put_string(data, pos, stop, end)
    if hint >= 256:
        if hint == 256 or hint == 258:
            if put_date_text(walk, rows, data, pos, rows.text_stop) != GOOD:
                rows.text_used = rows.text_start
                rows.binary_used = rows.binary_start
                return BAD
        elif hint < 261:
            put_time_text(rows, data, pos, rows.text_stop)
    return GOOD
