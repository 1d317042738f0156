cdef inline int begin_field(Walk walk, FieldRows rows, int name, int index, int type, Py_ssize_t size) noexcept nogil
cdef inline int end_field(Walk walk, FieldRows rows, const unsigned char* data) noexcept nogil
cdef inline int wide_state(Walk walk, FieldRows rows, Py_ssize_t column, const unsigned char* data, Py_ssize_t pos) noexcept nogil
