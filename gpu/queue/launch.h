/* Launches of kernels. Each function puts launches into a queue, which runs them one after the
 * other, and returns at once. Addresses are of device memory; `type` is that of the elements. Work
 * space and results belong to the caller, who keeps them until the launches have run. core/compute
 * has the same functions for the host; g, r, base, threshold and other parameters mean the same
 * there. */
#ifndef GPU_LAUNCH_H
#define GPU_LAUNCH_H

#include "core/base/types.h"
#include "core/wire/wire.h"
#include "gpu/kernels/kernel_list.h"
#include "gpu/kernels/results.h"

/* A stream of a device, or an emulation. `error` has the first failure, as a code of the queue's
 * own kind; further launches are then dropped. */
struct gpu_queue {
    int (*launch)(struct gpu_queue *q, enum gpu_kernel kernel, unsigned blocks, void **params);
    int (*fill)(struct gpu_queue *q, void *to, uint32_t word, size_t words);
    int error;
};

/* Gradient and residual; either may be NULL. */
struct gpu_input {
    enum ss_type type; /* SS_F32 or SS_F64 */
    const void *g;
    void *r;
    size_t n; /* 1..SS_WINDOW */
    uint32_t base;
    uint32_t *overflows; /* (n + 31) / 32 words, zero but between a claim that counted overflows
                            and its undo; NULL: such a claim cannot be undone */
};

struct gpu_list {
    uint32_t *idx;
    void *val;
    size_t room;
};

/* ---- selection ---- */

/* Bytes that `work` of a claim has: struct gpu_claimed is at its beginning afterwards. */
size_t gpu_claim_work(enum ss_type type, size_t n);

/* As ss_selectors.select, but that an overflow does not end the pass: such an entry is left alone,
 * counted in not_finite and overflowed, and noted. The threshold is `found` in device memory where
 * that is not NULL (0 there counts as 1). Sums of squares differ from the host's in their order. */
void gpu_claim(struct gpu_queue *q, const struct gpu_input *in, uint64_t threshold,
               const uint64_t *found, const struct gpu_list *to, void *work);

/* Takes a claim back. overflowed: what it counted. */
void gpu_undo(struct gpu_queue *q, const struct gpu_input *in, const struct gpu_list *claims,
              size_t claimed, bool overflowed);

/* As ss_select_buckets; `reached` of the result are the claims. */
size_t gpu_buckets_work(size_t n, size_t bucket);
void gpu_claim_buckets(struct gpu_queue *q, const struct gpu_input *in, size_t k, size_t bucket,
                       const struct gpu_list *to, void *work);

/* As ss_exact_threshold, k >= 1, by radix: low is the threshold (0: none), above and count as
 * there. bins: GPU_BINS words. */
void gpu_find(struct gpu_queue *q, const struct gpu_input *in, size_t k, struct gpu_search *found,
              uint32_t *bins);

/* gpu_find over a sample, 64 elements of each `step`; and the number of elements of the sample that
 * reach a threshold. */
void gpu_find_sampled(struct gpu_queue *q, const struct gpu_input *in, size_t step, size_t k,
                      struct gpu_search *found, uint32_t *bins);
void gpu_reach_sampled(struct gpu_queue *q, const struct gpu_input *in, size_t step,
                       uint64_t threshold, uint64_t *count);

/* gpu_find and gpu_claim with that threshold, in about one pass over memory. If kept.missed,
 * nothing is claimed, and the residual holds a = g + r in each finite entry. If all entries were
 * finite, find and claim again then, from the residual alone if there is one. The sums of `claimed`
 * over the input are right in any case. */
struct gpu_exact {
    struct gpu_search bound, found;
    struct gpu_kept kept;
    struct gpu_claimed claimed; /* `reached` counts the entries that the bound let through */
};
size_t gpu_exact_room(size_t n, size_t k); /* entries that `between` has */
size_t gpu_exact_work(enum ss_type type, size_t n, size_t k);
/* work: struct gpu_exact at its beginning. */
void gpu_claim_exact(struct gpu_queue *q, const struct gpu_input *in, size_t k,
                     const struct gpu_list *between, const struct gpu_list *to, void *work);

/* ---- streams; indices of a call are unique ---- */

/* Coded indices of a message (struct ss_coded). The payload is at `words`, aligned to 4 bytes; the
 * 16 bytes behind it must be readable. If it does not code `nnz` indices from first to last,
 * *refused and *told become 1; else *refused becomes 0. `told` may be pinned memory of the host. */
struct gpu_code {
    const void *words;
    uint32_t runs, code; /* bytes before them */
    uint32_t parameter, first, last, nnz;
};
void gpu_unpack(struct gpu_queue *q, const struct gpu_code *code, uint32_t *idx, uint32_t *refused,
                uint32_t *told);

