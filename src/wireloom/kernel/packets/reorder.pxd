cdef class ReorderBuffer:
    cdef Py_ssize_t reserve, nodes, free, free_count
    cdef readonly Py_ssize_t store_used
    cdef readonly long long cost
    cdef long long[::1] offset, at, ts
    cdef int[::1] size, cut, next, prev
    cdef readonly unsigned char[::1] store
    cdef unsigned char[::1] bad
    cdef bint has_room(self, Py_ssize_t size) noexcept nogil
    cdef void hold(self, long long* row, long long offset, Py_ssize_t at, long long size, long long cut, int bad, long long ts, const unsigned char* data, Py_ssize_t end) noexcept nogil
    cdef void set_aside(self, long long* row, long long seq, Py_ssize_t at, long long size, long long cut, long long ts, const unsigned char* data, Py_ssize_t end) noexcept nogil
    cdef void drop_aside(self, long long* row) noexcept nogil
    cdef Py_ssize_t take(self) noexcept nogil
    cdef void give_back(self, Py_ssize_t node) noexcept nogil
    cdef Py_ssize_t insert(self, long long* row, Py_ssize_t before, Py_ssize_t after) noexcept nogil
    cdef void pop(self, long long* row) noexcept nogil
    cdef void remove(self, long long* row, Py_ssize_t node) noexcept nogil
