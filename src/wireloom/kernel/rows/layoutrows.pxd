from libc.string cimport memset
cdef inline void copy_facts(FieldRows rows, Layouts layouts, Py_ssize_t slot, Py_ssize_t row, Py_ssize_t count, bint has_hints) noexcept nogil
cdef inline Py_ssize_t begin_of(Layouts layouts, unsigned long long place) noexcept nogil
cdef inline bint put_decimals(FieldRows rows, Layouts layouts, const unsigned long long* places, Py_ssize_t count, Py_ssize_t start, const unsigned char* data, Py_ssize_t end) noexcept nogil
cdef inline bint put_numbers(FieldRows rows, Layouts layouts, const unsigned long long* places, Py_ssize_t count, Py_ssize_t start, const unsigned char* data) noexcept nogil
cdef inline bint put_texts(Walk walk, FieldRows rows, Layouts layouts, Py_ssize_t slot, const unsigned long long* places, Py_ssize_t texts, Py_ssize_t start, Py_ssize_t count, const unsigned char* data, Py_ssize_t end) noexcept nogil
cdef inline bint has_layouts(Walk walk, FieldRows rows) noexcept nogil
cdef int repeated_message(Walk walk, FieldRows rows, Layouts layouts, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t most) noexcept nogil
cdef Py_ssize_t repeated_rows(Walk walk, FieldRows rows, Layouts layouts, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t most) noexcept nogil
cdef bint learn(Layouts layouts, Py_ssize_t slot, FieldRows rows, HeaderCache headers, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t count, int columns) noexcept nogil
cdef void put_places(Layouts layouts, Py_ssize_t slot, Py_ssize_t count, int columns) noexcept nogil
cdef void keep_layout(Walk walk, Layouts layouts, FieldRows rows, HeaderCache headers, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t count) noexcept nogil
cdef int repeated_cells(Walk walk, FieldRows rows, Layouts layouts, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t most) noexcept nogil
