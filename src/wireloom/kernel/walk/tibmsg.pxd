cdef int tibmsg_message(Walk walk, FieldRows rows, HeaderCache headers, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int nesting) noexcept nogil
cdef int tibmsg_field(Walk walk, FieldRows rows, HeaderCache headers, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int index) noexcept nogil
cdef int tibmsg_hint(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, unsigned int code) noexcept nogil
cdef int put_hint_number(FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, unsigned int kind) noexcept nogil
cdef int tibmsg_value(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end, unsigned int code, int hint) noexcept nogil
cdef int tibmsg_header(Walk walk, HeaderCache headers, Py_ssize_t before, const unsigned char* data, Py_ssize_t pos, Py_ssize_t key_at, Py_ssize_t end) noexcept nogil
