/* The binary interface (ABI) of the MPI library, found at run time: sizes, constants and predefined
 * handles. This library is compiled without mpi.h, so that one build serves every ABI that has a
 * row here.
 *
 * A handle is a word. In a call it is passed as a word also where the MPI library takes an int,
 * which ignores the upper half. In memory it has shim_abi.handle bytes: every variable that the MPI
 * library writes a handle to begins with an upper half of zero, and memory of the program is read
 * and written by shim_abi_load and shim_abi_store. The upper half of an argument of the program may
 * hold anything: shim_abi_word clears it.
 */
#ifndef SHIM_MPI_ABI_H
#define SHIM_MPI_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined __x86_64__ && !defined __aarch64__
#error "handles are passed as words: other processors may rely on the upper half of an int argument"
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a handle is the lower half of a word");

/* Addresses and predefined handles: the name without MPI_, the values in MPICH's ABI and in the
 * standard's. The datatypes are those that are served, and MPI_BYTE. */
#define SHIM_ABI_WORDS(X)                                                                          \
    X(COMM_NULL, 0x04000000, 0x100)                                                                \
    X(COMM_WORLD, 0x44000000, 0x101)                                                               \
    X(COMM_SELF, 0x44000001, 0x102)                                                                \
    X(GROUP_NULL, 0x08000000, 0x108)                                                               \
    X(REQUEST_NULL, 0x2c000000, 0x180)                                                             \
    X(INFO_NULL, 0x1c000000, 0x130)                                                                \
    X(ERRORS_RETURN, 0x54000001, 0x143)                                                            \
    X(COMM_NULL_COPY_FN, 0, 0)                                                                     \
    X(IN_PLACE, UINTPTR_MAX, 1)                                                                    \
    X(STATUS_IGNORE, 1, 0)                                                                         \
    X(OP_NULL, 0x18000000, 0x20)                                                                   \
    X(MAX, 0x58000001, 0x23)                                                                       \
    X(MIN, 0x58000002, 0x22)                                                                       \
    X(SUM, 0x58000003, 0x21)                                                                       \
    X(LOR, 0x58000007, 0x31)                                                                       \
    X(BOR, 0x58000008, 0x29)                                                                       \
    X(LXOR, 0x58000009, 0x32)                                                                      \
    X(BXOR, 0x5800000a, 0x2a)                                                                      \
    X(DATATYPE_NULL, 0x0c000000, 0x200)                                                            \
    X(BYTE, 0x4c00010d, 0x247)                                                                     \
    X(FLOAT, 0x4c00040a, 0x210)                                                                    \
    X(DOUBLE, 0x4c00080b, 0x214)                                                                   \
    X(INT, 0x4c000405, 0x209)                                                                      \
    X(UNSIGNED, 0x4c000406, 0x20d)                                                                 \
    X(LONG, 0x4c000807, 0x20a)                                                                     \
    X(UNSIGNED_LONG, 0x4c000808, 0x20e)                                                            \
    X(LONG_LONG, 0x4c000809, 0x20b)                                                                \
    X(UNSIGNED_LONG_LONG, 0x4c000819, 0x20f)                                                       \
    X(INT32_T, 0x4c000439, 0x250)                                                                  \
    X(INT64_T, 0x4c00083a, 0x258)                                                                  \
    X(UINT32_T, 0x4c00043d, 0x251)                                                                 \
    X(UINT64_T, 0x4c00083e, 0x259)                                                                 \
    X(AINT, 0x4c000843, 0x201)                                                                     \
    X(OFFSET, 0x4c000844, 0x203)                                                                   \
    X(COUNT, 0x4c000845, 0x202)                                                                    \
    X(REAL, 0x4c00041c, 0x21a)                                                                     \
    X(REAL4, 0x4c000427, 0x2d2)                                                                    \
    X(REAL8, 0x4c000829, 0x2da)                                                                    \
    X(DOUBLE_PRECISION, 0x4c00081f, 0x21c)                                                         \
    X(INTEGER, 0x4c00041b, 0x219)                                                                  \
    X(INTEGER4, 0x4c000430, 0x2d1)                                                                 \
    X(INTEGER8, 0x4c000831, 0x2d9)

