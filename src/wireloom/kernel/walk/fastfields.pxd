cdef inline bint quick_decimal(FieldRows rows, unsigned long long bits, long long hint) noexcept nogil
cdef Py_ssize_t known_fields(Walk walk, FieldRows rows, HeaderCache headers, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int index, Py_ssize_t most) noexcept nogil
cdef inline int put_hinted_string(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end, long long hint) noexcept nogil
