/* clang-format off */
/* Messages: a header of 16 bytes and a payload, which holds one chunk of a stream or dense
 * elements.
 *
 * Little-endian (other hosts are refused at compile time). A stream travels as one or more chunks
 * in ascending index order; bit 7 of the phase marks the last chunk. Each chunk can be decoded alone.
 * The decoder checks everything before use: a malformed message is SS_ERR_MESSAGE, never an
 * overflow.
 *
 *     header   u8 magic 0x5a | u8 version (high 4 bits), type |
 *              u8 enum ss_values of the values (high 4 bits), representation |
 *              u8 phase, bit 7: last chunk | u32 call | u32 nnz | u32 length of the payload in bytes
 *     u32      values[nnz], then u32 index[nnz]
 *     packed   values[nnz], u32 first index, u8 Rice parameter (bit 7: the absent indices are coded),
 *              then the gaps (index - previous - 1) Rice coded, LSB first (core/wire/rice.h: escape after
 *              32 ones, at most 33 bits per gap on average). From SS_RICE_LONG entries on, there stand
 *              between parameter and code: u8[3] zero, u32 last index, and for each run of SS_RICE_RUN
 *              gaps the u16 bits of its code, so that runs can be decoded in parallel
 *     bitmap   values[nnz], u32 first, u32 span, then span bits, LSB first (bit set = present; first
 *              and last bit are set)
 *     dense    u32 first, u32 reserved (keeps values aligned), values[nnz]; nnz consecutive elements
 *              from first
 *     quantized  u32 first, u32 reserved, nnz consecutive elements from first as
 *              core/compute/quantize.h codes them
 *     error    no payload: the sender failed, nnz is its status
 *
 * If the values are not SS_VALUES_SAME, their coded form (core/wire/values.h) replaces values[nnz];
 * floats only, nnz > 0.
 *
 * Offsets of values are multiples of 8 when the message buffer is. Source: SparCML section 5.1
 * (streams); Rice 1979 (gap code).
 */
/* clang-format on */
#ifndef CORE_WIRE_WIRE_H
#define CORE_WIRE_WIRE_H

#include "core/base/types.h"
#include "core/wire/values.h"

enum { SS_WIRE_MAGIC = 0x5a, SS_WIRE_VERSION = 3, SS_WIRE_HEADER = 16, SS_WIRE_PHASES = 16 };

/* Coding of entry indices. AUTO takes the smallest form for each chunk, dense included; each other
 * choice forces its form. */
enum ss_coding { SS_CODING_AUTO, SS_CODING_U32, SS_CODING_PACKED, SS_CODING_BITMAP };

enum ss_rep {
    SS_REP_U32,
    SS_REP_PACKED,
    SS_REP_BITMAP,
    SS_REP_DENSE,
    SS_REP_ERROR,
    SS_REP_QUANTIZED,
    SS_REPS
};

/* Most entries of a sparse chunk, and most elements of a dense one. The bound lets receives be
 * posted before the length is known. */
#define SS_CHUNK_ENTRIES 32768u

/* Most elements of a quantized chunk, whole buckets. It is no longer than a sparse chunk. */
#define SS_CHUNK_QUANTIZED 65536u

/* A packed chunk with runs, not decoded, for a backend that decodes by itself. The decoder has
 * checked everything but the codes: each run must end where the next begins, and the last index
 * must be `last`. */
struct ss_coded {
    const unsigned char *payload; /* values, then indices */
    size_t bytes;                 /* bytes of the payload */
    size_t values;                /* bytes of the values, coded as `how` */
    size_t runs, code;            /* offsets of the runs' bits and of their code in the payload */
    enum ss_values how;           /* SS_VALUES_SAME, SS_VALUES_BF16 or SS_VALUES_Q8 */
    uint32_t nnz, first, last;    /* last < n */
    unsigned parameter;
    uint32_t *idx; /* scratch of the caller, for decoding on the host */
    void *val;     /* scratch of the caller for values */
    int sender;    /* set by the caller: rank that sent the chunk */
};

/* A decoded chunk. Pointers lead into the message or into the caller's scratch. */
struct ss_chunk {
    enum ss_rep rep;
    uint32_t nnz;
    uint32_t first;        /* dense, quantized: index of the first element */
    const uint32_t *idx;   /* sparse: ascending, all < n; NULL for dense */
    const void *val;       /* nnz elements, aligned for their type; quantized: their codes */
    enum ss_values values; /* quantized: the coding */
    bool last;
    int error;                    /* rep error: status of the sender (< 0) */
    const struct ss_coded *coded; /* if not NULL, the chunk is not decoded: idx and val are unset */
};

