cdef inline bint is_int_size(Py_ssize_t size) noexcept nogil
cdef inline long long signed_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef inline unsigned long long unsigned_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef inline Py_ssize_t put_scalar(FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end, unsigned int kind, int hint) noexcept nogil
cdef inline int put_date_text(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop) noexcept nogil
cdef inline void put_time_text(FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop) noexcept nogil
