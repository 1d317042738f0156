cdef class StreamEvents:
    cdef readonly Py_ssize_t capacity, run_count
    cdef public Py_ssize_t count, end_count
    cdef unsigned char[::1] kind
    cdef int[::1] flow, order, fill, group
    cdef long long[::1] stream, offset, length, at, ts, other
    cdef readonly long long[::1] counts, run_stream, run_offset, run_length, run_at, run_ts, run_other
    cdef readonly int[::1] run_flow, run_mark
    cdef readonly unsigned char[::1] run_kind, out
    cdef readonly long long[::1] mark_offset, mark_ts
    cdef void put(self, int kind, Py_ssize_t flow, long long stream, long long offset, long long length, long long at, long long ts, long long other) noexcept nogil
    cdef Py_ssize_t sort(self) noexcept nogil
    cdef void run_up(self, unsigned char* out, const unsigned char* data, Py_ssize_t end, const unsigned char* store, Py_ssize_t store_end) noexcept nogil
