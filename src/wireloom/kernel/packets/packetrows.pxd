cdef class Packets:
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t odd_count
    cdef public Py_ssize_t count, skipped
    cdef readonly int stop
    cdef readonly long long[::1] at, ts, net_at, host_at, payload_at, tally, sizes
    cdef readonly int[::1] captured, length, link, flow, payload, missing, odd
    cdef readonly unsigned int[::1] seq
    cdef readonly unsigned char[::1] status, flags
    cdef unsigned char[::1] key
    cdef void begin(self, Py_ssize_t index, Py_ssize_t at, Py_ssize_t captured, Py_ssize_t length, long long ts, int link) noexcept nogil
