cdef void put_hex(unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
