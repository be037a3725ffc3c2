/* The kernels in plain C; scatter, accumulate and merge serve all tables. */
#include "core/compute/kernels_impl.h"

enum { SS_VECTOR_BYTES = 16, SS_FEW = SS_BLOCK };

struct flags {
    bool negative_zero, not_finite;
};

SS_INLINE struct flags flags_none(void)
{
    return (struct flags){false, false};
}

#define WIDTH 32
#include "core/compute/kernels_plain.inc"
#define WIDTH 64
#include "core/compute/kernels_plain.inc"

void ss_plain_scatter(enum ss_type type, void *dst, uint32_t base, const uint32_t *idx,
                      const void *val, size_t nnz)
{
    if (ss_type_size(type) == 4)
        scatter_32(dst, base, idx, val, nnz);
    else
        scatter_64(dst, base, idx, val, nnz);
}

/* Returns the same as ss_lower_bound in a time of O(log of the result). */
static size_t gallop(const uint32_t *idx, size_t nnz, uint32_t bound)
{
    size_t high = 1;
    while (high < nnz && idx[high - 1] < bound)
        high *= 2;
    size_t low = high / 2;
    return low + ss_lower_bound(idx + low, (high < nnz ? high : nnz) - low, bound);
}

/* If one side is LOPSIDED times longer than the other, the merge searches and copies runs. */
enum { LOPSIDED = 32 };

/* Positions of a merge in a, b and out. Two merges run interleaved, for the lower and the upper
 * half of the indices, since each step waits for the one before it. */
struct merge {
    size_t a, a_end, b, b_end, out;
};

#define EACH "core/compute/kernels_merge.inc"
#include "core/compute/each_combination.inc"

void ss_plain_accumulate(enum ss_type type, enum ss_op op, void *dst, uint32_t base,
                         const uint32_t *idx, const void *val, size_t nnz)
{
    static void (*const table[SS_TYPES][SS_OPS])(void *, uint32_t, const uint32_t *, const void *,
                                                 size_t) = SS_COMBINATION_TABLE(accumulate);
    table[type][op](dst, base, idx, val, nnz);
}

size_t ss_plain_merge(enum ss_type type, enum ss_op op, const uint32_t *a_idx, const void *a_val,
                      size_t a_nnz, const uint32_t *b_idx, const void *b_val, size_t b_nnz,
                      uint32_t *out_idx, void *out_val)
{
    static size_t (*const table[SS_TYPES][SS_OPS])(
        const uint32_t *, const void *, size_t, const uint32_t *, const void *, size_t, uint32_t *,
        void *) = SS_COMBINATION_TABLE(merge);
    if (a_nnz == 0 || b_nnz == 0) { /* their arrays may be NULL */
        size_t nnz = a_nnz + b_nnz;
        if (nnz > 0) {
            memcpy(out_idx, a_nnz ? a_idx : b_idx, nnz * sizeof *out_idx);
            memcpy(out_val, a_nnz ? a_val : b_val, nnz * ss_type_size(type));
        }
        return nnz;
    }
    return table[type][op](a_idx, a_val, a_nnz, b_idx, b_val, b_nnz, out_idx, out_val);
}

#define TABLE      ss_kernels_plain
#define TABLE_NAME "plain"
#include "core/compute/kernels_table.inc"