/* Numbers, in the same way. */
#define SHIM_ABI_NUMBERS(X)                                                                        \
    X(TAG_UB, 0x64400001, 501)                                                                     \
    X(ROOT, -3, -4)                                                                                \
    X(UNEQUAL, 3, 204)                                                                             \
    X(ERR_OTHER, 15, 16)                                                                           \
    X(ERR_REQUEST, 19, 7)                                                                          \
    X(THREAD_FUNNELED, 1, 1024)                                                                    \
    X(THREAD_SERIALIZED, 2, 2048)                                                                  \
    X(THREAD_MULTIPLE, 3, 4096)                                                                    \
    X(COMBINER_NAMED, 1, 101)                                                                      \
    X(COMBINER_DUP, 2, 102)                                                                        \
    X(COMBINER_CONTIGUOUS, 3, 103)                                                                 \
    X(COMBINER_F90_REAL, 15, 113)                                                                  \
    X(COMBINER_F90_COMPLEX, 16, 114)                                                               \
    X(COMBINER_F90_INTEGER, 17, 115)                                                               \
    X(MAX_ERROR_STRING, 512, 512)

enum shim_abi_kind {
    SHIM_ABI_NONE, /* not known yet, or not served */
    SHIM_ABI_MPICH,
    SHIM_ABI_STANDARD /* of MPI 5: libmpi_abi.so */
};

struct shim_abi {
    enum shim_abi_kind kind;
    uintptr_t mask;             /* the bits of a word that a handle has */
    size_t handle;              /* bytes of a handle in memory */
    size_t status;              /* bytes of an MPI_Status */
    size_t source, tag, error;  /* offsets of its members */
    uintptr_t op_mask, op_bits; /* a predefined operator has these bits in the mask */
#define SHIM_MEMBER(name, mpich, standard) uintptr_t name;
    SHIM_ABI_WORDS(SHIM_MEMBER)
#undef SHIM_MEMBER
#define SHIM_MEMBER(name, mpich, standard) int name;
    SHIM_ABI_NUMBERS(SHIM_MEMBER)
#undef SHIM_MEMBER
};

/* An attribute key that no MPI library makes. */
enum { SHIM_NO_KEY = -1 };

/* The standard ABI: predefined handles are below SHIM_MADE, and handles of datatypes begin with
 * SHIM_TYPES. */
enum { SHIM_MADE = 0x1000, SHIM_TYPES = 0x200, SHIM_TYPE_COUNT = 0x100 };
/* Bytes of each predefined datatype; 0 for pairs, for optional types, and for Fortran types whose
 * size the MPI library can be told. */
extern __attribute__((visibility("hidden"))) const uint8_t shim_abi_sizes[SHIM_TYPE_COUNT];

/* Hidden, so that the compiler accesses it without an indirection. */
extern __attribute__((visibility("hidden"))) struct shim_abi shim_abi;

/* Fills in the table. Called once, before the first call is served. */
void shim_abi_set(enum shim_abi_kind kind);

/* Returns the handle in an argument of the program. Before the ABI is known, returns it as it is.
 */
static inline uintptr_t shim_abi_word(uintptr_t argument)
{
    return argument & shim_abi.mask;
}

static inline uintptr_t shim_abi_load(const void *at)
{
    uintptr_t handle = 0;

    memcpy(&handle, at, shim_abi.handle);
    return handle;
}

static inline void shim_abi_store(void *at, uintptr_t handle)
{
    memcpy(at, &handle, shim_abi.handle);
}

/* Returns a member of a status by its offset. */
static inline int shim_abi_member(const void *status, size_t offset)
{
    int member;

    memcpy(&member, (const char *)status + offset, sizeof member);
    return member;
}

/* Sets source and tag of a status to MPI_UNDEFINED. */
static inline void shim_abi_no_message(void *status, int undefined)
{
    memcpy((char *)status + shim_abi.source, &undefined, sizeof undefined);
    memcpy((char *)status + shim_abi.tag, &undefined, sizeof undefined);
}

#endif
