/* layers CASE NAME=VALUE...: what no rule names, seen from outside.
 *
 *     weights    gradients in every step, weights summed in every tenth (buffers=equal: of the same
 *                count, else=other): prints a hash of the weights' sums, to be held against exact
 *     native     every result is that of the MPI library, bit for bit
 *
 *     n=COUNT steps=STEPS form=scaled|whole
 */
#include "tests/mpi/support/gradient.h"
#include "tests/mpi/support/tap.h"

struct job {
    int argc;
    char **argv;
    int n, steps;
    struct gradient g;
    float *in, *out, *native;
    struct hashes hashes;
};

__attribute__((noinline)) static void reduce(struct job *job, const float *in, float *out, int n)
{
    MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    hashes_add(&job->hashes, gradient_hash(1, out, (size_t)n * sizeof *out));
}

static bool same_bits(const float *a, const float *b, int n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* The sum over ranks of element i in this step. */
static long double sum_at(const struct gradient *g, int step, int i)
{
    long double sum = 0;
    for (int r = 0; r < g->ranks; r++)
        sum += gradient_at(g, r, step, i);
    return sum;
}

/* Returns true if some element of the result lacks this step's inputs. */
static bool is_withheld(const struct gradient *g, const float *out, int step)
{
    for (int i = 0; i < g->n; i++)
        if (out[i] == 0 && sum_at(g, step, i) != 0)
            return true;
    return false;
}

static bool is_sum(const struct gradient *g, const float *out, int step)
{
    for (int i = 0; i < g->n; i++)
        if ((long double)out[i] != sum_at(g, step, i))
            return false;
    return true;
}

static float weight_at(int rank, int step, int i)
{
    double w = gradient_fraction(input_word(77, 0, (uint64_t)i));
    double change = gradient_fraction(input_word(78 + (uint64_t)step, rank, (uint64_t)i));
    return (float)(w + 1e-3 * change);
}

__attribute__((noinline)) static void average_weights(struct job *job, float *w, int n)
{
    MPI_Allreduce(MPI_IN_PLACE, w, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    hashes_add(&job->hashes, gradient_hash(1, w, (size_t)n * sizeof *w));
}

static void weights(struct job *job)
{
    bool equal = strcmp(argument(job->argc, job->argv, "buffers", "equal"), "equal") == 0;
    int n = equal ? job->n : job->n + 123, withheld = 0;
    float *w = input_alloc((size_t)n * sizeof *w);
    uint64_t bits = 0;

    for (int step = 0; step < job->steps; step++) {
        gradient_fill(&job->g, tap.rank, step, job->in);
        reduce(job, job->in, job->out, job->n);
        withheld += is_withheld(&job->g, job->out, step);
        if (step % 10 == 9) {
            for (int i = 0; i < n; i++)
                w[i] = weight_at(tap.rank, step, i);
            average_weights(job, w, n);
            bits = gradient_hash(bits, w, (size_t)n * sizeof *w);
        }
    }
    tap_note("gradients withheld in %d of %d calls", withheld, job->steps);
    if (strcmp(argument(job->argc, job->argv, "lossy", "yes"), "yes") == 0)
        tap_ok(withheld > 0, "some of the gradients is held back");
    tap_ok(true, "ran to the end");
    tap_note("bits %016llx", (unsigned long long)bits);
    free(w);
}

static void native_throughout(struct job *job)
{
    int differ = 0;
    bool sums = true;

    for (int step = 0; step < job->steps; step++) {
        gradient_fill(&job->g, tap.rank, step, job->in);
        reduce(job, job->in, job->out, job->n);
        PMPI_Allreduce(job->in, job->native, job->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        differ += !same_bits(job->out, job->native, job->n);
        sums = sums && is_sum(&job->g, job->out, step);
    }
    tap_ok(differ == 0, "every result is that of the MPI library, bit for bit");
    tap_ok(sums, "every result is the sum of its inputs");
}

static const struct {
    const char *name;
    void (*run)(struct job *job);
    int steps;
} cases[] = {
    {"weights", weights, 100},
    {"native", native_throughout, 30},
};

int main(int argc, char **argv)
{
    struct job job = {.argc = argc, .argv = argv};
    int status = 2;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    job.n = argument_number(argc, argv, "n", 1800);
    job.g = (struct gradient){.form = (enum form)argument_choice(
                                  argument(argc, argv, "form", "scaled"), form_names, FORMS),
                              .n = job.n,
                              .ranks = tap.size,
                              .seed = 400};
    size_t bytes = (size_t)job.n * sizeof *job.in;
    job.in = input_alloc(bytes);
    job.out = input_alloc(bytes);
    job.native = input_alloc(bytes);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        if (argc > 1 && strcmp(argv[1], cases[c].name) == 0) {
            job.steps = argument_number(argc, argv, "steps", cases[c].steps);
            cases[c].run(&job);
            int differ = hashes_differ(&job.hashes, tap.rank, tap.size);
            tap_ok(differ < 0, "all ranks hold the same bits in each of %d calls", job.hashes.made);
            status = tap_end();
        }
    free(job.in);
    free(job.out);
    free(job.native);
    free(job.hashes.of);
    MPI_Finalize();
    return status;
}
