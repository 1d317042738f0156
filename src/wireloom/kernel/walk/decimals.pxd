from libc.string cimport memcpy
cdef inline double as_double(unsigned long long bits) noexcept nogil
cdef inline unsigned long long as_bits(double value) noexcept nogil
cdef double to_single(double value) noexcept nogil
cdef inline unsigned long long whole(double value) noexcept nogil
cdef inline long long as_signed(unsigned long long value) noexcept nogil
cdef unsigned long long single_bits(unsigned int bits) noexcept nogil
cdef class Wide:
    cdef public unsigned long long high, low
    cdef public int places
    cdef public bint has_overflowed
    cdef unsigned long long[::1] powers
    cdef double[::1] reals
    cdef void product(self, unsigned long long a, unsigned long long b) noexcept nogil
    cdef void times(self, unsigned long long factor) noexcept nogil
    cdef bint over(self, unsigned long long divisor) noexcept nogil
    cdef void shift_left(self, int count) noexcept nogil
    cdef void shift_right_nearest(self, int count) noexcept nogil
    cdef void units(self, unsigned long long bits, unsigned long long factor, int shift) noexcept nogil
    cdef inline bint scaled(self, unsigned long long bits, int hint, bint is_single) noexcept nogil
    cdef unsigned long long fives(self, int count) noexcept nogil
    cdef bint shortest(self, unsigned long long bits, double magnitude, bint is_single) noexcept nogil
    cdef bint reads_back(self, unsigned long long bits, int places) noexcept nogil
    cdef inline bint rescale(self, int places) noexcept nogil
cdef bint is_utf8(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef int days_of(int year, int month, int day) noexcept nogil
