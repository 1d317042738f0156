cdef class WordRows:
    cdef readonly WordProgram program
    cdef readonly Py_ssize_t capacity, count
    cdef readonly unsigned char[::1] form
    cdef readonly int[::1] counts
    cdef int[::1] row, places, key
    cdef unsigned long long[::1] word
    cdef long long[::1] cursor, ends, registers
    cdef const int[::1] slots
    cdef int[::1] ints32, blob_sizes
    cdef long long[::1] ints64, blob_starts
    cdef unsigned char[::1] outcome, bitmaps
    cdef Py_ssize_t stride
    cdef void sort_out(self, const unsigned char* data, const long long[::1] offsets, const int[::1] lengths) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef void sort(self, const long long[::1] offsets, const int[::1] lengths, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void work(self, Py_ssize_t op, const unsigned char* data, Py_ssize_t low, Py_ssize_t high, const long long[::1] offsets) noexcept nogil
    cdef void load(self, const unsigned char* data, Py_ssize_t low, Py_ssize_t high, long long place, unsigned long long size, bint little) noexcept nogil
    cdef int number_of(self, Py_ssize_t op, unsigned long long value) noexcept nogil
    cdef void move(self, Py_ssize_t op, const unsigned char* data, Py_ssize_t j) noexcept nogil
    cdef void blob(self, Py_ssize_t j, Py_ssize_t column, long long size, long long unit) noexcept nogil
    cdef void refuse(self, Py_ssize_t j) noexcept nogil
    cdef void varint(self, const unsigned char* data, Py_ssize_t j, long long most, Py_ssize_t register) noexcept nogil
cdef unsigned long long word_at(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, long long size, bint little) noexcept nogil
cdef bint is_text(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
