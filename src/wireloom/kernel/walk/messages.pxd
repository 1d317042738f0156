cdef int one_message(Walk walk, FieldRows rows, int format, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int carried) noexcept nogil
cdef int recognised(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef int carried_rows(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int carried, int name, const unsigned char* name_text, Py_ssize_t name_at, Py_ssize_t name_end, Py_ssize_t index) noexcept nogil
cdef inline int wide_state(Walk walk, FieldRows rows, Py_ssize_t row, Py_ssize_t column, const unsigned char* data, Py_ssize_t pos) noexcept nogil
cdef int filled_rows(Walk walk, FieldRows rows, int format, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int carried) noexcept nogil
cdef int payload_rows(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
