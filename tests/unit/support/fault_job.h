/* Calls of any collective in the simulator in which something fails, and what must hold
 * afterwards. */
#ifndef TESTS_UNIT_FAULT_JOB_H
#define TESTS_UNIT_FAULT_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SIM_JOB_RANKS 7 /* most; a job is cleared for each fault, 32 KiB a rank */

#include "core/coll/algorithms.h"
#include "tests/unit/support/kind_job.h"

/* Elements of an exact call, of a lossy one, and of one whose streams have several chunks. The
 * first and the last are multiples of every number of ranks up to 6. */
enum { N = 720, LOSSY_N = 1500, LONG = 110040, MOST = SIM_JOB_RANKS };

/* The call to make. */
struct subject {
    enum ss_kind kind;
    enum ss_algorithm algorithm;
    bool topk;
    enum ss_values values; /* top-k: coding of values */
    /* oktopk: all large values lie in one part, so that it is balanced */
    bool uneven;
    bool measured; /* the costs of the network are measured */
    bool by_host;  /* top-k: one residual per host, with hosts of two ranks and of one */
    bool skewed;   /* exact: entries crowd in one part, so that parts are balanced */
};

struct fault_job {
    const struct subject *what;
    struct kind_case c;
    struct kind_job k;
    struct ss_rules *rules;
    uint64_t calls;
    float *claimed[MOST]; /* top-k: input + residual of each rank */
    float *left[MOST];    /* residual of each rank */
};

static inline struct ss_settings subject_settings(const struct subject *s)
{
    return (struct ss_settings){.algorithm = s->algorithm,
                                .alpha = s->measured ? -1 : 1e-6,
                                .beta = s->measured ? -1
                                        : s->skewed ? 1e-3
                                                    : 1e-9,
                                .hash = 1,
                                .topk = s->topk,
                                .density = SS_WHOLE_ALGORITHMS >> s->algorithm & 1 ? 1
                                           : ss_keeps_global(s->algorithm)         ? 0.02
                                                                                   : 0.05,
                                .value_type = s->values,
                                .quant_bucket = 64,
                                .aggregation = s->by_host ? SS_AGGREGATION_ON : SS_AGGREGATION_AUTO,
                                .repartition_period = 16,
                                .tensors = {.threshold_period = 8}};
}

/* Gives every rank entries for every other rank. */
static inline struct kind_case subject_case(const struct subject *s, int size, size_t n)
{
    bool divided = s->kind != SS_KIND_ALLREDUCE;

    return (struct kind_case){.kind = s->kind,
                              .in = {.size = size,
                                     .type = SS_F32,
                                     .op = SS_SUM,
                                     .n = n,
                                     .density = n == LONG || s->skewed ? 1
                                                : divided              ? 0.2
                                                                       : 0.05,
                                     .place = s->skewed ? CLUSTERED : UNIFORM,
                                     .values = ORDINARY,
                                     .seed = 11},
                              .division = n % (size_t)size == 0 ? EQUAL : EQUAL_LISTED,
                              .root = size - 1};
}

static inline void fault_open(struct fault_job *j, const struct subject *what, int size, size_t n,
                              double timeout)
{
    struct ss_settings settings = subject_settings(what);
    char error[200];

    memset(j, 0, sizeof *j);
    j->what = what;
    j->c = subject_case(what, size, n);
    j->k.cannot = -1;
    if (what->topk) {
        assert_int_equal(
            ss_rules_parse("count=1:,site=*:calls=1", true, &j->rules, error, sizeof error), SS_OK);
        settings.tensors.include = j->rules;
    }
    settings.timeout = timeout;
    job_open(&j->k.job, size, 1e-6, 1e-9, 0, &settings);
    if (what->by_host) /* oktopk and gtopk run between hosts if no rank owns two slices */
        job_set_hosts(&j->k.job, ss_keeps_global(what->algorithm) ? "112233" : "112", 256);
    ss_sim_set_idle(j->k.job.sim, timeout / 10);
    kind_arrays_make(&j->k, &j->c);
    for (int r = 0; r < size && what->topk; r++)
        j->claimed[r] = calloc(n, sizeof(float));
    for (int r = 0; r < size && what->topk; r++)
        j->left[r] = calloc(n, sizeof(float));
}

