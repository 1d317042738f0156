cdef extern from *:
    """
    #include <string.h>
    /* One load each, whatever the alignment; compilers do not make one of eight bytes by themselves. */
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define WIRELOOM_IS_BIG 1
    #else
    #define WIRELOOM_IS_BIG 0
    #endif
    #if defined(__GNUC__) || defined(__clang__)
    #define WIRELOOM_SWAP32(v) __builtin_bswap32(v)
    #define WIRELOOM_SWAP64(v) __builtin_bswap64(v)
    #else
    #include <stdlib.h>
    #define WIRELOOM_SWAP32(v) _byteswap_ulong(v)
    #define WIRELOOM_SWAP64(v) _byteswap_uint64(v)
    #endif
    static CYTHON_INLINE unsigned int wireloom_load32(const unsigned char *at, int big) {
        unsigned int value;
        memcpy(&value, at, 4);
        return big == WIRELOOM_IS_BIG ? value : WIRELOOM_SWAP32(value);
    }
    static CYTHON_INLINE unsigned long long wireloom_load64(const unsigned char *at, int big) {
        unsigned long long value;
        memcpy(&value, at, 8);
        return big == WIRELOOM_IS_BIG ? value : WIRELOOM_SWAP64(value);
    }
    static CYTHON_INLINE void wireloom_store64(unsigned char *at, unsigned long long value) {
        if (WIRELOOM_IS_BIG) value = WIRELOOM_SWAP64(value);
        memcpy(at, &value, 8);
    }
    static CYTHON_INLINE void wireloom_store32(unsigned char *at, unsigned int value) {
        if (!WIRELOOM_IS_BIG) value = WIRELOOM_SWAP32(value);
        memcpy(at, &value, 4);
    }
    static CYTHON_INLINE PyObject *wireloom_new_bytes(Py_ssize_t size) {
        return PyBytes_FromStringAndSize(NULL, size);
    }
    static CYTHON_INLINE unsigned char *wireloom_bytes_at(PyObject *data) {
        return (unsigned char *)PyBytes_AsString(data);
    }
    static CYTHON_INLINE Py_ssize_t wireloom_find(
        const unsigned char *data, Py_ssize_t pos, Py_ssize_t end, unsigned int byte
    ) {
        const void *found = pos < end ? memchr(data + pos, (int)byte, (size_t)(end - pos)) : NULL;
        return found ? (const unsigned char *)found - data : end;
    }
    """
    Py_ssize_t wireloom_find(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, unsigned int byte) noexcept nogil
    unsigned int wireloom_load32(const unsigned char* at, int big) noexcept nogil
    unsigned long long wireloom_load64(const unsigned char* at, int big) noexcept nogil
    void wireloom_store64(unsigned char* at, unsigned long long value) noexcept nogil
    void wireloom_store32(unsigned char* at, unsigned int value) noexcept nogil
    object wireloom_new_bytes(Py_ssize_t size)
    unsigned char* wireloom_bytes_at(object data) except NULL
from libc.string cimport memcpy
cdef inline const unsigned char* bytes_at(bytes data) except NULL
cdef inline object new_bytes(Py_ssize_t size)
cdef inline unsigned char* new_bytes_at(object data) except NULL
cdef inline void put_be32(unsigned char* out, Py_ssize_t at, Py_ssize_t end, unsigned int word) noexcept nogil
cdef inline void put_low(unsigned char* out, Py_ssize_t at, Py_ssize_t end, unsigned long long value, Py_ssize_t size) noexcept nogil
cdef inline bint room(Py_ssize_t pos, Py_ssize_t end, long long size) noexcept nogil
cdef inline unsigned int u8(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef inline unsigned int be16(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef inline unsigned int be32(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef inline unsigned long long be64(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef inline unsigned int le16(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef inline unsigned int le32(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef inline unsigned long long le64(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef inline unsigned long long low_bytes(const unsigned char* data, Py_ssize_t pos, Py_ssize_t size, Py_ssize_t end) noexcept nogil
cdef inline void copy_bytes(unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
cdef inline bint copy_short(unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
cdef inline bint is_alike(const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end, const unsigned long long* words, const unsigned long long* masks) noexcept nogil
cdef Py_ssize_t find_byte(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, unsigned int byte) noexcept nogil
cdef Py_ssize_t find_zero(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t count_zeros(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef unsigned long long sum_words(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef bint is_ascii(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
