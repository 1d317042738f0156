cdef class FlatClass:
    cdef tuple names, reads, packs
    cdef const int[::1] kinds
    cdef const int[::1] sizes
    cdef Py_ssize_t first