/* Returns NULL, or a description of the failure. */
static inline const char *fault_close(struct fault_job *j)
{
    const char *wrong = NULL;

    for (int r = 0; r < j->c.in.size; r++) {
        if (!array_guards_hold(&j->k.out[r]) || !array_guards_hold(&j->k.input[r]))
            wrong = "something was written outside of the buffers";
        free(j->claimed[r]);
        free(j->left[r]);
    }
    kind_arrays_free(&j->k, j->c.in.size);
    job_close(&j->k.job);
    ss_rules_free(j->rules);
    return wrong;
}

static inline const float *fault_residual(const struct fault_job *j, int rank)
{
    const struct ss_tensor *tensor = ss_tensors_first(j->k.job.comm[rank]->tensors);

    return tensor ? tensor->residual.values.data : NULL;
}

/* Returns the elements whose residual the rank holds. */
static inline struct ss_residual_range fault_range(const struct fault_job *j, int rank)
{
    const struct ss_tensor *tensor = ss_tensors_first(j->k.job.comm[rank]->tensors);

    return tensor ? tensor->range : (struct ss_residual_range){.n = j->c.in.n};
}

/* Returns the element of which claims are made on a rank: of its input, or of its host's sum. */
static inline float fault_claimable(const struct fault_job *j, int rank, size_t i)
{
    const struct ss_layout *l = j->k.job.layout;
    float sum = 0;

    if (!j->what->by_host)
        return ((const float *)j->k.input[rank].data)[i];
    for (int r = 0; r < j->c.in.size; r++)
        if (l->host[r] == l->host[rank])
            sum += ((const float *)j->k.input[r].data)[i];
    return sum;
}

/* Fills in heavy-tailed gradients, anew for each call; if uneven, the calls behind the first, which
 * divides the index space, are divided by 1000 except in the first tenth. */
static inline void fault_draw(struct fault_job *j)
{
    size_t n = j->c.in.n;

    for (int r = 0; r < j->c.in.size; r++)
        for (size_t i = 0; i < n; i++) {
            uint64_t h = mix(j->calls * 1000003 + (uint64_t)r * 7919 + i * 104729 + 1);
            double x = 2 * unit(h) - 1, y = unit(mix(h));
            double scale = j->what->uneven && (j->calls == 1 || i > n / 10) ? 1e-3 : 1;
            ((float *)j->k.input[r].data)[i] = (float)(scale * x * (0.01 + y * y * y * y));
        }
}

static inline void fault_claim(struct fault_job *j)
{
    for (int r = 0; r < j->c.in.size; r++) {
        const float *left = fault_residual(j, r);
        const struct ss_residual_range range = fault_range(j, r);
        for (size_t i = 0; i < range.n; i++) {
            j->left[r][i] = left ? left[i] : 0;
            j->claimed[r][i] =
                fault_claimable(j, r, (size_t)range.first + i) + (left ? left[i] : 0);
        }
    }
}

/* Fills in the buffers of the next call. */
static inline void fault_prepare(struct fault_job *j)
{
    j->calls++;
    if (j->what->topk) {
        fault_draw(j);
        fault_claim(j);
    }
    kind_prepare(&j->k, &j->c);
}

static inline bool fault_any(const struct fault_job *j)
{
    for (int r = 0; r < j->c.in.size; r++)
        if (j->k.job.status[r] < 0)
            return true;
    return false;
}

/* ---- checks: NULL, or a description of the failure ---- */

static inline const char *replicas_complaint(const struct fault_job *j)
{
    for (int r = 1; r < j->c.in.size; r++)
        if (memcmp(j->k.out[r].data, j->k.out[0].data, j->k.out[0].bytes) != 0)
            return "replicas differ";
    return NULL;
}

/* Checks a call that must have succeeded on all ranks: exact results are right, those of top-k are
 * equal. */
static inline const char *success_complaint(const struct fault_job *j)
{
    bool chosen = j->what->algorithm == SS_AUTO;

    for (int r = 0; r < j->c.in.size; r++) {
        int status = j->k.job.status[r];
        if (status != j->k.job.status[0] || (status != SS_OK && !(chosen && status == SS_NATIVE)))
            return "a call did not succeed on all ranks";
    }
    if (j->k.job.status[0] == SS_NATIVE)
        return NULL;
    return j->what->topk ? replicas_complaint(j) : kind_complaint(&j->k, &j->c);
}

