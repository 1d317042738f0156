cdef class FrameCheck:
    cdef long long[::1] table, ends, array_ends
    cdef unsigned char[::1] is_open
    cdef Layouts known
    cdef void keep_tibmsg(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t count) noexcept nogil
    cdef void cover_tibmsg(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef void keep_tibrv(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t count) noexcept nogil
    cdef void cover_tibrv(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t tibmsg(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t steps, bint is_deep) noexcept nogil
    cdef Py_ssize_t qform(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t steps) noexcept nogil
    cdef Py_ssize_t tibrv(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t steps, bint is_document, bint is_deep) noexcept nogil
cdef bint rv_plausible(long long kind, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint rv_content(long long content, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint rv_subject(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint rv_xml(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint rv_strings(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint rv_elements(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
