/* The selection in plain C, and the element-by-element functions of all tables. */
#include "core/compute/select_impl.h"
#include "core/compute/vector.h"

enum { SS_VECTOR_BYTES = 16, LANES_32 = 4, LANES_64 = 2 };

struct seen {
    uint64_t largest, any;
};

struct sums {
    double g[SS_PARTIALS], a[SS_PARTIALS];
};

SS_INLINE struct seen seen_load(const struct ss_pass *pass)
{
    return (struct seen){pass->out.largest, pass->any_input};
}

SS_INLINE struct sums sums_load(const struct ss_pass *pass)
{
    struct sums sums;
    memcpy(sums.g, pass->input_square, sizeof sums.g);
    memcpy(sums.a, pass->sum_square, sizeof sums.a);
    return sums;
}

SS_INLINE void sums_store(const struct sums *sums, struct ss_pass *pass)
{
    memcpy(pass->input_square, sums->g, sizeof sums->g);
    memcpy(pass->sum_square, sums->a, sizeof sums->a);
}

SS_INLINE enum source source_of(const void *g, const void *r)
{
    return g && r ? BOTH : g ? INPUT : RESIDUAL;
}

#define WIDTH 32
#include "core/compute/select_take.inc"
#define WIDTH 64
#include "core/compute/select_take.inc"

#define WIDTH 32
#include "core/compute/select_plain.inc"
#define WIDTH 64
#include "core/compute/select_plain.inc"

size_t ss_vector_not_finite(enum ss_type type, const void *g, const void *r, size_t n)
{
    return type == SS_F32 ? not_finite_32(g, r, n) : not_finite_64(g, r, n);
}

void ss_pass_end(struct ss_pass *pass, struct ss_selection *out)
{
    for (size_t half = SS_PARTIALS / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++) {
            pass->input_square[j] += pass->input_square[j + half];
            pass->sum_square[j] += pass->sum_square[j + half];
        }
    *out = pass->out;
    out->zero_input = pass->any_input == 0;
    out->input_square = pass->input_square[0];
    out->sum_square = pass->sum_square[0];
}

#define TABLE      ss_selectors_plain
#define TABLE_NAME "plain"
#include "core/compute/select_table.inc"
