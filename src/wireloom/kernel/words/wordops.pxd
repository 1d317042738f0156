cdef class WordProgram:
    cdef long long[::1] selector, ops
    cdef unsigned char[::1] forms
    cdef int[::1] firsts, maps, lists
    cdef int form_count
