cdef class Interfaces:
    cdef readonly Py_ssize_t count
    cdef Wide wide
    cdef readonly int[::1] link, shift
    cdef unsigned int[::1] snap
    cdef unsigned long long[::1] factor, divisor
    cdef long long[::1] offset
    cdef long long time(self, Py_ssize_t index, unsigned long long ticks) noexcept nogil
cdef unsigned int file_word(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint is_big) noexcept nogil
cdef unsigned int file_half(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint is_big) noexcept nogil
cdef bint is_file_header(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint is_first_record(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint is_record(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint is_big, bint is_strict) noexcept nogil
cdef bint is_odd(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint is_big) noexcept nogil
cdef bint is_close(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint is_big, long long seconds) noexcept nogil
cdef bint is_shifted(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint is_big) noexcept nogil
cdef Py_ssize_t is_block(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint is_big) noexcept nogil
