cdef class NaisScan:
    cdef public Py_ssize_t limit
    cdef readonly Py_ssize_t pos, need, junk_end
    cdef Py_ssize_t searched, extent, max_text, max_frame
    cdef long long max_payload
    cdef int max_len_bytes
    cdef bint strict_rsv
    cdef int scan(self, Frames out, const unsigned char* data, Py_ssize_t end, bint is_last) noexcept nogil
    cdef bint sync(self, Frames out, const unsigned char* data, Py_ssize_t end, bint is_last) noexcept nogil
    cdef Py_ssize_t frame_at(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t measure(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t text_end(self, const unsigned char* data, Py_ssize_t end) noexcept nogil
