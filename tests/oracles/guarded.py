"""Memory followed by an unreadable page: reading too far ends the process."""

from __future__ import annotations

import ctypes
import mmap

__all__ = ["Guarded"]


class Guarded:
    """Room for data, with an unreadable page after it."""

    def __init__(self, size: int) -> None:
        """Room for so many bytes.

        Raises:
            OSError: the system does not protect the page.
        """
        page = mmap.PAGESIZE
        self._size = -(-max(size, 1) // page) * page
        self._map = mmap.mmap(-1, self._size + page)
        libc = ctypes.CDLL(None, use_errno=True)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        guard = ctypes.c_void_p(start + self._size)
        if libc.mprotect(guard, ctypes.c_size_t(page), 0):
            raise OSError(ctypes.get_errno(), "a page cannot be protected")

    def place(self, data: bytes) -> memoryview:
        """The data, placed so that its last byte is the last that can be read."""
        at = self._size - len(data)
        view = memoryview(self._map)
        view[at : self._size] = data
        return view[at : self._size]
