cdef class MessageRows:
    cdef readonly int want
    cdef readonly Py_ssize_t capacity, count
    cdef readonly KeyRows keys
    cdef readonly dict buffers
    cdef object allocate
    cdef Py_ssize_t mark_count
    cdef signed char[::1] format, dialect
    cdef unsigned char[::1] has_dialect
    cdef int[::1] fields, depth
    cdef void mark(self) noexcept nogil
    cdef void back(self) noexcept nogil
    cdef Py_ssize_t open(self, int format, int dialect, int path) noexcept nogil
    cdef void close(self, Py_ssize_t row, int fields, int depth) noexcept nogil
