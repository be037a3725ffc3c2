/* clang-format off */
/* Messages: a header of 16 bytes and a payload that holds one chunk of a sparse stream, or dense
 * elements.
 *
 * Little-endian (other hosts are refused at compile time). A stream travels as one or more chunks
 * in ascending index order; the last one carries SS_WIRE_LAST. Each chunk can be decoded alone.
 * Everything is checked before use: a malformed message is SS_ERR_MESSAGE, never an overflow.
 *
 *     header   u8 magic 0x5a | u8 version (high 4 bits), type |
 *              u8 enum ss_values of the values (high 4 bits), representation |
 *              u8 phase, bit 7: last chunk | u32 call | u32 nnz | u32 length of the payload in bytes
 *     u32      values[nnz], then u32 index[nnz]
 *     packed   values[nnz], u32 first index, u8 Rice parameter (bit 7: the absent indices are coded),
 *              then the gaps (index - previous - 1) Rice coded, LSB first (core/wire/rice.h: escape after
 *              32 ones, at most 33 bits per gap on average). Gaps of SS_RICE_LONG entries and more
 *              have between parameter and code: u8[3] zero, u32 last index, and for each run of
 *              SS_RICE_RUN gaps the u16 bits of its code, so that runs can be read beside each other
 *     bitmap   values[nnz], u32 first, u32 span, then span bits, LSB first (bit set = present; first
 *              and last bit are set)
 *     dense    u32 first, u32 reserved (keeps values aligned), values[nnz]; nnz consecutive elements
 *              from first
 *     error    no payload: the sender failed, its status in nnz
 *
 * Where the values are not SS_VALUES_SAME, their coded form (core/wire/values.h) stands in place of
 * values[nnz]; floats only, nnz > 0.
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

enum ss_rep { SS_REP_U32, SS_REP_PACKED, SS_REP_BITMAP, SS_REP_DENSE, SS_REP_ERROR, SS_REPS };

/* Most entries of a sparse chunk, and elements of a dense one: bounds every message, so that
 * receives are posted before the length is known. */
#define SS_CHUNK_ENTRIES 32768u

/* A packed chunk with places to start from as it came, for a reader of its own: everything is
 * checked but what the codes of its runs say, which must end where they are told to and at `last`.
 */
struct ss_coded {
    const unsigned char *payload; /* values, and what stands behind them */
    size_t bytes;                 /* of the payload, */
    size_t values;                /* of its values, which are `how`; */
    size_t runs, code;            /* and where in it the bits of the runs and their codes are */
    enum ss_values how;           /* SS_VALUES_SAME, SS_VALUES_BF16 or SS_VALUES_Q8 */
    uint32_t nnz, first, last;    /* last < n */
    unsigned parameter;
    uint32_t *idx; /* the caller's scratch, where the host decodes it, */
    void *val;     /* for values as well */
    int sender;    /* the caller's, to say whose it is */
};

/* A decoded chunk. Pointers lead into the message or into the caller's scratch. */
struct ss_chunk {
    enum ss_rep rep;
    uint32_t nnz;
    uint32_t first;      /* dense: index of values[0] */
    const uint32_t *idx; /* sparse: ascending, all < n; NULL for dense */
    const void *val;     /* nnz elements, aligned for their type */
    bool last;
    int error;                    /* rep error: the sender's status (< 0) */
    const struct ss_coded *coded; /* not NULL: neither idx nor val are there, it is as it came */
};

/* What sender and receiver of a message both know; a difference is SS_ERR_MESSAGE. */
struct ss_wire_key {
    enum ss_type type;
    uint32_t call;  /* number of the call on its communicator, mod 2^32 */
    unsigned phase; /* of the recipe, < SS_WIRE_PHASES */
};

/* Values that are rounded as they are encoded (core/wire/values.h). */
struct ss_wire_rounding {
    const struct ss_rounding *how; /* not SS_VALUES_SAME */
    void *val;                     /* those to encode: rounded in place */
    void *error;                   /* parallel to them, or NULL */
    uint64_t position;             /* values of the stream before these */
};

/* Bytes that hold any message with at most `entries` entries (<= SS_CHUNK_ENTRIES) of this type
 * over a range of n elements, in the worst coding allowed to the sender, rounded or not, and 8
 * bytes past the message's end that the encoder may overwrite. */
size_t ss_wire_bound(enum ss_type type, uint32_t entries);

/* Encodes entries of a stream over [0, n) into msg (ss_wire_bound(type, nnz) bytes, 8-byte
 * aligned); idx ascending and unique, < n; nnz <= SS_CHUNK_ENTRIES. `last` marks the end of the
 * stream. Under SS_CODING_AUTO the smallest of u32, packed, bitmap and dense (absent elements
 * written as zero, over first..last index; not where an entry is +0.0 itself or values are rounded)
 * is taken; forced bitmap falls back to packed where the bitmap would pass the bound. With
 * `rounding` its values are taken in place of val. Returns the message's length in bytes. */
size_t ss_wire_encode(void *msg, const struct ss_wire_key *key, enum ss_coding coding,
                      const uint32_t *idx, const void *val, uint32_t nnz, bool last,
                      const struct ss_wire_rounding *rounding);

/* Encodes n (<= SS_CHUNK_ENTRIES) consecutive elements from index `first`, likewise. Returns the
 * length in bytes. */
size_t ss_wire_encode_dense(void *msg, const struct ss_wire_key *key, uint32_t first,
                            const void *val, uint32_t n, bool last,
                            const struct ss_wire_rounding *rounding);

/* Writes an error header: 16 bytes, always last. */
size_t ss_wire_encode_error(void *msg, const struct ss_wire_key *key, int status);

/* Length in bytes of a message that was encoded here. */
size_t ss_wire_length(const void *msg);

/* Where a message is decoded to; the caller's. */
struct ss_wire_scratch {
    uint32_t *idx;          /* SS_CHUNK_ENTRIES of them */
    void *val;              /* as many elements, aligned for them; NULL: coded values are refused */
    struct ss_coded *coded; /* where it can be told of a chunk as it came; NULL: all are decoded */
};

/* Decodes and validates a message of len bytes over a range of n elements (indices must be >=
 * `from`, ascending and < n: `from` is one past the last index of the stream's former chunk). SS_OK
 * or SS_ERR_MESSAGE; never reads past msg + len. */
int ss_wire_decode(const void *msg, size_t len, const struct ss_wire_key *key, uint32_t from,
                   uint32_t n, const struct ss_wire_scratch *scratch, struct ss_chunk *out);

/* Decodes what was left as it came: the indices are at coded->idx then, the values at *val. SS_OK
 * or SS_ERR_MESSAGE. */
int ss_wire_decode_coded(const struct ss_coded *coded, enum ss_type type, const void **val);

/* Expected bytes per entry of a uniform index set of density d under `coding` (values included,
 * headers not), `how` NULL or rounded: for the plan. */
double ss_wire_bytes_per_entry(enum ss_type type, const struct ss_rounding *how,
                               enum ss_coding coding, double d);

#endif
