cdef class Wide:
    cdef public unsigned long long high, low
    cdef public bint has_overflowed
    cdef void product(self, unsigned long long a, unsigned long long b) noexcept nogil
    cdef void times(self, unsigned long long factor) noexcept nogil
    cdef void shift_left(self, int count) noexcept nogil
    cdef void shift_right_nearest(self, int count) noexcept nogil
    cdef void units(self, unsigned long long bits, unsigned long long factor, int shift) noexcept nogil
cdef bint is_utf8(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef int days_of(int year, int month, int day) noexcept nogil