/* Rounded values, bf16 or q8, as ss_values_look (core/wire/value_buckets.h) knows them: `offsets`
 * are those of their buckets. *refused and *told become 1 where there is no such code. */
struct gpu_rounded {
    const void *from;
    const uint32_t *offsets;
    uint32_t bucket, nnz;
    bool bf16;
};
void gpu_widen(struct gpu_queue *q, enum ss_type type, const struct gpu_rounded *values, void *to,
               uint32_t *refused, uint32_t *told);

/* Entries on their way out, `messages` of them described by `table`, in device memory: see struct
 * gpu_message. Each becomes what ss_wire_encode makes of it, in an area aligned to 8 bytes; their
 * lengths in bytes go to `lengths`. Rounded values are nearest, bf16 or q8; val and error, which
 * may be NULL, are written then. */
struct gpu_outgoing {
    enum ss_type type;
    const uint32_t *idx;
    void *val, *error;
    const struct gpu_message *table;
    size_t messages;
    uint32_t head, call; /* of a header; head without representation and end */
    uint32_t coding;     /* enum ss_coding */
    uint32_t bucket;     /* values of one scale */
};
uint32_t gpu_wire_head(const struct ss_wire_key *key, enum ss_values values);
void gpu_encode(struct gpu_queue *q, const struct gpu_outgoing *out, void *area, uint32_t *lengths);

/* Sums over `count` ranges of indices, from cuts[i] up to cuts[i + 1], in device memory. */
void gpu_survey(struct gpu_queue *q, enum ss_type type, const uint32_t *idx, const void *val,
                size_t nnz, const uint32_t *cuts, size_t count, struct gpu_share *shares);

size_t gpu_scan_work(enum ss_type type, size_t n);
/* struct gpu_scanned at the beginning of `work`. `stop` means something where nnz > room. */
void gpu_scan(struct gpu_queue *q, enum ss_type type, enum ss_op op, const void *src, size_t n,
              uint32_t base, const struct gpu_list *to, void *work);
/* A bit of `words`, (bits + 31) / 32 of them, for each index of first .. first + bits - 1. */
void gpu_bitmap(struct gpu_queue *q, const uint32_t *idx, size_t nnz, uint32_t first, size_t bits,
                uint32_t *words);
/* refused: NULL, or what gpu_unpack says of idx: then nothing is done. */
void gpu_scatter(struct gpu_queue *q, enum ss_type type, void *dst, uint32_t base,
                 const uint32_t *idx, const void *val, size_t nnz, const uint32_t *refused);
void gpu_accumulate(struct gpu_queue *q, enum ss_type type, enum ss_op op, void *dst, uint32_t base,
                    const uint32_t *idx, const void *val, size_t nnz, const uint32_t *refused);
void gpu_clear_at(struct gpu_queue *q, enum ss_type type, void *dst, uint32_t base,
                  const uint32_t *idx, size_t nnz);
void gpu_add_at(struct gpu_queue *q, enum ss_type type, void *r, uint32_t base, const uint32_t *idx,
                const void *val, size_t count);
void gpu_pick(struct gpu_queue *q, enum ss_type type, const void *v, const uint32_t *indices,
              size_t count, void *to);

/* ---- dense vectors ---- */

void gpu_clear(struct gpu_queue *q, enum ss_type type, void *v, size_t n);
void gpu_reduce(struct gpu_queue *q, enum ss_type type, enum ss_op op, void *dst, const void *src,
                size_t n);
void gpu_add(struct gpu_queue *q, enum ss_type type, void *r, const void *val, size_t n);
void gpu_join(struct gpu_queue *q, enum ss_type type, const void *in, const void *r, void *out,
              size_t n, double share);
void gpu_leave(struct gpu_queue *q, enum ss_type type, void *r, size_t n, double share);
void gpu_scale(struct gpu_queue *q, enum ss_type type, void *r, size_t n, double factor);

/* A sum of squares: the double at the beginning of `work`. */
size_t gpu_square_work(enum ss_type type, size_t n);
void gpu_square(struct gpu_queue *q, enum ss_type type, const void *v, size_t n, void *work);

/* Into device memory, which they clear first. any_bit: whether some bit is set. */
void gpu_not_finite(struct gpu_queue *q, enum ss_type type, const void *g, const void *r, size_t n,
                    uint64_t *count);
void gpu_any_bit(struct gpu_queue *q, enum ss_type type, const void *v, size_t n, uint32_t *any);
void gpu_largest(struct gpu_queue *q, enum ss_type type, const void *v, size_t n,
                 uint64_t *largest);

/* The sketch of a vector as GPU_SKETCH integers, in units of 2^-shift; Inf and NaN are left out.
 * The shift is from the largest magnitude, so that no sum overflows. */
int gpu_sketch_shift(enum ss_type type, uint64_t largest, size_t n);
void gpu_sketch(struct gpu_queue *q, enum ss_type type, const void *v, size_t n, int shift,
                int64_t *sums);

#endif
