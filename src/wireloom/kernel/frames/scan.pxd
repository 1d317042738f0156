cdef class Frames:
    cdef readonly Py_ssize_t capacity, mark_capacity
    cdef public Py_ssize_t count, mark_count
    cdef readonly long long[::1] offsets, mark_offsets, mark_lengths, mark_reach
    cdef readonly int[::1] lengths
    cdef readonly unsigned char[::1] mark_kinds
    cdef bint is_full(self) noexcept nogil
    cdef void put_frame(self, Py_ssize_t pos, Py_ssize_t stop) noexcept nogil
    cdef void put_mark(self, Py_ssize_t pos, Py_ssize_t stop, int kind, Py_ssize_t reach) noexcept nogil
cdef class Scan:
    cdef readonly HeaderRules rules
    cdef public Py_ssize_t limit
    cdef readonly Py_ssize_t pos, need, suspect
    cdef Py_ssize_t stop, looked, searched, reach, known_at, known_size
    cdef readonly int bad
    cdef int scan(self, Frames out, const unsigned char* data, Py_ssize_t end, bint is_last) noexcept nogil
    cdef bint is_clean(self) noexcept nogil
    cdef Py_ssize_t fill(self, const unsigned char* data, Py_ssize_t end, bint is_last) noexcept nogil
    cdef int resync(self, Frames out, const unsigned char* data, Py_ssize_t end, bint is_last) noexcept nogil
    cdef Py_ssize_t search(self, const unsigned char* data, Py_ssize_t end, bint is_last) noexcept nogil
    cdef int inside(self, const unsigned char* data, Py_ssize_t stop, Py_ssize_t end, bint is_last, int least) noexcept nogil
    cdef int stands(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint is_last) noexcept nogil
    cdef int header_at(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint is_last) noexcept nogil
    cdef Py_ssize_t measure(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint is_last) noexcept nogil
