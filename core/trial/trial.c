/* Runs the ranks of a trial in the simulator. */
#include "core/trial/trial.h"

#include <stdlib.h>
#include <string.h>

#include "core/backend/backend.h"
#include "core/call/call.h"
#include "core/coll/algorithms.h"
#include "core/sim/sim.h"
#include "core/trial/dense_hosts.h"

/* The host, where nothing returns to a residual: so each call of top-k claims the entries that are
 * drawn for it, as in a training the k largest. */
static struct ss_backend_ops ops;
static struct ss_backend backend = {&ops};

static void forget(struct ss_backend *p, enum ss_type type, void *r, uint32_t base,
                   const uint32_t *idx, const void *val, size_t count)
{
    (void)p, (void)type, (void)r, (void)base, (void)idx, (void)val, (void)count;
}

struct trial_rank {
    struct ss_mem mem;
    struct ss_comm *comm;
    float *in, *out;      /* one allocation */
    bool started, native; /* the call has started; the MPI library's collective runs */
    struct ss_dense_hosts dense;
};

struct job {
    const struct ss_trial *trial;
    struct ss_sim *sim;
    struct ss_settings settings;
    struct ss_rules *rules;
    struct ss_layout *layout;
    struct ss_stats stats;
    int *status;
    uint64_t calls; /* made so far */
    struct trial_rank ranks[];
};

static int step_dense(struct job *job, int rank)
{
    struct trial_rank *r = &job->ranks[rank];

    if (!r->native)
        ss_dense_hosts_start(&r->dense, ss_sim_transport(job->sim, rank), job->layout,
                             job->trial->entries.n, sizeof(float));
    r->native = true;
    const int peer = r->dense.peer;
    const int status = ss_dense_hosts_step(&r->dense);
    if (r->dense.peer > peer)
        ss_sim_compute(job->sim, rank, job->trial->compute * SS_TRIAL_ADD * (double)r->dense.bytes);
    return status;
}

static int step(void *ctx, int rank)
{
    struct job *job = ctx;
    struct trial_rank *r = &job->ranks[rank];
    int status;

    if (r->native || job->trial->algorithm == SS_DENSE)
        return step_dense(job, rank);
    struct ss_call *call = ss_comm_call(r->comm);
    if (r->started)
        status = ss_call_step(call);
    else
        status = ss_call_start(call, r->comm, &backend, SS_F32, SS_SUM, r->in, r->out,
                               job->trial->entries.n, 0);
    r->started = true;
    return status == SS_NATIVE ? step_dense(job, rank) : status;
}

/* Adds a rank's input of a call to v. */
static void add_input(const struct ss_trial *t, uint64_t call, int rank, float *v)
{
    struct ss_entries_cursor c;
    uint32_t idx;
    float val;

    ss_entries_start(&c, &t->entries, call, rank);
    while (ss_entries_next(&c, &idx, &val))
        v[idx] += val;
}

static size_t vector_bytes(const struct ss_trial *t)
{
    return (size_t)t->entries.n * sizeof(float);
}

/* Makes one call on all ranks. Returns SS_OK or the error of a rank. */
static int call_all(struct job *job, uint64_t number)
{
    int size = job->trial->ranks, status = SS_OK;

    for (int r = 0; r < size; r++) {
        job->ranks[r].started = job->ranks[r].native = false;
        if (job->ranks[r].in == NULL)
            continue;
        if (job->calls > 0)
            memset(job->ranks[r].in, 0, vector_bytes(job->trial));
        add_input(job->trial, number, r, job->ranks[r].in);
    }
    job->calls++;
    ss_sim_restart(job->sim);
    if (!ss_sim_run(job->sim, step, job, job->status, UINT64_MAX))
        return SS_ERR_PROTOCOL;
    for (int r = 0; r < size; r++) {
        if (status == SS_OK)
            status = job->status[r];
        if (job->ranks[r].started)
            ss_call_end(ss_comm_call(job->ranks[r].comm), ss_sim_clock(job->sim, r));
    }
    return status;
}

/* ---- results ---- */

static struct ss_digest digest(const struct ss_trial *t, const float *v)
{
    struct ss_digest d = {0};

