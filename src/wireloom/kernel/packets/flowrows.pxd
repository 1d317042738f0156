cdef class FlowRows:
    cdef readonly Py_ssize_t capacity
    cdef readonly long long age
    cdef long long[::1] state
    cdef long long* row(self, Py_ssize_t flow) noexcept nogil
