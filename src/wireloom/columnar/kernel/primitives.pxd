from libc.string cimport memcpy
cdef bint room(Py_ssize_t pos, Py_ssize_t end, long long size) noexcept nogil
cdef unsigned int u8(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned int be16(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned int be32(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned long long be64(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned int le16(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned int le32(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned long long le64(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef void copy_bytes(unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t find_zero(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint is_ascii(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
