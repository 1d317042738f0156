cdef class HeaderRules:
    cdef readonly int format
    cdef long long[::1] table
    cdef long long options
    cdef readonly Py_ssize_t max_frame
    cdef bint has_magic
    cdef Py_ssize_t needed
    cdef FrameCheck frame_check
    cdef Py_ssize_t measure(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t measure_blaze(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t measure_nrep(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t measure_magic(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t at, unsigned int magic, Py_ssize_t length) noexcept nogil
    cdef int check(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t steps) noexcept nogil
    cdef int check_tibrv(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t steps) noexcept nogil
    cdef int check_nrep(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t steps) noexcept nogil
    cdef Py_ssize_t nrep_size(self, Py_ssize_t row, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t find(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef bint starts_blaze(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t find_masked(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, unsigned int mask, unsigned int wanted) noexcept nogil
cdef bint starts_magic(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, unsigned int magic) noexcept nogil
cdef Py_ssize_t find_magic(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, unsigned int magic) noexcept nogil
