/* gTop-k on dense vectors, rank after rank: core/coll/gtopk.c must equal it bit for bit. */
#ifndef TESTS_UNIT_GTOPK_REFERENCE_H
#define TESTS_UNIT_GTOPK_REFERENCE_H

#include "tests/unit/support/training.h"

enum { N = 600, MOST = 16 }; /* elements; most ranks */

struct piece {
    uint32_t idx;
    double val;
};

/* A stream as a dense vector. */
struct node {
    bool has[N];
    double val[N];
};

struct reference {
    int size;
    enum ss_type type;
    size_t k;
    double residual[MOST][N];
    struct node claims[MOST], at[MOST];
    struct piece left[MOST][8 * N];
    size_t left_count[MOST];
};

static inline double add(const struct reference *ref, double a, double b)
{
    return ref->type == SS_F32 ? (double)((float)a + (float)b) : a + b;
}

static inline int larger_first(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    double m = fabs(x->val), l = fabs(y->val);

    if (m != l)
        return m > l ? -1 : 1;
    return x->idx < y->idx ? -1 : 1;
}

static inline size_t list(const struct node *node, struct piece *pieces)
{
    size_t count = 0;

    for (uint32_t i = 0; i < N; i++)
        if (node->has[i])
            pieces[count++] = (struct piece){i, node->val[i]};
    return count;
}

/* Keeps the k largest entries, and appends the cut ones to the list of `rank` in the order of
 * indices. */
static inline void keep_largest(struct reference *ref, struct node *node, int rank)
{
    static struct piece pieces[N];
    size_t count = list(node, pieces);
    bool gone[N] = {false};

    qsort(pieces, count, sizeof *pieces, larger_first);
    for (size_t i = ref->k; i < count; i++)
        gone[pieces[i].idx] = true;
    for (uint32_t i = 0; i < N; i++)
        if (gone[i]) {
            ref->left[rank][ref->left_count[rank]++] = (struct piece){i, node->val[i]};
            node->has[i] = false;
        }
}

/* Selects all entries whose magnitude reaches that of the k-th largest, at most 4k/3. */
static inline void claim(struct reference *ref, int rank, const void *gradient)
{
    static struct piece pieces[N];
    struct node *claims = &ref->claims[rank];
    size_t count = 0, claimed = 0;

    for (uint32_t i = 0; i < N; i++) {
        double *r = &ref->residual[rank][i];
        *r = add(ref, get(ref->type, gradient, i), *r);
        claims->has[i] = false;
        if (*r != 0)
            pieces[count++] = (struct piece){i, *r};
    }
    qsort(pieces, count, sizeof *pieces, larger_first);
    double least = count > ref->k ? fabs(pieces[ref->k - 1].val) : 0;
    for (uint32_t i = 0; i < N && claimed < ref->k * 4 / 3; i++) {
        double *r = &ref->residual[rank][i];
        if (*r == 0 || fabs(*r) < least)
            continue;
        claims->has[i] = true;
        claims->val[i] = *r;
        *r = 0;
        claimed++;
    }
}

static inline void join(const struct reference *ref, struct node *a, const struct node *b)
{
    for (size_t i = 0; i < N; i++) {
        if (b->has[i])
            a->val[i] = a->has[i] ? add(ref, a->val[i], b->val[i]) : b->val[i];
        a->has[i] |= b->has[i];
    }
}

static inline int rank_at(int position, int rem)
{
    return position < rem ? 2 * position + 1 : position + rem;
}

/* Makes one call. Returns the final set, which is the same for all ranks. */
static inline const struct node *reference_call(struct reference *ref, void *const *gradient)
{
    int pof2 = 1;

    while (pof2 * 2 <= ref->size)
        pof2 *= 2;
    int rem = ref->size - pof2;
    for (int r = 0; r < ref->size; r++) {
        ref->left_count[r] = 0;
        claim(ref, r, gradient[r]);
        ref->at[r] = ref->claims[r];
        keep_largest(ref, &ref->at[r], r);
    }
    for (int p = 0; p < rem; p++) {
        join(ref, &ref->at[2 * p + 1], &ref->at[2 * p]);
        keep_largest(ref, &ref->at[2 * p + 1], 2 * p + 1);
    }
    for (int half = 1; half < pof2; half *= 2)
        for (int p = 0; p < pof2;
             p += 2 * half) { /* the stream of a group is at the group's first position */
            struct node *low = &ref->at[rank_at(p, rem)];
            join(ref, low, &ref->at[rank_at(p + half, rem)]);
            keep_largest(ref, low, rank_at(p + half - 1, rem));
        }
    const struct node *final = &ref->at[rank_at(0, rem)];
    for (int r = 0; r < ref->size; r++) {
        double *residual = ref->residual[r];
        for (size_t j = 0; j < ref->left_count[r]; j++) {
            const struct piece *p = &ref->left[r][j];
            if (final->has[p->idx])
                residual[p->idx] = add(ref, residual[p->idx], p->val);
        }
        for (size_t i = 0; i < N; i++)
            if (ref->claims[r].has[i] && !final->has[i])
                residual[i] = add(ref, residual[i], ref->claims[r].val[i]);
    }
    return final;
}

#endif
