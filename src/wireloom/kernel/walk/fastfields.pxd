cdef inline bint lane_decimal(FieldRows rows, unsigned long long bits, long long hint) noexcept nogil
cdef Py_ssize_t quick_lane(Walk walk, FieldRows rows, HeaderCache shapes, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t before, int index, Py_ssize_t most, Py_ssize_t base, Py_ssize_t wide_row) noexcept nogil
cdef inline int lane_string(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end, long long hint) noexcept nogil
