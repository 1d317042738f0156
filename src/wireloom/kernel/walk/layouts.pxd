cdef class Layouts:
    cdef Py_ssize_t slots, room, most
    cdef int[::1] sizes, misses, patience, hits, turns, counts, seen
    cdef unsigned long long[::1] words, masks, places
    cdef int[::1] position, name, size, text_end, decimals, numbers
    cdef signed char[::1] type
    cdef unsigned char[::1] low, high
    cdef long long[::1] hint
    cdef Py_ssize_t first_of(self, Py_ssize_t size) noexcept nogil
    cdef Py_ssize_t choose(self, Py_ssize_t size) noexcept nogil
    cdef Py_ssize_t find(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef bint is_due(self, Py_ssize_t size) noexcept nogil
    cdef Py_ssize_t start(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef void cover(self, Py_ssize_t slot, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void give_up(self, Py_ssize_t slot) noexcept nogil
    cdef void finish(self, Py_ssize_t slot, Py_ssize_t size, Py_ssize_t count) noexcept nogil
