cdef bint is_ip_type(unsigned int kind) noexcept nogil
cdef int ethernet_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef int either_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef int pppoe_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef int ppp_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef int hdlc_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef int mpls_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef int gre_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef int datagram_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef int ether_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, unsigned int kind, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef int carried_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, unsigned int kind, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, int level) noexcept nogil
cdef bint is_padded(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef int wireless_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end, bint has_padding) noexcept nogil
cdef int netfilter_packet(Packets rows, Flows flows, const unsigned char* data, Py_ssize_t index, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t wire_end) noexcept nogil
