/* Ranks of one communicator that look up tensors and vote on them, by hand. */
#ifndef TESTS_UNIT_TENSOR_JOB_H
#define TESTS_UNIT_TENSOR_JOB_H

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/backend.h"
#include "core/tensor/tensor.h"

enum { MOST = 4, N = 1000 };

/* Some ranks of one communicator, voting by hand. */
struct job {
    int size;
    struct ss_tensor_settings settings;
    struct ss_mem mem[MOST];
    struct ss_tensors *tensors[MOST];
    uint32_t seed;
};

static inline struct job *job_open(int size, const char *include)
{
    struct job *job = calloc(1, sizeof *job);
    struct ss_rules *rules;
    char error[256];

    assert_non_null(job);
    assert_int_equal(ss_rules_parse(include, true, &rules, error, sizeof error), SS_OK);
    job->size = size;
    job->settings = (struct ss_tensor_settings){.include = rules, .threshold_period = 32};
    for (int r = 0; r < size; r++) {
        job->tensors[r] = ss_tensors_create(&job->settings, &job->mem[r]);
        assert_non_null(job->tensors[r]);
    }
    job->seed = 1;
    return job;
}

static inline void job_close(struct job *job)
{
    for (int r = 0; r < job->size; r++) {
        ss_tensors_free(job->tensors[r]);
        assert_int_equal(atomic_load(&job->mem[r].used), 0);
    }
    ss_rules_free((struct ss_rules *)(uintptr_t)job->settings.include);
    ss_rules_free((struct ss_rules *)(uintptr_t)job->settings.exclude);
    free(job);
}

static inline double noise(struct job *job)
{
    double sum = 0;

    for (int i = 0; i < 4; i++) {
        job->seed = job->seed * 1664525u + 1013904223u;
        sum += (double)(job->seed >> 8) / (1 << 24) - 0.5;
    }
    return sum;
}

/* A call of the application. */
struct shape {
    uint32_t lane;
    const char *place;         /* NULL: "app+0x10" */
    const void *address[MOST]; /* NULL: that of rank 0 */
    size_t n;
    enum ss_type type;
    enum ss_op op;
};

static inline struct ss_tensor_ballot combine(struct ss_tensor_ballot a, struct ss_tensor_ballot b)
{
    return (struct ss_tensor_ballot){.unregistered = a.unregistered || b.unregistered,
                                     .registered = a.registered || b.registered,
                                     .refused = a.refused || b.refused};
}

/* Goes through one call on all ranks; the tensor of rank 0. */
static inline struct ss_tensor *go(struct job *job, const struct shape *call)
{
    struct ss_tensor *t[MOST];
    struct ss_tensor_found found[MOST];
    struct ss_tensor_ballot all = {0};
    bool same = true;

    for (int r = 0; r < job->size; r++) {
        struct ss_rule_subject subject = {
            .count = call->n, .type = call->type, .site = call->place ? call->place : "app+0x10"};
        struct ss_tensor_call c = {.lane = call->lane,
                                   .address =
                                       call->address[r] ? call->address[r] : call->address[0],
                                   .from = call->address[r] ? call->address[r] : call->address[0],
                                   .type = call->type,
                                   .op = call->op,
                                   .n = call->n,
                                   .subject = &subject};
        t[r] = ss_tensor_find(job->tensors[r], &c, &found[r]);
        assert_non_null(t[r]);
        ss_tensor_take(t[r], &c, &found[r]);
        all = combine(all, ss_tensor_ballot(t[r]));
        ss_tensor_begin(t[r]);
    }
    for (int r = 0; r < job->size; r++)
        same = same && ss_identity_code(&found[r].where) == ss_identity_code(&found[0].where);
    for (int r = 0; r < job->size; r++) {
        ss_tensor_vote(t[r], &all, same);
        ss_tensor_end(t[r]);
    }
    return t[0];
}

static inline struct ss_tensor *at(struct job *job, uint32_t lane, uintptr_t address)
{
    struct shape call = {.lane = lane, .address = {(const void *)address}, .n = N, .type = SS_F32};

    return go(job, &call);
}

static inline size_t tensors_of(const struct job *job, uint32_t lane)
{
    size_t count = 0;

    for (const struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        count += t->lane == lane;
    return count;
}

#endif
