/* Two ranks of one communicator whose calls are counted and voted on, by hand. */
#ifndef TESTS_UNIT_IDENTITY_JOB_H
#define TESTS_UNIT_IDENTITY_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/identity/identity.h"

enum { RANKS = 2, LAYERS = 8, MOST = 1024, ALL_SITES = 0x10000 };

/* Two ranks of one communicator, voting by hand. */
struct job {
    struct ss_identity *identity[RANKS];
    struct ss_sequence_rule rule;
    uint64_t marks[RANKS];
    struct ss_standing at; /* of the last call on rank 0 */
    bool lossy;            /* it was */
    unsigned calls, lossy_calls, told;
    unsigned first; /* number of the first lossy call, from 1 */
    /* Ordinals that layers have had, + 1. */
    uint32_t ordinal[LAYERS + 2];
    unsigned moved; /* lossy calls of a layer with another ordinal than before */
};

static inline struct job open_job(uint32_t calls, bool by_rule)
{
    const struct ss_identity_way how = {.by_rule = by_rule, .steps = 3};
    struct job job = {.rule = {.takes = true, .calls = calls, .number = 1}};

    for (int r = 0; r < RANKS; r++) {
        job.identity[r] = ss_identity_create(&how);
        assert_non_null(job.identity[r]);
    }
    return job;
}

static inline void close_job(struct job *job)
{
    for (int r = 0; r < RANKS; r++)
        ss_identity_free(job->identity[r]);
}

struct made {
    uint32_t lane;
    uint64_t site;
    uintptr_t address;
    uint64_t other_site;    /* on rank 1, 0: the same */
    uintptr_t other_buffer; /* likewise */
    uint32_t buffer;
    uintptr_t from;                      /* 0: in place */
    const struct ss_sequence_rule *rule; /* NULL: the job's */
};

static inline void call(struct job *job, const struct made *made)
{
    struct ss_standing at[RANKS];

    for (int r = 0; r < RANKS; r++) {
        const struct ss_identity_call seen = {
            .rule = made->rule ? *made->rule : job->rule,
            .lane = made->lane,
            .site = r > 0 && made->other_site > 0 ? made->other_site : made->site,
            .buffer = made->buffer,
            .address = (const void *)(r > 0 && made->other_buffer > 0 ? made->other_buffer
                                                                      : made->address),
            .from = (const void *)(made->from > 0 ? made->from : made->address),
            .marks = job->marks[r],
        };
        struct ss_sequence *s = ss_identity_next(job->identity[r], &seen);
        assert_non_null(s);
        at[r] = ss_sequence_count(s, &seen);
    }
    const uint64_t code[RANKS] = {ss_standing_code(&at[0]), ss_standing_code(&at[1])};
    bool label = at[0].label == at[1].label, same = code[0] == code[1];
    for (int r = 0; r < RANKS; r++)
        ss_identity_vote(job->identity[r], made->lane, label, same, code[0] > 0 && code[1] > 0);
    job->at = at[0];
    job->calls++;
    job->lossy = label && same && at[0].known;
    job->lossy_calls += job->lossy;
    job->told += at[0].tell;
    if (job->lossy && job->first == 0)
        job->first = job->calls;
}

static inline void at(struct job *job, uintptr_t address)
{
    call(job, &(struct made){.site = 7, .address = address});
}

static inline void mark(struct job *job)
{
    for (int r = 0; r < RANKS; r++)
        job->marks[r]++;
}

/* A call of that layer of equal ones. */
static inline void layer(struct job *job, unsigned k, uintptr_t address)
{
    at(job, address);
    if (!job->lossy)
        return;
    job->moved += job->ordinal[k] > 0 && job->ordinal[k] != job->at.ordinal + 1;
    job->ordinal[k] = job->at.ordinal + 1;
}

/* A step of them: each in its own buffer, or all in one. */
static inline void step(struct job *job, unsigned layers, bool own)
{
    for (unsigned k = 0; k < layers; k++)
        layer(job, k, own ? 100 + k : 100);
}

static inline unsigned ordinals(const struct job *job)
{
    unsigned count = 0;

    for (unsigned o = 1; o <= LAYERS + 2; o++) {
        bool had = false;
        for (unsigned k = 0; k < LAYERS + 2; k++)
            had = had || job->ordinal[k] == o;
        count += had;
    }
    return count;
}

/* Forgets what was lossy so far. */
static inline void count_anew(struct job *job)
{
    job->calls = job->lossy_calls = job->first = 0;
}

#endif
