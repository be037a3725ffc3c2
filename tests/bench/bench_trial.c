/* The calls of `sparseshim simulate` on a real network: the same inputs (core/trial/entries.h), to
 * compare bytes, results and times.
 *
 *     bench_trial --count 1048576 --density 0.05 --calls 4 --blocks 5 [--overlap 0] [--seed 1]
 * [--number 1] [--bare] [--device eth0]
 *
 * --number: which of the simulated calls the input is of, the same in every call here. --bare:
 * PMPI_Allreduce. First exchange is made with another count, so that the lane of the calls holds
 * nothing else. Prints ranks, seconds (slowest rank, per call, median of the blocks), bytes that
 * the busiest rank's interface sent per call, elements of the result that are not zero, and their
 * checksum as the simulation has it.
 *
 * --simulate RANKS: simulates the call in this process, as `sparseshim simulate` does, with
 * --algorithm, --alpha, --beta, --per-host, and what only a comparison needs: --burst BYTES that an
 * idle link lets pass at once, --cores N that all ranks share, --warm CALLS before the one that
 * counts. Prints the same, but the bytes are those of the busiest rank to all ranks; then their
 * mean, and the bytes that the busiest host sends to other hosts. */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/trial/trial.h"
#include "tests/bench/measure.h"

enum { MOST_BLOCKS = 1000 };

struct options {
    struct ss_entries entries;
    uint64_t number;
    int calls, blocks;
    bool bare;
    const char *device;
    struct ss_trial trial; /* ranks 0: calls are made */
};

static void set(struct options *o, const char *name, const char *value)
{
    if (strcmp(name, "--count") == 0)
        o->entries.n = strtoull(value, NULL, 10);
    else if (strcmp(name, "--density") == 0)
        o->entries.density = strtod(value, NULL);
    else if (strcmp(name, "--overlap") == 0)
        o->entries.overlap = strtod(value, NULL);
    else if (strcmp(name, "--seed") == 0)
        o->entries.seed = strtoull(value, NULL, 10);
    else if (strcmp(name, "--support") == 0)
        for (int i = 0; i < SS_SUPPORTS; i++) {
            if (strcmp(value, ss_support_name((enum ss_support)i)) == 0)
                o->entries.support = (enum ss_support)i;
        }
    else if (strcmp(name, "--per-host") == 0)
        o->trial.per_host = atoi(value);
    else if (strcmp(name, "--number") == 0)
        o->number = strtoull(value, NULL, 10);
    else if (strcmp(name, "--calls") == 0)
        o->calls = atoi(value);
    else if (strcmp(name, "--blocks") == 0)
        o->blocks = atoi(value);
    else if (strcmp(name, "--device") == 0)
        o->device = value;
    else if (strcmp(name, "--simulate") == 0)
        o->trial.ranks = atoi(value);
    else if (strcmp(name, "--alpha") == 0)
        o->trial.gap = (o->trial.alpha = strtod(value, NULL)) / 10;
    else if (strcmp(name, "--per-host") == 0)
        o->trial.per_host = atoi(value);
    else if (strcmp(name, "--beta") == 0)
        o->trial.beta = strtod(value, NULL);
    else if (strcmp(name, "--burst") == 0)
        o->trial.burst = strtod(value, NULL);
    else if (strcmp(name, "--warm") == 0)
        o->trial.warm = (unsigned)atoi(value);
    else if (strcmp(name, "--cores") == 0) {
        o->trial.cores = (unsigned)atoi(value);
        o->trial.compute = 1;
    } else if (strcmp(name, "--algorithm") == 0)
        for (int a = 0; a < SS_ALGORITHMS; a++) {
            if (strcmp(value, ss_algorithm_name((enum ss_algorithm)a)) == 0)
                o->trial.algorithm = (enum ss_algorithm)a;
        }
    else {
        fprintf(stderr, "bench_trial: unknown option %s\n", name);
        exit(2);
    }
}

