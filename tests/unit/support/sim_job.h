/* A job of P ranks in the simulator, for the tests of calls and collectives. */
#ifndef TESTS_SIM_JOB_H
#define TESTS_SIM_JOB_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/call/call.h"
#include "core/call/call_impl.h"
#include "core/sim/sim.h"

/* Most ranks of a job. */
#ifndef SIM_JOB_RANKS
#define SIM_JOB_RANKS 64
#endif

struct sim_job {
    int size;
    struct ss_sim *sim;
    struct ss_settings settings[SIM_JOB_RANKS];
    struct ss_mem mem[SIM_JOB_RANKS];
    struct ss_comm *comm[SIM_JOB_RANKS];
    bool started[SIM_JOB_RANKS];
    int status[SIM_JOB_RANKS];
    /* faults: this rank has no memory left once it has voted; other threads have used the pools up
     * by then; this rank calls with another count */
    bool starve_after_vote;
    bool limit_after_vote;
    int starve_rank;
    uint64_t other_n;
    int other_n_rank;
    /* the call */
    enum ss_type type;
    enum ss_op op;
    uint64_t n;
    unsigned window; /* its number, where the call is a part of a larger one */
    const void *in[SIM_JOB_RANKS];
    void *out[SIM_JOB_RANKS];
    struct ss_backend *backend[SIM_JOB_RANKS]; /* NULL: the host */
    struct ss_layout *layout;                  /* job_set_hosts; else NULL */
    ptrdiff_t far; /* distance from the test's buffers to their addresses in a remote backend */
    struct ss_stats stats[SIM_JOB_RANKS]; /* last: 2 MB, which ss_stats_init clears */
};

/* Tells all ranks on which hosts they are: hosts[r mod its length] is rank r's. Slices of two
 * levels have `slice` elements or more. */
static inline void job_set_hosts(struct sim_job *job, const char *hosts, uint64_t slice)
{
    ss_layout_free(job->layout);
    job->layout = ss_layout_create(job->size);
    for (int r = 0; r < job->size; r++)
        job->layout->ids[r] = (uint64_t)hosts[(size_t)r % strlen(hosts)];
    ss_layout_find(job->layout);
    job->layout->slice_least = slice;
    for (int r = 0; r < job->size; r++)
        ss_comm_set_layout(job->comm[r], job->layout);
}

/* Unless the test says otherwise, two_level finds hosts of several ranks and of one. */
static inline void job_open(struct sim_job *job, int size, double alpha, double beta, uint64_t seed,
                            const struct ss_settings *settings)
{
    memset(job, 0, offsetof(struct sim_job, stats));
    job->size = size;
    job->sim = ss_sim_create(size, alpha, beta, seed);
    for (int r = 0; r < size; r++) {
        job->settings[r] = *settings;
        ss_stats_init(&job->stats[r], 0);
        job->comm[r] = ss_comm_create(ss_sim_transport(job->sim, r), &job->settings[r],
                                      &job->mem[r], &job->stats[r], "sim");
    }
    if (settings->algorithm == SS_TWO_LEVEL)
        job_set_hosts(job, "112213", 64);
}

static inline void job_close(struct sim_job *job)
{
    for (int r = 0; r < job->size; r++) {
        ss_comm_free(job->comm[r]);
        ss_stats_free(&job->stats[r]);
    }
    ss_layout_free(job->layout);
    ss_sim_free(job->sim);
}

static inline int job_step(void *ctx, int rank)
{
    struct sim_job *job = ctx;
    struct ss_call *call = ss_comm_call(job->comm[rank]);

    if (!job->started[rank]) {
        job->started[rank] = true;
        uint64_t n = job->other_n > 0 && rank == job->other_n_rank ? job->other_n : job->n;
        struct ss_backend *backend = job->backend[rank] ? job->backend[rank] : &ss_host;
        ptrdiff_t far = backend->ops->remote ? job->far : 0;
        const char *in = job->in[rank];
        int status =
            ss_call_start(call, job->comm[rank], backend, job->type, job->op, in ? in + far : NULL,
                          (char *)job->out[rank] + far, n, job->window);
        if (job->starve_after_vote && rank == job->starve_rank)
            atomic_store(&job->mem[rank].used, SIZE_MAX - 1);
        if (job->limit_after_vote)
            job->mem[rank].limit = 1;
        return status;
    }
    return ss_call_step(call);
}

/* Reduces the inputs as the MPI library would, on a rank, after SS_NATIVE. */
static inline const void *job_native_input(const struct sim_job *job, int rank)
{
    bool in_out = ss_call_joined(ss_comm_call(job->comm[rank])) || !job->in[rank];

    return in_out ? job->out[rank] : job->in[rank];
}

/* Makes one call on all ranks; in[r] NULL: in place. Returns false if it did not end. */
static inline bool job_call(struct sim_job *job, enum ss_type type, enum ss_op op, uint64_t n)
{
    job->type = type;
    job->op = op;
    job->n = n;
    memset(job->started, 0, sizeof job->started);
    bool ended = ss_sim_run(job->sim, job_step, job, job->status, 100000000);
    for (int r = 0; ended && r < job->size; r++)
        ss_call_end(ss_comm_call(job->comm[r]), 1e-3);
    return ended;
}

#endif
