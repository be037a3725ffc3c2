/* Two ranks of one communicator whose calls are identified and compared, by hand. */
#ifndef TESTS_UNIT_IDENTITY_JOB_H
#define TESTS_UNIT_IDENTITY_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/identity/identity.h"

enum { RANKS = 2, LAYERS = 8, LANES = 8, TENSORS = 4096 };

struct job {
    struct ss_identity identity[RANKS];
    struct ss_lane_rules lanes[RANKS][LANES];
    struct ss_call_rule rule;
    struct ss_call_identity at; /* of the last call on rank 0 */
    bool lossy;                 /* it was */
    unsigned calls, lossy_calls, told;
    unsigned first;             /* number of the first lossy call, from 1 */
    unsigned layer_of[TENSORS]; /* the layer that each ordinal has served, + 1 */
    unsigned shared;            /* lossy calls with the ordinal of another layer */
    unsigned ordinals;          /* different ones of lossy calls */
};

static inline struct job open_job(uint32_t calls, bool by_rule)
{
    struct job job = {.rule = {.takes = true, .calls = calls, .number = 1}};

    for (int r = 0; r < RANKS; r++)
        job.identity[r] = (struct ss_identity){.by_rule = by_rule, .steps = 3};
    return job;
}

static inline void close_job(struct job *job)
{
    for (int r = 0; r < RANKS; r++)
        for (int lane = 0; lane < LANES; lane++)
            ss_lane_rules_free(&job->lanes[r][lane]);
}

struct made {
    uint32_t lane;
    uintptr_t address;
    uintptr_t other_address; /* on rank 1, 0: the same */
    uint32_t buffer;
    uintptr_t from;                  /* 0: in place */
    const struct ss_call_rule *rule; /* NULL: the job's */
};

static inline void call(struct job *job, const struct made *made)
{
    struct ss_call_identity at[RANKS];
    uint64_t code[RANKS];

    for (int r = 0; r < RANKS; r++) {
        const uintptr_t address =
            r > 0 && made->other_address > 0 ? made->other_address : made->address;
        const struct ss_identity_call seen = {
            .rule = made->rule ? *made->rule : job->rule,
            .buffer = made->buffer,
            .address = (const void *)address,
            .from = (const void *)(made->from > 0 ? made->from : address),
        };
        assert_true(ss_identity_find(&job->identity[r], &job->lanes[r][made->lane], &seen, &at[r]));
        code[r] = ss_identity_code(&at[r]);
    }
    job->at = at[0];
    job->calls++;
    job->lossy = code[0] == code[1] && at[0].known;
    job->lossy_calls += job->lossy;
    job->told += at[0].tell;
    if (job->lossy && job->first == 0)
        job->first = job->calls;
}

/* A call that is one of that layer of equal ones. */
static inline void layer_of(struct job *job, unsigned k, const struct made *made)
{
    call(job, made);
    if (!job->lossy)
        return;
    assert_in_range(job->at.ordinal, 0, TENSORS - 1);
    unsigned *had = &job->layer_of[job->at.ordinal];
    job->ordinals += *had == 0;
    job->shared += *had > 0 && *had != k + 1;
    *had = k + 1;
}

static inline void layer(struct job *job, unsigned k, uintptr_t address)
{
    layer_of(job, k, &(struct made){.address = address});
}

/* The layers from `first` on: each in its own buffer, or all in one. */
static inline void step(struct job *job, unsigned first, unsigned layers, bool own)
{
    for (unsigned k = first; k < layers; k++)
        layer(job, k, own ? 100 + k : 100);
}

static inline void steps(struct job *job, unsigned count, bool own)
{
    for (unsigned i = 0; i < count; i++)
        step(job, 0, LAYERS, own);
}

/* Forgets what was lossy so far. */
static inline void count_anew(struct job *job)
{
    job->calls = job->lossy_calls = job->first = 0;
}

#endif
