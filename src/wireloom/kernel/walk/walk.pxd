cdef class Walk:
    cdef readonly FieldRows rows
    cdef readonly MessageRows messages
    cdef readonly WideRows wide
    cdef readonly Dates dates
    cdef readonly Names names, paths
    cdef HeaderCache tibmsg_headers, tibrv_headers
    cdef Layouts tibmsg_layouts, tibrv_layouts
    cdef readonly bint has_messages, has_wide, is_nested, has_dictionary, is_asking
    cdef readonly int need
    cdef readonly Py_ssize_t need_bytes
    cdef public int stream
    cdef long long max_frame, nested_bytes
    cdef Py_ssize_t max_fields, compared, message_row, wide_row, message_end, level_top, level_base, level
    cdef int max_depth, path, path_size, base_path, base_size
    cdef Py_ssize_t message_level, header, next_header, fields_read, name_size, data_at, data_end, field_end
    cdef int name
    cdef unsigned int code
    cdef bint is_read, is_chosen
    cdef unsigned char[::1] types
    cdef long long[::1] ends, arrays
    cdef int[::1] indexes, path_of, path_sizes, array_sizes, elements, bases, level_names
    cdef unsigned char[::1] path_text
    cdef const unsigned char[::1] fid_kinds, fid_types, fid_text
    cdef int[::1] fid_sizes, fid_names, fid_ends
    cdef void start(self) noexcept nogil
    cdef void mark(self) noexcept nogil
    cdef void back(self) noexcept nogil
    cdef void commit(self, long long offset, int length, long long ts_ns) noexcept nogil
    cdef int refuse(self, int need) noexcept nogil
    cdef int open(self, int format, int dialect, Py_ssize_t size) noexcept nogil
    cdef int close(self, Py_ssize_t end, int fields, int depth) noexcept nogil
    cdef bint enter(self, long long end, int index, long long array, int path, int path_size) noexcept nogil
    cdef int descend(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int index, long long array) noexcept nogil
    cdef void leave(self) noexcept nogil
    cdef int step(self, int name, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t index) noexcept nogil
    cdef void suffix(self, bint is_element, Py_ssize_t number) noexcept nogil
    cdef void limit_path(self, Py_ssize_t size) noexcept nogil
    cdef int settle(self) noexcept nogil
    cdef Py_ssize_t put_number(self, Py_ssize_t at, Py_ssize_t number) noexcept nogil
