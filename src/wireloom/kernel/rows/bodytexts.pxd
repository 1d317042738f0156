cdef class BodyTexts:
    cdef const unsigned char[::1] keys, hex_keys, words
    cdef int[::1] key_ends, hex_key_ends, stack
    cdef unsigned char[::1] digits
    cdef int bool_type
    cdef Py_ssize_t start(self, const int[::1] ends, Py_ssize_t number) noexcept nogil
    cdef Py_ssize_t copy(self, unsigned char[::1] out, Py_ssize_t used, const unsigned char[::1] texts, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t key(self, unsigned char[::1] out, Py_ssize_t used, BodyRows rows, Py_ssize_t row) noexcept nogil
    cdef Py_ssize_t value(self, unsigned char[::1] out, Py_ssize_t used, BodyRows rows, Py_ssize_t row) noexcept nogil
    cdef Py_ssize_t number(self, unsigned char[::1] out, Py_ssize_t used, unsigned long long value) noexcept nogil
    cdef Py_ssize_t hex(self, unsigned char[::1] out, Py_ssize_t used, const unsigned char[::1] data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t text(self, unsigned char[::1] out, Py_ssize_t used, const unsigned char[::1] data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t control(self, unsigned char[::1] out, Py_ssize_t used, unsigned int byte) noexcept nogil
    cdef Py_ssize_t escape(self, unsigned char[::1] out, Py_ssize_t used, unsigned int code) noexcept nogil
