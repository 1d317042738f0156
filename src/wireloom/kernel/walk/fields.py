"""What the walkers do with every field, whatever the format: its row and its wide cell."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.rows.widerows import _ASKED, _TEXT_ROOM, _TOO_MUCH
from wireloom.kernel.walk.walk import BAD, GOOD, NEED_ROWS, NEED_WIDE_TEXT

__all__: list[str] = []


def begin_field(walk, rows, name, index, type, size):
    """Note a field's name, and start its row if `walk.is_read`: if it is wanted anywhere."""
    walk.name = name
    walk.level_names[walk.level_top] = name
    walk.level_top += 1
    walk.is_chosen = (
        walk.has_wide and walk.level == walk.message_level and 0 <= name < walk.wide.columns
    )
    walk.is_read = rows.keeps or walk.is_chosen
    if walk.is_read:
        if rows.count >= rows.capacity:
            return walk.refuse(NEED_ROWS)
        rows.begin(index, type, cython.cast(cython.int, size), name)
        if walk.path:
            rows.keys.set_path(rows.count, walk.path)
    return GOOD


def end_field(walk, rows, data):
    """Finish the row that was started, and put it into its wide cell."""
    state: cython.int = GOOD
    if walk.is_chosen:
        state = wide_state(walk, rows, walk.name, data, walk.data_at)
    if state == GOOD:
        rows.end()
    return state


def wide_state(walk, rows, column, data, pos):
    """Put the field just read into its wide cell; return how to go on."""
    result: cython.int = walk.wide.put(walk.wide_row, column, rows, data, pos)
    if result < _TEXT_ROOM:
        return GOOD
    if result == _ASKED:
        walk.is_asking = True
        return GOOD
    if result == _TOO_MUCH:
        return BAD
    walk.need_bytes = rows.text_used + rows.binary_used
    return walk.refuse(NEED_WIDE_TEXT)
