cdef class KeyRows:
    cdef readonly int want
    cdef readonly dict buffers
    cdef readonly Py_ssize_t path_filled, stream_filled
    cdef long long[::1] offset, ts_ns, ts
    cdef int[::1] length, path, stream
    cdef void set_path(self, Py_ssize_t row, int path) noexcept nogil
    cdef void fill(self, Py_ssize_t first, Py_ssize_t last, long long offset, int length, long long ts_ns, int stream) noexcept nogil
    cdef void back(self, Py_ssize_t count) noexcept nogil
    cdef void end(self, Py_ssize_t count) noexcept nogil
cdef unsigned long long turned(unsigned long long x) noexcept nogil
