cdef bint is_int_size(Py_ssize_t size) noexcept nogil
cdef long long signed_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned long long unsigned_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t put_scalar(FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end, unsigned int kind, int hint) noexcept nogil
cdef int put_date_text(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop) noexcept nogil
cdef void put_time_text(FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop) noexcept nogil