static inline const char *good_call(struct fault_job *j)
{
    fault_prepare(j);
    return kind_run(&j->k) ? success_complaint(j) : "a call did not end";
}

/* Checks the calls after one that failed on any rank: by the end of the next call every rank has
 * had an error, and no further message is sent. */
static inline const char *broken_complaint(struct fault_job *j)
{
    uint64_t sent = 0;

    for (int call = 0; call < 2; call++) {
        kind_prepare(&j->k, &j->c);
        if (!kind_run(&j->k))
            return "the call after a failed one did not end";
        for (int r = 0; r < j->c.in.size; r++)
            if (j->k.job.status[r] >= 0 || ss_comm_status(j->k.job.comm[r]) >= 0)
                return "a rank has not heard of the failure by the end of the next call";
        if (call == 1 && ss_sim_bytes_sent(j->k.job.sim, 0) != sent)
            return "something is sent after the failure is known everywhere";
        sent = ss_sim_bytes_sent(j->k.job.sim, 0);
    }
    return NULL;
}

/* Checks that the claims of a failed rank are in its residual again, to the last bit. A host's
 * residual may be as it was, since the sum of the host's inputs may have failed. */
static inline const char *claims_complaint(const struct fault_job *j)
{
    for (int r = 0; r < j->c.in.size && j->what->topk; r++) {
        const float *left = fault_residual(j, r);
        const size_t bytes = fault_range(j, r).n * sizeof(float);
        if (j->k.job.status[r] >= 0 || (left && memcmp(left, j->claimed[r], bytes) == 0) ||
            (left && j->what->by_host && memcmp(left, j->left[r], bytes) == 0))
            continue;
        return "the claims of a failed rank are not back in its residual";
    }
    return NULL;
}

/* Returns the error text of a rank. */
static inline const char *explained(const struct fault_job *j, int rank)
{
    static char text[300];

    ss_call_explain(ss_comm_call(j->k.job.comm[rank]), text, sizeof text);
    return text;
}

/* Checks that a timeout names the rank, the phase, the collective with its size and the option, and
 * that some rank names the silent one. */
static inline const char *timeouts_complaint(const struct fault_job *j, int silent)
{
    bool named = false, other = j->what->kind != SS_KIND_ALLREDUCE;

    for (int r = 0; r < j->c.in.size; r++) {
        char begin[40], call[60], peer[40];
        bool phase = false;
        if (j->k.job.status[r] != SS_ERR_TIMEOUT)
            continue;
        const char *text = explained(j, r);
        snprintf(begin, sizeof begin, "rank %d: timeout in the ", r);
        snprintf(call, sizeof call, "(%s%s%zu ", other ? ss_kind_name(j->what->kind) : "",
                 other ? ", " : "", j->c.in.n);
        snprintf(peer, sizeof peer, "talking to rank %d", silent);
        for (int p = 0; p < SS_PHASES; p++)
            phase = phase || strstr(text, ss_phase_name((enum ss_phase)p)) == text + strlen(begin);
        if (strncmp(text, begin, strlen(begin)) != 0 || !phase || !strstr(text, call) ||
            !strstr(text, "SPARSESHIM_TIMEOUT=0.25"))
            return "a timeout does not name rank, phase, call and option";
        named = named || strstr(text, peer);
    }
    return named ? NULL : "no timeout names the rank that is silent";
}

/* Checks a lack of memory on one rank. */
static inline const char *memory_complaint(const struct fault_job *j, int poor)
{
    for (int r = 0; r < j->c.in.size; r++)
        if (j->k.job.status[r] != (r == poor ? SS_ERR_MEMORY : SS_ERR_PEER))
            return "not an error of memory on the poor rank and of a peer on the others";
    return strstr(explained(j, poor), "out of memory") ? NULL : "the poor rank does not say so";
}

static inline const char *different_complaint(const struct fault_job *j)
{
    for (int r = 0; r < j->c.in.size; r++)
        if (j->k.job.status[r] != SS_ERR_DIFFERENT ||
            !strstr(explained(j, r), "different counts, datatypes or operators"))
            return "a rank is not told that calls differ";
    return NULL;
}

#endif
