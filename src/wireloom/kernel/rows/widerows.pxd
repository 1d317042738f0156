cdef class WideRows:
    cdef readonly Py_ssize_t capacity, count, columns, text_capacity, text_used, row_words
    cdef readonly KeyRows keys
    cdef readonly dict buffers
    cdef object allocate
    cdef Dates dates
    cdef Wide wide
    cdef Py_ssize_t mark_count, mark_text
    cdef int[::1] kinds, scales, bases, misfits
    cdef unsigned long long[::1] limits, words
    cdef unsigned char[::1] flags, text
    cdef void mark(self) noexcept nogil
    cdef void back(self) noexcept nogil
    cdef inline Py_ssize_t open(self, int path) noexcept nogil
    cdef inline void close(self, Py_ssize_t row) noexcept nogil
    cdef inline bint is_double(self, Py_ssize_t column) noexcept nogil
    cdef inline Py_ssize_t place(self, Py_ssize_t row, Py_ssize_t column) noexcept nogil
    cdef inline int put(self, Py_ssize_t row, Py_ssize_t column, FieldRows rows, const unsigned char* data, Py_ssize_t pos) noexcept nogil
    cdef inline int convert(self, Py_ssize_t at, int kind, Py_ssize_t column, FieldRows rows, const unsigned char* data, Py_ssize_t pos) noexcept nogil
    cdef inline int put_word(self, Py_ssize_t at, long long value) noexcept nogil
    cdef inline int put_double(self, Py_ssize_t at, long long value) noexcept nogil
    cdef int put_unsigned(self, Py_ssize_t at, unsigned long long value) noexcept nogil
    cdef int put_whole(self, Py_ssize_t at, unsigned long long bits) noexcept nogil
    cdef inline int put_decimal(self, Py_ssize_t at, Py_ssize_t column, FieldRows rows) noexcept nogil
    cdef inline int put_bytes(self, Py_ssize_t at, int kind, FieldRows rows) noexcept nogil
    cdef inline void take(self, const unsigned char* source, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef inline int put_date(self, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop) noexcept nogil
    cdef inline int put_time(self, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop) noexcept nogil
cdef unsigned long long magnitude_of(long long value) noexcept nogil
