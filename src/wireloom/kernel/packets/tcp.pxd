cdef class Streams:
    cdef readonly StreamEvents pieces
    cdef Py_ssize_t max_flow_packets
    cdef long long max_flow_bytes, max_bytes, max_wait, max_ahead, max_behind
    cdef readonly long long seen, streams
    cdef readonly int stop
    cdef readonly FlowRows flows
    cdef readonly ReorderBuffer held
    cdef Py_ssize_t most_pieces
    cdef bint has_room(self, Py_ssize_t flow, Py_ssize_t size) noexcept nogil
    cdef void packet(self, Packets rows, Py_ssize_t index, Py_ssize_t flow, const unsigned char* data, Py_ssize_t end, const unsigned char* store) noexcept nogil
    cdef void datagram(self, long long* row, Py_ssize_t flow, Py_ssize_t at, long long size, long long total, long long ts, int check) noexcept nogil
    cdef void segment(self, long long* row, Py_ssize_t flow, long long offset, Py_ssize_t at, long long size, long long total, long long ts, const unsigned char* data, Py_ssize_t end) noexcept nogil
    cdef void begin(self, long long* row, long long seq, long long ts) noexcept nogil
    cdef void doubt(self, long long* row, long long seq) noexcept nogil
    cdef void start(self, long long* row, Py_ssize_t flow, long long ts) noexcept nogil
    cdef void append(self, long long* row, Py_ssize_t flow, Py_ssize_t at, long long size, long long ts) noexcept nogil
    cdef void gap(self, long long* row, Py_ssize_t flow, long long size, long long after) noexcept nogil
    cdef void drop(self, long long* row, Py_ssize_t flow, Py_ssize_t at, long long size, long long ts, int why) noexcept nogil
    cdef void refuse(self, long long* row, Py_ssize_t flow, Py_ssize_t at, long long size, long long ts, int why) noexcept nogil
    cdef void skip(self, long long* row, Py_ssize_t flow, long long size, long long ts) noexcept nogil
    cdef void again(self, long long* row, Py_ssize_t flow, long long offset, Py_ssize_t at, long long size, long long ts) noexcept nogil
    cdef void end(self, long long* row, Py_ssize_t flow, int why) noexcept nogil
    cdef void keep_limits(self, long long* row, Py_ssize_t flow, long long ts) noexcept nogil
    cdef bint is_usual(self, long long* row) noexcept nogil
    cdef void believe(self, long long* row, Py_ssize_t flow) noexcept nogil
    cdef void suspect(self, long long* row, Py_ssize_t flow, long long ahead, Py_ssize_t at, long long size, long long ts, const unsigned char* data, Py_ssize_t end) noexcept nogil
    cdef void first_bad(self, long long* row, long long offset, long long size) noexcept nogil
    cdef void judge(self, long long* row, Py_ssize_t flow, long long offset, long long size, int check) noexcept nogil
    cdef void tell(self, long long* row, Py_ssize_t flow, long long offset, long long size, long long ts) noexcept nogil
    cdef void displace(self, long long* row, Py_ssize_t flow, long long offset, long long stop) noexcept nogil
    cdef void discard(self, long long* row, Py_ssize_t flow, Py_ssize_t node) noexcept nogil
    cdef bint is_due(self, long long* row) noexcept nogil
    cdef bint is_stray(self, long long* row, Py_ssize_t flow, long long seq, long long total) noexcept nogil
    cdef void restart(self, long long* row, Py_ssize_t flow, long long seq, long long ts) noexcept nogil
    cdef void forget(self, long long* row, Py_ssize_t flow) noexcept nogil
    cdef void release(self, long long* row, Py_ssize_t flow) noexcept nogil
    cdef void declare(self, long long* row, Py_ssize_t flow) noexcept nogil
    cdef void flush(self, long long* row, Py_ssize_t flow) noexcept nogil