    for (size_t i = 0; i < t->entries.n; i++)
        ss_digest_add(&d, i, v[i]);
    return d;
}

/* Computes the digest of the sum of all inputs. */
static int expect(const struct job *job, uint64_t call, struct ss_digest *sum)
{
    const struct ss_trial *t = job->trial;
    float *dense = calloc((size_t)t->entries.n, sizeof *dense);

    if (!dense)
        return SS_ERR_MEMORY;
    for (int r = 0; r < t->ranks; r++)
        add_input(t, call, r, dense);
    *sum = digest(t, dense);
    free(dense);
    return SS_OK;
}

static bool is_lossy(const struct ss_trial *t)
{
    return ss_keeps_global(t->algorithm) || ss_sends_whole(t->algorithm);
}

/* Compares the results of all ranks with each other and with the right one. */
static int compare(const struct job *job, uint64_t call, struct ss_trial_result *result)
{
    bool exact = !is_lossy(job->trial);
    const float *first = job->ranks[0].out;
    struct ss_digest sum = digest(job->trial, first), right;
    int status = SS_OK;

    for (int r = 1; r < job->trial->ranks; r++)
        if (memcmp(job->ranks[r].out, first, vector_bytes(job->trial)) != 0)
            return SS_ERR_DIFFERENT;
    if (exact)
        status = expect(job, call, &right);
    if (status == SS_OK && exact && (sum.sum != right.sum || sum.nnz != right.nnz))
        status = SS_ERR_DIFFERENT;
    result->result_nnz = sum.nnz;
    result->checksum = sum.sum;
    return status;
}

/* Returns the bytes that the ranks of a host have sent to other hosts. */
static uint64_t bytes_of_host(const struct job *job, int host)
{
    const struct ss_layout *l = job->layout;
    uint64_t bytes = 0;

    for (int i = l->first[host]; i < l->first[host + 1]; i++)
        bytes += ss_sim_bytes_outside(job->sim, l->ranks[i]);
    return bytes;
}

static void measure(const struct job *job, struct ss_trial_result *result)
{
    *result =
        (struct ss_trial_result){.rounds = ss_sim_rounds(job->sim), .ran = job->trial->algorithm};
    for (int r = 0; r < job->trial->ranks; r++) {
        uint64_t bytes = ss_sim_bytes_sent(job->sim, r), messages = ss_sim_sends(job->sim, r);
        uint64_t memory = job->ranks[r].mem.peak;
        double seconds = ss_sim_clock(job->sim, r);
        result->bytes_sum += bytes;
        result->messages_sum += messages;
        if (bytes > result->bytes_max)
            result->bytes_max = bytes;
        if (messages > result->messages_max)
            result->messages_max = messages;
        if (memory > result->memory)
            result->memory = memory;
        if (seconds > result->seconds)
            result->seconds = seconds;
    }
    for (int h = 0; h < job->layout->hosts; h++) {
        uint64_t outside = bytes_of_host(job, h);
        if (outside > result->outside_max)
            result->outside_max = outside;
    }
    if (job->ranks[0].started)
        result->ran = ss_call_algorithm(ss_comm_call(job->ranks[0].comm));
}

/* ---- the job ---- */

static struct ss_settings settings_of(const struct ss_trial *t)
{
    const int per_host = t->per_host > 0 ? t->per_host : 1;
    const bool alone = t->ranks <= per_host; /* on one host */

    return (struct ss_settings){
        .algorithm = t->algorithm,
        .alpha = alone ? SS_TRIAL_ALPHA_INSIDE : t->alpha,
        .beta = alone ? SS_TRIAL_BETA_INSIDE : t->beta * per_host, /* while all of a host send */
        .hash = 1,
        .topk = is_lossy(t),
        .density = ss_sends_whole(t->algorithm) ? 1 : t->entries.density,
        .value_type = ss_sends_whole(t->algorithm) ? SS_VALUES_Q4 : SS_VALUES_SAME,
        .quant_bucket = SS_BUCKET,
        .repartition_period = SS_REPARTITION_PERIOD,
        .tensors = {.identity = {.by_rule = true}, .threshold_period = SS_THRESHOLD_PERIOD}};
}

