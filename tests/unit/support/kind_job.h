/* A collective of any kind on all ranks of a simulated job: inputs, buffers of each rank, and the
 * expected results. */
#ifndef TESTS_KIND_JOB_H
#define TESTS_KIND_JOB_H

#include "tests/unit/support/oracle.h"
#include "tests/unit/support/sim_job.h"

/* Divisions of the index space among the ranks. */
enum division { EQUAL, EQUAL_LISTED, UNEVEN, MANY_EMPTY, ALL_ON_ONE, DIVISIONS };

/* A call. `in` describes the inputs of all ranks over all n elements; in an allgather a rank gives
 * its slice of them. */
struct kind_case {
    enum ss_kind kind;
    struct input in;
    enum division division;
    bool in_place;
    bool odd_bits; /* allgather: NaN, Inf and -0.0 among the entries */
    int root;
};

enum { KIND_RANKS = 40 };

struct kind_job {
    struct sim_job job;
    bool struck[KIND_RANKS]; /* its memory is taken */
    struct ss_collective what[KIND_RANKS];
    uint32_t parts[KIND_RANKS + 1];
    struct array sent[KIND_RANKS];  /* all n elements of each rank's input */
    struct array input[KIND_RANKS]; /* buffer that the rank passes, in place or not */
    struct array out[KIND_RANKS];
    size_t esize;
    int cannot; /* rank that cannot serve the call, -1: none */
};

static inline void kind_divide(struct kind_job *k, const struct kind_case *c)
{
    uint64_t n = c->in.n;
    int size = c->in.size, holder = (int)(c->in.seed % (uint64_t)size);

    k->parts[0] = 0;
    for (int p = 1; p < size; p++) {
        uint64_t at = n * (uint64_t)p / (uint64_t)size;
        uint64_t h = mix(c->in.seed ^ (uint64_t)p);
        if (c->division == UNEVEN || c->division == MANY_EMPTY)
            at = k->parts[p - 1] + h % (2 * n / (uint64_t)size + 1);
        if (c->division == MANY_EMPTY && h >> 32 & 3)
            at = k->parts[p - 1];
        if (c->division == ALL_ON_ONE)
            at = p <= holder ? 0 : n;
        k->parts[p] = (uint32_t)(at < n ? at : n);
    }
    k->parts[size] = (uint32_t)n;
}

static inline void kind_odd_bits(const struct kind_case *c, struct array *a, int r)
{
    static const double odd[] = {-0.0, NAN, INFINITY, -INFINITY};

    for (size_t i = (size_t)r; i < c->in.n; i += 7) {
        uint64_t h = mix(c->in.seed + i + (uint64_t)r * 1000);
        double value = odd[h & 3];
        if (h & 0xf0)
            continue;
        if (c->in.type == SS_F32)
            ((float *)a->data)[i] = (float)value;
        else if (c->in.type == SS_F64)
            ((double *)a->data)[i] = value;
    }
}

static inline uint64_t part_size(const struct kind_job *k, int r)
{
    return k->parts[r + 1] - k->parts[r];
}

/* Returns the elements of a rank's buffers that the caller must provide. */
static inline uint64_t kind_input_size(const struct kind_job *k, const struct kind_case *c, int r)
{
    return c->kind == SS_KIND_ALLGATHER ? part_size(k, r) : c->in.n;
}

static inline uint64_t kind_output_size(const struct kind_job *k, const struct kind_case *c, int r)
{
    if (c->kind == SS_KIND_REDUCE_SCATTER && !c->in_place)
        return part_size(k, r);
    return c->kind == SS_KIND_REDUCE && r != c->root ? 0 : c->in.n;
}

static inline bool kind_in_place(const struct kind_case *c, int r)
{
    return c->in_place && (c->kind != SS_KIND_REDUCE || r == c->root);
}

static inline void kind_arrays_make(struct kind_job *k, const struct kind_case *c)
{
    k->esize = ss_type_size(c->in.type);
    kind_divide(k, c);
    for (int r = 0; r < c->in.size; r++) {
        size_t first = c->kind == SS_KIND_ALLGATHER ? k->parts[r] : 0;
        size_t given = (size_t)kind_input_size(k, c, r);

        k->sent[r] = array_make(c->in.n, k->esize);
        input_fill(&c->in, r, k->sent[r].data);
        if (c->odd_bits && c->kind == SS_KIND_ALLGATHER)
            kind_odd_bits(c, &k->sent[r], r);
        k->input[r] = array_make(given, k->esize);
        memcpy(k->input[r].data, k->sent[r].data + first * k->esize, given * k->esize);
        k->out[r] = array_make((size_t)kind_output_size(k, c, r), k->esize);
    }
}

static inline void kind_arrays_free(struct kind_job *k, int size)
{
    for (int r = 0; r < size; r++) {
        free(k->sent[r].base);
        free(k->input[r].base);
        free(k->out[r].base);
    }
}

static inline size_t kind_own_place(const struct kind_job *k, const struct kind_case *c, int r)
{
    return c->kind == SS_KIND_ALLGATHER ? k->parts[r] * k->esize : 0;
}

