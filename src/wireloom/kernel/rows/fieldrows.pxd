cdef class FieldRows:
    cdef readonly Py_ssize_t capacity, count, text_capacity, text_used, binary_capacity, binary_used
    cdef readonly int want, dense, seen
    cdef readonly bint keeps
    cdef bint is_full, is_whole
    cdef readonly KeyRows keys
    cdef readonly dict buffers
    cdef object allocate
    cdef Wide wide
    cdef int mask
    cdef unsigned long long real_bits, decimal_low, decimal_high
    cdef int real_hint
    cdef bint real_single
    cdef Py_ssize_t text_start, text_stop, binary_start
    cdef Py_ssize_t mark_count, mark_text, mark_binary
    cdef Py_ssize_t date_filled, time_filled, ts_filled, fid_filled, partial_filled, decimal_filled
    cdef Py_ssize_t hint_filled, binary_filled
    cdef int[::1] name, position, size, value_date, fid, text_ends, binary_ends
    cdef signed char[::1] type
    cdef long long[::1] value_int, hint, value_time, value_ts, partial
    cdef unsigned long long[::1] value_real, value_decimal
    cdef unsigned char[::1] low, high, text, binary
    cdef void mark(self) noexcept nogil
    cdef void back(self) noexcept nogil
    cdef inline bint reserve(self, Py_ssize_t size) noexcept nogil
    cdef inline void begin(self, int position, int code, int size, int name) noexcept nogil
    cdef inline void end(self) noexcept nogil
    cdef inline void put_full_values(self, Py_ssize_t row, long long number, unsigned long long bits, unsigned long long low, unsigned long long high, long long hint) noexcept nogil
    cdef inline void put_values(self, Py_ssize_t row, int mask, long long number, unsigned long long bits, unsigned long long low, unsigned long long high, long long hint) noexcept nogil
    cdef inline void put_facts(self, Py_ssize_t row, int position, int code, int size, int name, int mask) noexcept nogil
    cdef inline void put_type(self, int code) noexcept nogil
    cdef inline void put_int(self, long long value) noexcept nogil
    cdef void put_uint(self, unsigned long long value) noexcept nogil
    cdef inline bint settle(self, bint is_negative) noexcept nogil
    cdef inline bint decimal(self, unsigned long long bits, int hint, bint is_single) noexcept nogil
    cdef inline void put_decimal(self) noexcept nogil
    cdef inline void put_real(self, unsigned long long bits, int hint, bint is_single) noexcept nogil
    cdef inline void put_hint(self, long long value) noexcept nogil
    cdef void put_date(self, int days) noexcept nogil
    cdef void put_time(self, long long nanos) noexcept nogil
    cdef void put_ts(self, long long nanos) noexcept nogil
    cdef inline void put_fid(self, int fid) noexcept nogil
    cdef void put_partial(self, long long offset) noexcept nogil
    cdef inline Py_ssize_t put_string(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
    cdef inline void put_text(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef void put_binary(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef void put_address(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
