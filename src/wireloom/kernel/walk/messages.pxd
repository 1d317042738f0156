cdef int one_message(Walk walk, FieldRows rows, int format, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int nesting) noexcept nogil
cdef int recognised(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef int field_payload(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t end, int nesting, int index, const unsigned char* names, Py_ssize_t name_at, Py_ssize_t name_end) noexcept nogil
cdef int filled_rows(Walk walk, FieldRows rows, int format, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int nesting) noexcept nogil
cdef int payload_rows(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
