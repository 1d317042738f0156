cdef inline Py_ssize_t _part_size(object part)
