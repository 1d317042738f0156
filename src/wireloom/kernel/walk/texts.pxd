cdef int digits(const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
cdef int month_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint is_blank_at(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t skip_spaces(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef inline long long time_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef inline long long plain_time(unsigned long long text, bint has_seconds) noexcept nogil
cdef long long any_time(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef long long null_time(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef class Dates:
    cdef Names names
    cdef int[::1] days
    cdef int known, size, last
    cdef unsigned long long head, tail
    cdef inline int of(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef int plain_date(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
