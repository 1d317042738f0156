from libc.math cimport ldexp
cdef class FieldRows:
    cdef readonly Py_ssize_t capacity, text_capacity, count, text_used, binary_used, slow_count
    cdef Py_ssize_t mark_count, mark_text, mark_binary, mark_slow
    cdef public Py_ssize_t field_at
    cdef public int want
    cdef Wide wide
    cdef readonly Names names, paths
    cdef unsigned long long[::1] powers
    cdef long long[::1] ends
    cdef int[::1] indexes, path_at
    cdef unsigned char[::1] path_text
    cdef Py_ssize_t path_used
    cdef readonly int[::1] frame, path, position, name, fid, type, size, value_date, partial
    cdef readonly int[::1] text_ends, binary_ends, slow_row
    cdef readonly long long[::1] value_int, value_time, value_ts, hint, slow_at
    cdef readonly unsigned long long[::1] value_real, value_decimal
    cdef readonly unsigned char[::1] name_valid, fid_valid, int_valid, real_valid, decimal_valid
    cdef readonly unsigned char[::1] date_valid, time_valid, ts_valid, is_blank, hint_valid
    cdef readonly unsigned char[::1] partial_valid, text_valid, binary_valid, text, binary
    cdef void mark(self) noexcept nogil
    cdef void back(self) noexcept nogil
    cdef bint has_room(self, Py_ssize_t size) noexcept nogil
    cdef void put_int(self, long long value) noexcept nogil
    cdef void put_uint(self, unsigned long long value) noexcept nogil
    cdef void put_wide(self, bint is_negative) noexcept nogil
    cdef void put_real(self, unsigned long long bits, long long hint, bint is_single) noexcept nogil
    cdef void put_shortest(self, unsigned long long bits, bint is_negative) noexcept nogil
    cdef void slow(self) noexcept nogil
    cdef void put_text(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef void put_binary(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef void put_address(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef void put_date_text(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef void put_time_text(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef void next_row(self) noexcept nogil
cdef double double_of(unsigned long long bits) noexcept nogil
cdef int number(const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
cdef int month_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned long long single_bits(unsigned int bits) noexcept nogil
cdef long long as_signed(unsigned long long value) noexcept nogil
