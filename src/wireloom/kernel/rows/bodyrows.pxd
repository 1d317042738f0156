cdef class BodyRows:
    cdef readonly Py_ssize_t capacity, text_capacity, count, text_used, binary_used
    cdef readonly Py_ssize_t note_count
    cdef Py_ssize_t mark_count, mark_text, mark_binary, mark_notes
    cdef readonly int seen, path_count
    cdef public object allocate
    cdef unsigned long long key
    cdef readonly dict buffers
    cdef readonly int[::1] frame, path, position, name, size, text_ends, binary_ends
    cdef readonly int[::1] note_frame, note_path, note_name, note_size
    cdef readonly long long[::1] note_at
    cdef readonly signed char[::1] type
    cdef readonly unsigned char[::1] mask, text, binary
    cdef readonly long long[::1] value_int
    cdef readonly unsigned long long[::1] value_real
    cdef int[::1] path_slots
    cdef readonly int[::1] path_parents, path_steps
    cdef void mark(self) noexcept nogil
    cdef void back(self) noexcept nogil
    cdef bint note(self, int frame, int path, int name, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
    cdef int step(self, int parent, int step) noexcept nogil
    cdef bint has_room(self, Py_ssize_t size) noexcept nogil
    cdef void begin(self, int frame, int path, int position, int name, int type, int size) noexcept nogil
    cdef void end(self) noexcept nogil
    cdef void put_int(self, long long value) noexcept nogil
    cdef void put_big(self, unsigned long long value) noexcept nogil
    cdef void put_real(self, unsigned long long bits) noexcept nogil
    cdef void put_text(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t mixed(unsigned long long key, long long high, long long low) noexcept nogil
