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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined __x86_64__ && !defined __aarch64__
#error "handles are passed as words: other processors may rely on the upper half of an int argument"
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a handle is the lower half of a word");

/* Predefined handles: the name without MPI_, the values in MPICH's ABI and in the standard's, and
 * the symbol in Open MPI, whose handles are addresses. The datatypes are those that are served, and
 * MPI_BYTE. */
#define SHIM_ABI_HANDLES(X)                                                                        \
    X(COMM_NULL, 0x04000000, 0x100, ompi_mpi_comm_null)                                            \
    X(COMM_WORLD, 0x44000000, 0x101, ompi_mpi_comm_world)                                          \
    X(COMM_SELF, 0x44000001, 0x102, ompi_mpi_comm_self)                                            \
    X(GROUP_NULL, 0x08000000, 0x108, ompi_mpi_group_null)                                          \
    X(REQUEST_NULL, 0x2c000000, 0x180, ompi_request_null)                                          \
    X(INFO_NULL, 0x1c000000, 0x130, ompi_mpi_info_null)                                            \
    X(ERRORS_RETURN, 0x54000001, 0x143, ompi_mpi_errors_return)                                    \
    X(COMM_NULL_COPY_FN, 0, 0, OMPI_C_MPI_COMM_NULL_COPY_FN)                                       \
    X(OP_NULL, 0x18000000, 0x20, ompi_mpi_op_null)                                                 \
    X(MAX, 0x58000001, 0x23, ompi_mpi_op_max)                                                      \
    X(MIN, 0x58000002, 0x22, ompi_mpi_op_min)                                                      \
    X(SUM, 0x58000003, 0x21, ompi_mpi_op_sum)                                                      \
    X(LOR, 0x58000007, 0x31, ompi_mpi_op_lor)                                                      \
    X(BOR, 0x58000008, 0x29, ompi_mpi_op_bor)                                                      \
    X(LXOR, 0x58000009, 0x32, ompi_mpi_op_lxor)                                                    \
    X(BXOR, 0x5800000a, 0x2a, ompi_mpi_op_bxor)                                                    \
    X(DATATYPE_NULL, 0x0c000000, 0x200, ompi_mpi_datatype_null)                                    \
    X(BYTE, 0x4c00010d, 0x247, ompi_mpi_byte)                                                      \
    X(FLOAT, 0x4c00040a, 0x210, ompi_mpi_float)                                                    \
    X(DOUBLE, 0x4c00080b, 0x214, ompi_mpi_double)                                                  \
    X(INT, 0x4c000405, 0x209, ompi_mpi_int)                                                        \
    X(UNSIGNED, 0x4c000406, 0x20d, ompi_mpi_unsigned)                                              \
    X(LONG, 0x4c000807, 0x20a, ompi_mpi_long)                                                      \
    X(UNSIGNED_LONG, 0x4c000808, 0x20e, ompi_mpi_unsigned_long)                                    \
    X(LONG_LONG, 0x4c000809, 0x20b, ompi_mpi_long_long_int)                                        \
    X(UNSIGNED_LONG_LONG, 0x4c000819, 0x20f, ompi_mpi_unsigned_long_long)                          \
    X(INT32_T, 0x4c000439, 0x250, ompi_mpi_int32_t)                                                \
    X(INT64_T, 0x4c00083a, 0x258, ompi_mpi_int64_t)                                                \
    X(UINT32_T, 0x4c00043d, 0x251, ompi_mpi_uint32_t)                                              \
    X(UINT64_T, 0x4c00083e, 0x259, ompi_mpi_uint64_t)                                              \
    X(AINT, 0x4c000843, 0x201, ompi_mpi_aint)                                                      \
    X(OFFSET, 0x4c000844, 0x203, ompi_mpi_offset)                                                  \
    X(COUNT, 0x4c000845, 0x202, ompi_mpi_count)                                                    \
    X(REAL, 0x4c00041c, 0x21a, ompi_mpi_real)                                                      \
    X(REAL4, 0x4c000427, 0x2d2, ompi_mpi_real4)                                                    \
    X(REAL8, 0x4c000829, 0x2da, ompi_mpi_real8)                                                    \
    X(DOUBLE_PRECISION, 0x4c00081f, 0x21c, ompi_mpi_dblprec)                                       \
    X(INTEGER, 0x4c00041b, 0x219, ompi_mpi_integer)                                                \
    X(INTEGER4, 0x4c000430, 0x2d1, ompi_mpi_integer4)                                              \
    X(INTEGER8, 0x4c000831, 0x2d9, ompi_mpi_integer8)

