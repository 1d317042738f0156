cdef class Packets:
    cdef readonly Py_ssize_t capacity, odd_count
    cdef public Py_ssize_t count, skipped
    cdef readonly int stop
    cdef readonly long long[::1] at, ts, net_at, host_at, payload_at, tally
    cdef readonly int[::1] captured, length, link, flow, payload, missing, odd
    cdef readonly unsigned int[::1] seq
    cdef readonly unsigned char[::1] status, flags
    cdef unsigned char[::1] key
    cdef void begin(self, Py_ssize_t index, Py_ssize_t at, Py_ssize_t captured, Py_ssize_t length, long long ts, int link) noexcept nogil
cdef int link_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index) noexcept nogil
cdef bint is_ip_type(unsigned int kind) noexcept nogil
cdef int ipv4_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end) noexcept nogil
cdef int ipv6_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end) noexcept nogil
cdef int host_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t addresses, Py_ssize_t width, unsigned int kind, Py_ssize_t end, Py_ssize_t stop) noexcept nogil
cdef int segment_check(Packets rows, Py_ssize_t index, const unsigned char* data, Py_ssize_t end, const unsigned char* store) noexcept nogil
cdef unsigned int folded(unsigned long long sum) noexcept nogil
cdef unsigned long long sum16(const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
