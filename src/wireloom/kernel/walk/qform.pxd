cdef inline unsigned int qform_kind(unsigned int code) noexcept nogil
cdef inline int qform_name(Walk walk, unsigned int fid) noexcept nogil
cdef int qform_payload(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t end, int nesting, int index, unsigned int fid) noexcept nogil
cdef int qform_message(Walk walk, FieldRows rows, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int nesting) noexcept nogil