/* Restores the buffers. */
static inline void kind_prepare(struct kind_job *k, const struct kind_case *c)
{
    for (int r = 0; r < c->in.size; r++) {
        bool in_place = kind_in_place(c, r), listed = c->division != EQUAL;

        memset(k->out[r].data, POISON_BYTE, k->out[r].bytes);
        if (in_place)
            memcpy(k->out[r].data + kind_own_place(k, c, r), k->input[r].data, k->input[r].bytes);
        k->what[r] = (struct ss_collective){
            .kind = c->kind,
            .type = c->in.type,
            .op = c->in.op,
            .root = c->root,
            .n = c->in.n,
            .parts = listed && c->kind != SS_KIND_REDUCE ? k->parts : NULL,
            .in = in_place ? NULL : k->input[r].data,
            .out = c->kind == SS_KIND_REDUCE && r != c->root ? NULL : k->out[r].data,
            .cannot = r == k->cannot,
        };
    }
}

/* Takes the memory of a rank that has said in the last vote before the plan what it has. */
static inline void kind_strike(struct kind_job *k, int rank)
{
    const struct ss_call *call = ss_comm_call(k->job.comm[rank]);

    if (k->struck[rank] || ss_host_sum_due(&call->f) ||
        ss_call_is_driven_by(call, &ss_host_sum_driver))
        return;
    k->struck[rank] = true;
    if (k->job.starve_after_vote && rank == k->job.starve_rank)
        atomic_store(&k->job.mem[rank].used, SIZE_MAX - 1);
    if (k->job.limit_after_vote)
        k->job.mem[rank].limit = 1;
}

static inline int kind_job_step(void *ctx, int rank)
{
    struct kind_job *k = ctx;
    struct ss_call *call = ss_comm_call(k->job.comm[rank]);
    int status;

    if (k->job.started[rank]) {
        status = ss_call_step(call);
    } else {
        struct ss_collective what = k->what[rank];
        k->job.started[rank] = true;
        what.in = what.in ? (const char *)what.in + k->job.far : NULL;
        what.out = what.out ? (char *)what.out + k->job.far : NULL;
        what.backend = k->job.backend[rank];
        status = ss_call_start_kind(call, k->job.comm[rank], &what);
    }
    kind_strike(k, rank);
    return status;
}

/* Runs the call of k->what. Returns false if it did not end. */
static inline bool kind_run(struct kind_job *k)
{
    memset(k->job.started, 0, sizeof k->job.started);
    memset(k->struck, 0, sizeof k->struck);
    if (!ss_sim_run(k->job.sim, kind_job_step, k, k->job.status, 100000000))
        return false;
    for (int r = 0; r < k->job.size; r++)
        ss_call_end(ss_comm_call(k->job.comm[r]), 1e-3);
    return true;
}

static inline bool kind_call(struct kind_job *k, const struct kind_case *c)
{
    kind_prepare(k, c);
    return kind_run(k);
}

static inline bool kind_untouched(const struct kind_job *k, const struct kind_case *c, int r)
{
    size_t lo = kind_own_place(k, c, r), hi = lo;

    if (kind_in_place(c, r)) {
        hi = lo + k->input[r].bytes;
        if (memcmp(k->out[r].data + lo, k->input[r].data, hi - lo) != 0)
            return false;
    }
    for (size_t i = 0; i < k->out[r].bytes; i++)
        if ((i < lo || i >= hi) && k->out[r].data[i] != POISON_BYTE)
            return false;
    return true;
}

static inline bool slices_are_right(const struct kind_job *k, const struct kind_case *c)
{
    for (int r = 0; r < c->in.size; r++)
        for (int p = 0; p < c->in.size; p++)
            if (memcmp(k->out[r].data + k->parts[p] * k->esize, k->input[p].data,
                       k->input[p].bytes) != 0)
                return false;
    return true;
}

static inline bool sums_are_right(const struct kind_job *k, const struct kind_case *c)
{
    struct array whole = array_make(c->in.n, k->esize);
    bool right = true;

    if (c->kind != SS_KIND_REDUCE_SCATTER)
        memcpy(whole.data, k->out[c->root].data, whole.bytes);
    for (int r = 0; r < c->in.size && c->kind == SS_KIND_REDUCE_SCATTER; r++)
        memcpy(whole.data + k->parts[r] * k->esize, k->out[r].data,
               (size_t)part_size(k, r) * k->esize);
    for (int r = 0; r < c->in.size && c->kind == SS_KIND_ALLREDUCE; r++)
        right = right && memcmp(k->out[r].data, whole.data, whole.bytes) == 0;
    right = right && oracle_first_wrong(&c->in, k->sent, whole.data) == c->in.n;
    free(whole.base);
    return right;
}

/* Returns a description of the failure after a call that has ended with the same status on all
 * ranks, or NULL. */
static inline const char *kind_complaint(const struct kind_job *k, const struct kind_case *c)
{
    bool native = k->job.status[0] == SS_NATIVE;

    for (int r = 0; r < c->in.size; r++) {
        size_t first = c->kind == SS_KIND_ALLGATHER ? k->parts[r] * k->esize : 0;
        if (!array_guards_hold(&k->out[r]))
            return "wrote past the result";
        if (!array_guards_hold(&k->input[r]) ||
            memcmp(k->input[r].data, k->sent[r].data + first, k->input[r].bytes) != 0)
            return "wrote to the send buffer";
        if (native && !kind_untouched(k, c, r))
            return "native, yet the result was written";
    }
    if (native)
        return NULL;
    bool right = c->kind == SS_KIND_ALLGATHER ? slices_are_right(k, c) : sums_are_right(k, c);
    return right ? NULL : "wrong result";
}

static inline void kind_print(const struct kind_case *c, const char *what)
{
    print_message("# %s: %s, division %d, %s, root %d\n", what, ss_kind_name(c->kind),
                  (int)c->division, c->in_place ? "in place" : "two buffers", c->root);
    input_print(&c->in);
}

#endif
