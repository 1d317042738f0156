cdef class Triage:
    cdef list scans
    cdef Frames out
    cdef bint fills(self, Scan scan, const unsigned char* data, Py_ssize_t end) noexcept
    cdef bint occurs(self, NaisScan line, const unsigned char* data, Py_ssize_t end) noexcept
    cdef bint reads(self, NaisScan line, const unsigned char* data, Py_ssize_t end) noexcept
