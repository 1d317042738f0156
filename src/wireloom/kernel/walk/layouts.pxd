cdef class Layouts:
    cdef Py_ssize_t most_slots, slots, used, room, most, turn, slot, made, begin, word, word_end
    cdef bint is_fixed
    cdef unsigned long long signature
    cdef int[::1] by_size, heads, misses, patience, nexts, sizes, kinds, hits, counts, seen, segments, segment_sizes
    cdef unsigned long long[::1] words, masks, places, new_places, signatures
    cdef long long[::1] begins, hint
    cdef int[::1] position, name, size, decimals, numbers
    cdef signed char[::1] type
    cdef unsigned char[::1] low, high
    cdef void grow(self) noexcept with gil
    cdef int kind_of(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t find(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t search(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef void link(self, Py_ssize_t slot) noexcept nogil
    cdef void drop(self, Py_ssize_t slot) noexcept nogil
    cdef bint is_like(self, Py_ssize_t slot, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef bint is_due(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t start(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t choose(self, int chain) noexcept nogil
    cdef void begin_at(self, Py_ssize_t pos, bint is_fixed) noexcept nogil
    cdef bint has_twin(self, Py_ssize_t pos) noexcept nogil
    cdef void cover(self, const unsigned char* data, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void select(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef Py_ssize_t cover_text(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint is_fixed) noexcept nogil
    cdef bint cut(self, const unsigned char* data, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
    cdef void give_up(self) noexcept nogil
    cdef void finish(self, const unsigned char* data, Py_ssize_t end, Py_ssize_t count) noexcept nogil
