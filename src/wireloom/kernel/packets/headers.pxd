cdef int link_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index) noexcept nogil
cdef int ipv4_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef int ipv6_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef int host_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t addresses, Py_ssize_t width, unsigned int kind, Py_ssize_t end, Py_ssize_t stop, int level) noexcept nogil
