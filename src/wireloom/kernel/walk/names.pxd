cdef extern from *:
    """
    static CYTHON_INLINE unsigned long long wireloom_high_product(
        unsigned long long a, unsigned long long b) {
    #ifdef __SIZEOF_INT128__
        return (unsigned long long)((unsigned __int128)a * b >> 64);
    #else
        unsigned long long a0 = a & 0xFFFFFFFFU, a1 = a >> 32, b0 = b & 0xFFFFFFFFU, b1 = b >> 32;
        unsigned long long middle = a1 * b0 + (a0 * b0 >> 32);
        unsigned long long other = a0 * b1 + (middle & 0xFFFFFFFFU);
        return a1 * b1 + (middle >> 32) + (other >> 32);
    #endif
    }
    """
    unsigned long long wireloom_high_product(unsigned long long a, unsigned long long b) noexcept nogil
cdef inline unsigned long long high_product(unsigned long long a, unsigned long long b) noexcept nogil
cdef inline unsigned long long folded_product(unsigned long long a, unsigned long long b) noexcept nogil
cdef class Names:
    cdef unsigned long long key0, key1, key2
    cdef readonly int count
    cdef readonly Py_ssize_t used
    cdef int[::1] slots
    cdef unsigned long long[::1] hashes, heads, tails
    cdef int[::1] ends, followers
    cdef unsigned char[::1] text
    cdef int intern(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
