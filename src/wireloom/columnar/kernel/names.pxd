cdef class Names:
    cdef unsigned long long key
    cdef readonly int count
    cdef Py_ssize_t used
    cdef int[::1] slots
    cdef unsigned long long[::1] hashes
    cdef int[::1] ends
    cdef unsigned char[::1] text
    cdef int intern(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
