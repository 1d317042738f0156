cdef class Subscriptions:
    cdef long long[::1] requests, active
    cdef readonly Py_ssize_t request_count, active_count
    cdef unsigned long long key
    cpdef bint is_full(self) noexcept nogil
    cdef Py_ssize_t place(self, long long[::1] table, long long key) noexcept nogil
    cpdef void request(self, long long number, long long clsenc) noexcept nogil
    cpdef void activate(self, long long number, long long clsenc) noexcept nogil
    cdef void answer(self, long long request, long long number) noexcept nogil
    cdef long long find(self, long long number) noexcept nogil
