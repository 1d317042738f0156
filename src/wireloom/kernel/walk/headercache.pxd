cdef class HeaderCache:
    cdef Names names, headers
    cdef bint has_fids
    cdef int[::1] name, fid, name_sizes, recent
    cdef unsigned long long[::1] records
    cdef int one_name, one_fid, one_size
    cdef int find(self, int before, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
    cdef inline Py_ssize_t place_of(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef inline Py_ssize_t next_of(self, Py_ssize_t before, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef inline bint is_at(self, Py_ssize_t record, unsigned long long facts, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef void set_plan(self, int number, int plan, int size, int type) noexcept nogil
    cdef void set_facts(self, int number, int header, int plan, int size, int type, int more) noexcept nogil
    cdef bint parse(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
