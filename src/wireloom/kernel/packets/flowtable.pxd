cdef class Flows:
    cdef readonly Py_ssize_t limit, capacity
    cdef unsigned long long part, parts
    cdef readonly bint is_router
    cdef readonly int tunnels
    cdef int part_of(self, const unsigned char* key, Py_ssize_t width) noexcept nogil
    cdef readonly Names names
    cdef unsigned char[::1] keys, sizes
    cdef int intern(self, const unsigned char* key, Py_ssize_t size) noexcept nogil
