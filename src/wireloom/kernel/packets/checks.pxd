cdef int segment_check(Packets rows, Py_ssize_t index, const unsigned char* data, Py_ssize_t end, const unsigned char* store) noexcept nogil
cdef unsigned int folded(unsigned long long sum) noexcept nogil
cdef unsigned long long sum16(const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