/* Fields that sender and receiver know of a message; a difference is SS_ERR_MESSAGE. */
struct ss_wire_key {
    enum ss_type type;
    uint32_t call;  /* number of the call on its communicator, mod 2^32 */
    unsigned phase; /* phase of the algorithm, < SS_WIRE_PHASES */
};

/* Values that are rounded while they are encoded (core/wire/values.h). */
struct ss_wire_rounding {
    const struct ss_rounding *how; /* not SS_VALUES_SAME */
    void *val;                     /* values to encode, rounded in place */
    void *error;                   /* rounding errors, parallel to val, or NULL */
    uint64_t position;             /* number of values of the stream before these */
};

/* Returns the bytes that hold any message of at most `entries` entries (<= SS_CHUNK_ENTRIES) of
 * this type in the worst coding, rounded or not. Includes 8 bytes behind the message that the
 * encoder may overwrite. */
size_t ss_wire_bound(enum ss_type type, uint32_t entries);

/* Encodes entries of a stream into msg (ss_wire_bound(type, nnz) bytes, 8-byte aligned). idx is
 * ascending and unique; nnz <= SS_CHUNK_ENTRIES. `last` marks the end of the stream. If `rounding`
 * is not NULL, its values replace val. Returns the length of the message in bytes.
 *
 * SS_CODING_AUTO takes the smallest of u32, packed, bitmap and dense, which covers first..last
 * index and writes absent elements as zero. Dense is excluded if an entry is +0.0 or values are
 * rounded. A forced bitmap that would exceed the bound becomes packed.
 */
size_t ss_wire_encode(void *msg, const struct ss_wire_key *key, enum ss_coding coding,
                      const uint32_t *idx, const void *val, uint32_t nnz, bool last,
                      const struct ss_wire_rounding *rounding);

/* Encodes n (<= SS_CHUNK_ENTRIES) consecutive elements from index `first`. Returns the length of
 * the message in bytes. */
size_t ss_wire_encode_dense(void *msg, const struct ss_wire_key *key, uint32_t first,
                            const void *val, uint32_t n, bool last,
                            const struct ss_wire_rounding *rounding);

/* Returns the place of the codes in a quantized message, which has ss_wire_bound bytes. Once the
 * codes of n (<= SS_CHUNK_QUANTIZED) elements from index `first` are there,
 * ss_wire_finish_quantized writes the header and returns the length of the message in bytes. */
void *ss_wire_codes(void *msg);
const void *ss_wire_codes_of(const void *msg);
size_t ss_wire_finish_quantized(void *msg, const struct ss_wire_key *key, enum ss_values values,
                                uint32_t first, uint32_t n, bool last);

/* Writes an error header: 16 bytes, always the last message of a stream. Returns its length. */
size_t ss_wire_encode_error(void *msg, const struct ss_wire_key *key, int status);

/* Returns the length in bytes of a message that this process has encoded. */
size_t ss_wire_length(const void *msg);

/* Buffers that a message is decoded into, owned by the caller. */
struct ss_wire_scratch {
    uint32_t *idx;          /* SS_CHUNK_ENTRIES indices */
    void *val;              /* SS_CHUNK_ENTRIES elements, aligned; NULL: coded values are refused */
    struct ss_coded *coded; /* filled if the chunk may stay encoded; NULL: every chunk is decoded */
};

/* Decodes and validates a message of len bytes over a range of n elements. Indices must ascend, be
 * < n, and be at least `from`, one past the last index of the stream's chunk before. Returns SS_OK
 * or SS_ERR_MESSAGE; never reads past msg + len. */
int ss_wire_decode(const void *msg, size_t len, const struct ss_wire_key *key, uint32_t from,
                   uint32_t n, const struct ss_wire_scratch *scratch, struct ss_chunk *out);

/* Decodes a chunk that ss_wire_decode has left encoded: indices to coded->idx, values to *val.
 * Returns SS_OK or SS_ERR_MESSAGE. */
int ss_wire_decode_coded(const struct ss_coded *coded, enum ss_type type, const void **val);

/* Returns the expected bytes per entry of a uniform index set of density d, for the plan. Includes
 * values, excludes headers; `how` may be NULL. */
double ss_wire_bytes_per_entry(enum ss_type type, const struct ss_rounding *how, double d);

#endif
