cdef int tibmsg_message(FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t frame, Py_ssize_t max_fields, int max_depth) noexcept nogil
cdef long long signed_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned long long unsigned_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint is_int_size(Py_ssize_t size) noexcept nogil
cdef void scalar_value(FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, unsigned int kind, long long hint) noexcept nogil
