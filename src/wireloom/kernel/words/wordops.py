"""The word kernel's operations, and the program that `wireloom.columnar.program` makes of them."""

from __future__ import annotations

from wireloom.kernel import shim as cython

__all__ = ["WordProgram"]

# Operations. Each is a row of six numbers: its code and its operands (1 to 5).
OP_ROW = cython.declare(cython.int, 6)
OP_LOAD = cython.declare(cython.int, 1)
"""Load the word of so many bytes (2), little-endian if (3), at an offset (1) from the cursor."""
OP_FIT = cython.declare(cython.int, 2)
"""At least so many bytes (1) are left."""
OP_LEAST = cython.declare(cython.int, 3)
"""The word's bits, from a lowest one (1) under a mask (2), are at least a value (3).

For a field that is not a column here. All operations on bits use the first two operands like this.
"""
OP_CONST = cython.declare(cython.int, 4)
"""The bits equal a value (3)."""
OP_CONTENT = cython.declare(cython.int, 5)
"""The bits are the bytes from an offset (3) after the cursor to the end; -1: of the whole frame."""
OP_INT32 = cython.declare(cython.int, 6)
"""The bits, at least (3), go to a column (4)."""
OP_INT64 = cython.declare(cython.int, 7)
OP_NAME = cython.declare(cython.int, 8)
"""The number of their name goes to a column (4), whose list of names is described at (5)."""
OP_FILL = cython.declare(cython.int, 9)
"""A value (3) goes to a 32-bit column (4)."""
OP_KEEP = cython.declare(cython.int, 10)
"""The bits go to a register (3)."""
OP_KEY = cython.declare(cython.int, 11)
"""The bits are part of the index into the flaw table, from bit (3) on."""
OP_KEY_SIZE = cython.declare(cython.int, 12)
"""Whether anything is left is bit (3) of that index."""
OP_FLAW = cython.declare(cython.int, 13)
"""The packet is refused if the table at an index (3) in `maps` says so."""
OP_STEP = cython.declare(cython.int, 14)
"""So many bytes (1) are skipped."""
OP_VARINT = cython.declare(cython.int, 15)
"""A base-128 number of at most (2) bytes goes to a register (3) and is skipped."""
OP_BLOB = cython.declare(cython.int, 16)
"""As many bytes as a number (1) or, if that is negative, a register (2) says go to a blob (4).

Text if (3). Unless (5) is negative, only where the register of its low byte has one of its upper
bits.
"""
OP_ITEMS = cython.declare(cython.int, 17)
"""As many items of so many bytes (1) as a register (2) says go to a blob (4)."""
OP_REST = cython.declare(cython.int, 18)
"""Everything that is left goes to a blob (4)."""
OP_END = cython.declare(cython.int, 19)
"""Nothing is left."""

REGISTERS = cython.declare(cython.int, 4)


@cython.final
@cython.cclass
class WordProgram:
    """What is known about a format: its forms, their operations, and tables of names and flaws."""

    def __init__(
        self,
        selector: memoryview,
        forms: memoryview,
        ops: memoryview,
        firsts: memoryview,
        maps: memoryview,
        lists: memoryview,
    ) -> None:
        """A program.

        Args:
            selector: what chooses a form: a word's place, bytes and order, and the lowest bit and
                mask in it.
            forms: the form of each value of those bits, 255 if there is none.
            ops: the operations of all forms.
            firsts: where each form's start, and where the last one's end.
            maps: names' numbers, and flaws. A number that has no name yet is -1.
            lists: for each list of names, where its map starts and how many names it has, which
                grows with numbers that have none.
        """
        self.selector = selector
        self.forms = forms
        self.ops = ops
        self.firsts = firsts
        self.form_count = len(firsts) - 1
        self.maps = maps
        self.lists = lists