static struct options parse(int argc, char **argv)
{
    struct options o = {.entries = {.n = 1 << 20, .density = 0.01, .seed = 1},
                        .number = 1,
                        .calls = 1,
                        .blocks = 1,
                        .device = "eth0"};

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--bare") == 0)
            o.bare = true;
        else {
            set(&o, argv[i], i + 1 < argc ? argv[i + 1] : "");
            i++;
        }
    bool good = o.entries.n >= 1 && o.entries.n < INT32_MAX && o.entries.density > 0 &&
                o.entries.density <= 1 && o.entries.overlap >= 0 && o.entries.overlap <= 1;
    if (!good || o.calls < 1 || o.blocks < 1 || o.blocks > MOST_BLOCKS) {
        fprintf(stderr, "bench_trial: --count from 1, --density above 0, shares up to 1, --calls "
                        "and --blocks from 1, at most 1000 blocks\n");
        exit(2);
    }
    return o;
}

static void draw(const struct options *o, int rank, float *in)
{
    struct ss_entries_cursor c;
    uint32_t idx;
    float val;

    memset(in, 0, o->entries.n * sizeof *in);
    ss_entries_start(&c, &o->entries, o->number, rank);
    while (ss_entries_next(&c, &idx, &val))
        in[idx] = val;
}

typedef int allreduce(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);

/* Seconds and bytes per call: of the slowest rank in each, of the busiest in all. Nobody begins a
 * call before all have ended the one before, and what was sent has left by the end. */
static void block(const struct options *o, const float *in, float *out, double most[2])
{
    allreduce *call = o->bare ? PMPI_Allreduce : MPI_Allreduce;
    double sent = measure_sent_bytes(o->device), seconds = 0;

    for (int i = 0; i < o->calls; i++) {
        PMPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        call(in, out, (int)o->entries.n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        double mine = MPI_Wtime() - begin, slowest;
        PMPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        seconds += slowest / o->calls;
    }
    double mine[2] = {seconds, (measure_sent_bytes(o->device) - sent) / o->calls};
    PMPI_Allreduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void tell(const struct options *o, int size, const float *out, double seconds, double bytes)
{
    struct ss_digest sum = {0};

    for (uint64_t i = 0; i < o->entries.n; i++)
        ss_digest_add(&sum, i, out[i]);
    printf("%d,%.9f,%.0f,%" PRIu64 ",%016" PRIx64 "\n", size, seconds, bytes, sum.nnz, sum.sum);
}

static int simulate(struct options *o)
{
    struct ss_trial_result r = {0};

    o->trial.entries = o->entries;
    int status = ss_trial_run(&o->trial, &r);
    if (status != SS_OK) {
        fprintf(stderr, "bench_trial: the simulation failed: %s\n", ss_status_text(status));
        return 1;
    }
    printf("%d,%.9f,%" PRIu64 ",%" PRIu64 ",%016" PRIx64 ",%.0f,%s,%" PRIu64 "\n", o->trial.ranks,
           r.seconds, r.bytes_max, r.result_nnz, r.checksum, (double)r.bytes_sum / o->trial.ranks,
           ss_algorithm_name(r.ran), r.outside_max);
    return 0;
}

int main(int argc, char **argv)
{
    static double seconds[MOST_BLOCKS], bytes[MOST_BLOCKS];
    struct options o = parse(argc, argv);
    int rank, size;

    if (o.trial.ranks > 0)
        return simulate(&o);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    float *in = malloc(o.entries.n * sizeof *in), *out = calloc(o.entries.n + 1, sizeof *out);
    if (!in || !out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    draw(&o, rank, in);
    MPI_Allreduce(MPI_IN_PLACE, out, (int)o.entries.n + 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int b = 0; b < o.blocks; b++) {
        double most[2];
        block(&o, in, out, most);
        seconds[b] = most[0];
        bytes[b] = most[1];
    }
    if (rank == 0)
        tell(&o, size, out, measure_median(seconds, o.blocks), measure_median(bytes, o.blocks));
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
