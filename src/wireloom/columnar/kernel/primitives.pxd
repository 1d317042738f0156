cdef bint room(Py_ssize_t pos, Py_ssize_t end, long long size) noexcept nogil
cdef unsigned int u8(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned int be16(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned int be32(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned long long be64(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned int le16(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned int le32(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned long long le64(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