/* Addresses and numbers: the name, and the values in MPICH, the standard, and Open MPI. */
#define SHIM_ABI_ADDRESSES(X)                                                                      \
    X(IN_PLACE, UINTPTR_MAX, 1, 1)                                                                 \
    X(STATUS_IGNORE, 1, 0, 0)
#define SHIM_ABI_NUMBERS(X)                                                                        \
    X(TAG_UB, 0x64400001, 501, 0)                                                                  \
    X(ROOT, -3, -4, -4)                                                                            \
    X(UNEQUAL, 3, 204, 3)                                                                          \
    X(ERR_OTHER, 15, 16, 16)                                                                       \
    X(ERR_REQUEST, 19, 7, 7)                                                                       \
    X(THREAD_FUNNELED, 1, 1024, 1)                                                                 \
    X(THREAD_SERIALIZED, 2, 2048, 2)                                                               \
    X(THREAD_MULTIPLE, 3, 4096, 3)                                                                 \
    X(COMBINER_NAMED, 1, 101, 0)                                                                   \
    X(COMBINER_DUP, 2, 102, 1)                                                                     \
    X(COMBINER_CONTIGUOUS, 3, 103, 2)                                                              \
    X(COMBINER_F90_REAL, 15, 113, 14)                                                              \
    X(COMBINER_F90_COMPLEX, 16, 114, 15)                                                           \
    X(COMBINER_F90_INTEGER, 17, 115, 16)                                                           \
    X(MAX_ERROR_STRING, 512, 512, 256)

enum shim_abi_kind {
    SHIM_ABI_NONE, /* not known yet, or not served */
    SHIM_ABI_MPICH,
    SHIM_ABI_STANDARD, /* of MPI 5: libmpi_abi.so */
    SHIM_ABI_OPEN_MPI
};

struct shim_abi {
    enum shim_abi_kind kind;
    uintptr_t mask;             /* the bits of a word that a handle has */
    size_t handle;              /* bytes of a handle in memory */
    size_t status;              /* bytes of an MPI_Status */
    size_t source, tag, error;  /* offsets of its members */
    uintptr_t op_mask, op_bits; /* a predefined operator has these bits in the mask */
#define SHIM_MEMBER(name, ...) uintptr_t name;
    SHIM_ABI_HANDLES(SHIM_MEMBER)
    SHIM_ABI_ADDRESSES(SHIM_MEMBER)
#undef SHIM_MEMBER
#define SHIM_MEMBER(name, ...) int name;
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

/* Open MPI: what is known of an address. Bytes of an element if it is a predefined datatype (at
 * most SHIM_IS_TYPE), 0 for other addresses. */
enum shim_known { SHIM_IS_TYPE = 64, SHIM_IS_OP, SHIM_IS_NULL, SHIM_IS_NULL_FN, SHIM_IS_DUP_FN };
enum { SHIM_KNOWN = 256 };
extern __attribute__((visibility("hidden"))) struct shim_known_slot {
    uintptr_t address;
    uint8_t what;
} shim_known[SHIM_KNOWN];

static inline size_t shim_known_slot(uintptr_t address)
{
    return (uint32_t)(address >> 3) * 2654435761u >> 24; /* SHIM_KNOWN = 2^8 */
}

/* Looks up an address; a free slot ends the search. */
static inline unsigned shim_known_as(uintptr_t address)
{
    size_t i = shim_known_slot(address);

    while (shim_known[i].address != address && shim_known[i].address != 0)
        i = (i + 1) % SHIM_KNOWN;
    return address != 0 ? shim_known[i].what : 0;
}

/* Fills in the table. Called once, before the first call is served. */
void shim_abi_set(enum shim_abi_kind kind);

/* shim/mpi/open_mpi.c: fills in the table of Open MPI. `find` returns the address of a symbol, or
 * NULL. Returns false if a symbol is missing. */
typedef void *shim_find_fn(void *ctx, const char *symbol);
bool shim_abi_set_open_mpi(shim_find_fn *find, void *ctx);

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
