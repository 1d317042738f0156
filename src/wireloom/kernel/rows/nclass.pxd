cdef class Bodies:
    cdef long long[::1] roles, slots, members
    cdef int[::1] classes, starts, member_ends
    cdef const unsigned char[::1] member_text
    cdef int encodings, first_index, max_depth
    cdef bint asks
    cdef Py_ssize_t max_fields
    cdef long long[::1] ends
    cdef int[::1] owners, paths, lasts
    cdef int frame(self, BodyRows rows, long long clsenc, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int frame) noexcept nogil
    cdef long long class_in(self, Subscriptions subscriptions, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef int find_class(self, long long number) noexcept nogil
    cdef int body(self, BodyRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int owner, int frame) noexcept nogil
    cdef int scalar(self, BodyRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t slot, int frame, int path, int index, int name) noexcept nogil
    cdef bint put_member(self, BodyRows rows, Py_ssize_t slot) noexcept nogil
