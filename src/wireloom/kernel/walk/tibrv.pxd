cdef unsigned int tibrv_kind(unsigned int code) noexcept nogil
cdef bint is_subject(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint put_subject(FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef long long count_messages(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef int tibrv_message(Walk walk, FieldRows rows, HeaderCache headers, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int nesting) noexcept nogil
cdef int tibrv_field(Walk walk, FieldRows rows, HeaderCache headers, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int index) noexcept nogil
cdef bint tibrv_data(Walk walk, const unsigned char* data, Py_ssize_t type_at, Py_ssize_t end, unsigned int code) noexcept nogil
cdef int next_element(Walk walk) noexcept nogil
cdef int tibrv_header(Walk walk, HeaderCache headers, Py_ssize_t before, const unsigned char* data, Py_ssize_t pos, Py_ssize_t type_at, Py_ssize_t end) noexcept nogil
