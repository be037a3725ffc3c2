/* Data of the ranks of a job, and calls on it. */
#ifndef TESTS_TENSOR_DATA_H
#define TESTS_TENSOR_DATA_H

#include "tests/unit/support/tensor_job.h"

struct data {
    size_t n;
    enum ss_type type;
    void *in[MOST];
    void *out;
};

static inline struct data data_make(enum ss_type type, size_t n)
{
    struct data d = {.n = n, .type = type};

    for (int r = 0; r < MOST; r++)
        d.in[r] = calloc(n, 8);
    d.out = calloc(n, 8);
    return d;
}

static inline void data_free(struct data *d)
{
    for (int r = 0; r < MOST; r++)
        free(d->in[r]);
    free(d->out);
}

static inline void set(struct data *d, int rank, size_t i, double x)
{
    if (d->type == SS_F32)
        ((float *)d->in[rank])[i] = (float)x;
    else
        ((double *)d->in[rank])[i] = x;
}

static inline void sum_up(struct data *d, int size)
{
    for (size_t i = 0; i < d->n; i++) {
        double sum = 0;
        for (int r = 0; r < size; r++)
            sum += d->type == SS_F32 ? (double)((float *)d->in[r])[i] : ((double *)d->in[r])[i];
        if (d->type == SS_F32)
            ((float *)d->out)[i] = (float)sum;
        else
            ((double *)d->out)[i] = sum;
    }
}

static inline struct ss_tensor *call_with(struct job *job, struct data *d, uint32_t lane)
{
    struct shape call = {.lane = lane,
                         .site = 7,
                         .address = {(const void *)(uintptr_t)(64 * (lane + 1))},
                         .n = d->n,
                         .type = d->type};

    for (int r = 0; r < job->size; r++)
        call.in[r] = d->in[r];
    sum_up(d, job->size);
    return go(job, &call);
}

/* Part of the gradient is common to all ranks, most of it is not. */
static inline void new_gradient(struct job *job, struct data *d)
{
    for (size_t i = 0; i < d->n; i++) {
        double common = noise(job);
        for (int r = 0; r < job->size; r++)
            set(d, r, i, common + 2 * noise(job));
    }
}

static inline void assert_exact(const struct job *job, uint32_t lane, enum ss_tensor_reason reason)
{
    for (int r = 0; r < job->size; r++) {
        const struct ss_tensor *t = ss_tensors_first(job->tensors[r]);
        while (t->lane != lane)
            t = t->next;
        assert_int_equal(t->state, SS_TENSOR_EXACT);
        assert_int_equal(t->reason, reason);
        assert_null(t->residual.values.data);
        char rule[64];
        ss_tensor_override(t, rule, sizeof rule);
        assert_string_equal(rule, "count=1000");
    }
}

#endif