static int open_rules(struct job *job)
{
    char error[200];

    if (!job->settings.topk)
        return SS_OK;
    int status = ss_rules_parse("*:calls=1", true, &job->rules, error, sizeof error);
    job->settings.tensors.include = job->rules;
    return status;
}

static int open_ranks(struct job *job)
{
    for (int r = 0; r < job->trial->ranks; r++) {
        struct trial_rank *rank = &job->ranks[r];
        rank->comm = ss_comm_create(ss_sim_transport(job->sim, r), &job->settings, &rank->mem,
                                    &job->stats, "");
        rank->in = calloc((size_t)job->trial->entries.n, 2 * sizeof(float));
        rank->out = rank->in != NULL ? rank->in + job->trial->entries.n : NULL;
        if (!rank->comm || !rank->in)
            return SS_ERR_MEMORY;
        ss_comm_set_layout(rank->comm, job->layout);
    }
    return SS_OK;
}

struct ss_layout *ss_trial_layout(const struct ss_trial *t)
{
    struct ss_layout *l = ss_layout_create(t->ranks);
    const int per_host = t->per_host > 0 ? t->per_host : 1;

    if (!l)
        return NULL;
    for (int r = 0; r < t->ranks; r++)
        l->ids[r] = (uint64_t)(r / per_host);
    ss_layout_find(l);
    return l;
}

static struct job *open_job(const struct ss_trial *t)
{
    struct job *job = calloc(1, sizeof *job + (size_t)t->ranks * sizeof job->ranks[0]);

    if (!job)
        return NULL;
    ops = *ss_host.ops;
    ops.add_at = forget;
    job->trial = t;
    job->settings = settings_of(t);
    ss_stats_init(&job->stats, 0);
    job->status = calloc((size_t)t->ranks, sizeof *job->status);
    job->sim = ss_sim_create(t->ranks, t->alpha, t->beta, 0);
    job->layout = ss_trial_layout(t);
    if (job->sim && job->layout) {
        if (job->layout->most > 1)
            ss_sim_set_hosts(job->sim, job->layout, SS_TRIAL_ALPHA_INSIDE, SS_TRIAL_BETA_INSIDE);
        ss_sim_set_gap(job->sim, t->gap);
        ss_sim_set_burst(job->sim, t->burst);
        ss_sim_set_compute(job->sim, t->compute, t->cores);
    }
    return job;
}

static void close_job(struct job *job)
{
    for (int r = 0; r < job->trial->ranks; r++) {
        ss_comm_free(job->ranks[r].comm);
        free(job->ranks[r].in);
    }
    ss_sim_free(job->sim);
    ss_layout_free(job->layout);
    ss_stats_free(&job->stats);
    ss_rules_free(job->rules);
    free(job->status);
    free(job);
}

static int run(struct job *job, struct ss_trial_result *result)
{
    const struct ss_trial *t = job->trial;
    uint64_t calls = (t->algorithm == SS_OKTOPK || t->burst > 0 ? t->warm : 0) + 1;
    int status = job->sim && job->status && job->layout ? SS_OK : SS_ERR_MEMORY;

    if (status == SS_OK)
        status = open_rules(job);
    if (status == SS_OK && t->algorithm != SS_DENSE)
        status = open_ranks(job);
    /* A program's memory has been touched before. A call behind a native one would not vote. */
    if (status == SS_OK && calls == 1 && t->compute > 0 && t->algorithm != SS_DENSE) {
        status = call_all(job, 1);
        calls = job->ranks[0].native ? 0 : 1;
    }
    for (uint64_t call = 1; status == SS_OK && call <= calls; call++)
        status = call_all(job, call);
    if (status != SS_OK)
        return status;
    measure(job, result);
    if (result->ran == SS_DENSE)
        return SS_OK;
    return compare(job, calls > 0 ? calls : 1, result);
}

int ss_trial_run(const struct ss_trial *trial, struct ss_trial_result *result)
{
    struct job *job = open_job(trial);

    if (!job)
        return SS_ERR_MEMORY;
    int status = run(job, result);
    close_job(job);
    return status;
}
