/* layers CASE NAME=VALUE...: which buffer is which gradient, seen from outside.
 *
 *     layers     twelve equal layers through one scratch buffer, and a loss: each layer balances
 *     scratch    the same without the loss, so that no step can be seen: the sum of layers balances
 *     fusion     a fusion buffer whose packing varies: no gradient is lost, the end is exact
 *     weights    gradients in every step, weights summed in every tenth (buffers=equal: of the same
 *                count, else=other): prints a hash of the weights' sums, to be held against exact
 * mode metric     the last (end=last) or first elements of the gradient are metrics that arrive
 * exact notfinite  Inf and NaN on one rank come out as the MPI library has them, and leave no trace
 *     overflow   a sum that overflows arrives as Inf and leaves no trace
 *     native     every result is that of the MPI library, bit for bit
 *
 *     n=COUNT steps=STEPS form=scaled|whole bound=exact|eps packings=PACKINGS period=CALLS of one
 * packing each, each=no: only the sum of layers must balance, exact=no: the fusion buffer need not
 * end exact
 */
#include "tests/mpi/support/gradient.h"
#include "tests/mpi/support/tap.h"

enum { LAYERS = 12, QUIET = 40, LIMIT = 400, METRICS = 3, PIECES = 8 };

struct job {
    int argc;
    char **argv;
    int n, steps;
    int silent;        /* steps */
    int withheld;      /* calls */
    long double bound; /* of sums, relative to the magnitudes: 0 = to the last bit */
    struct gradient g;
    float *in, *out, *native;
    struct hashes hashes;
};

__attribute__((noinline)) static void reduce(struct job *job, const float *in, float *out, int n)
{
    MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    hashes_add(&job->hashes, gradient_hash(1, out, (size_t)n * sizeof *out));
}

__attribute__((noinline)) static void reduce_in_place(struct job *job, float *out, int n)
{
    MPI_Allreduce(MPI_IN_PLACE, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    hashes_add(&job->hashes, gradient_hash(1, out, (size_t)n * sizeof *out));
}

static bool is_zero(const float *v, int n)
{
    return gradient_is_zero(v, (size_t)n * sizeof *v, false);
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

/* Returns true if another step follows: gradients, then zeros until results have been negligible
 * for QUIET steps. A single loop with one call makes the steps, since the callers of a call site
 * can be part of a tensor's identity, too. */
static bool goes_on(const struct job *job, int step)
{
    return step < job->steps || (job->silent < QUIET && step < job->steps + LIMIT);
}

static void feed(struct job *job, int step)
{
    if (step < job->steps)
        gradient_fill(&job->g, tap.rank, step, job->in);
    else
        memset(job->in, 0, (size_t)job->n * sizeof *job->in);
}

/* Takes in what a step of zeros has brought: nothing is what lies far below the bound. */
static void listen(struct job *job, const struct ledger *ledger, int step)
{
    bool silent = true;

    for (int i = 0; i < job->n && silent; i++)
        silent = fabsl((long double)job->out[i]) <= job->bound / 16 * ledger->magnitude[i];
    job->silent = silent && step >= job->steps ? job->silent + 1 : 0;
}

/* Books a step of job->g in the ledger. */
static void book(struct job *job, struct ledger *ledger, int step)
{
    ledger_receive(ledger, false, job->out);
    listen(job, ledger, step);
    if (step >= job->steps)
        return;
    ledger_enter(ledger, &job->g, step);
    job->withheld += is_withheld(&job->g, job->out, step);
}

static void check_drained(const struct job *job)
{
    tap_ok(job->silent >= QUIET, "what is held back arrives within %d steps", LIMIT);
}

/* ---- layers ---- */

static void loss(struct job *job, bool marked)
{
    float mine = 1, all;

    if (!marked)
        return;
    reduce(job, &mine, &all, 1);
    if (all != (float)tap.size)
        tap_note("the loss arrives as %g", (double)all);
}

static void layers(struct job *job, bool marked)
{
    struct gradient layer[LAYERS];
    struct ledger ledger[LAYERS], total = ledger_open(job->n);
    bool each = marked && strcmp(argument(job->argc, job->argv, "each", "yes"), "yes") == 0;
    int withheld = 0, silent = 0, wrong = 0;

    for (int k = 0; k < LAYERS; k++) {
        layer[k] = job->g;
        layer[k].seed = 500 + (uint64_t)k;
        layer[k].form = WHOLE;
        ledger[k] = ledger_open(job->n);
    }
    for (int step = 0; step < job->steps || (silent < QUIET && step < job->steps + LIMIT); step++) {
        bool zero = step >= job->steps;
        for (int k = 0; k < LAYERS; k++) {
            if (step < job->steps)
                gradient_fill(&layer[k], tap.rank, step, job->out);
            else
                memset(job->out, 0, (size_t)job->n * sizeof *job->out);
            reduce_in_place(job, job->out, job->n);
            ledger_receive(&ledger[k], false, job->out);
            zero = is_zero(job->out, job->n) && zero;
            if (step >= job->steps)
                continue;
            ledger_enter(&ledger[k], &layer[k], step);
            withheld += is_withheld(&layer[k], job->out, step);
        }
        loss(job, marked);
        silent = zero ? silent + 1 : 0;
    }
    for (int k = 0; k < LAYERS; k++) {
        char name[32];
        snprintf(name, sizeof name, "layer %d", k);
        for (int i = 0; i < job->n; i++) {
            total.in[i] += ledger[k].in[i];
            total.out[i] += ledger[k].out[i];
            total.magnitude[i] += ledger[k].magnitude[i];
        }
        if (each && tap.rank == 0)
            wrong += ledger_wrong(&ledger[k], 0, name) > 0;
        ledger_close(&ledger[k]);
    }
    tap_ok(silent >= QUIET, "what is held back arrives within %d steps", LIMIT);
    tap_ok(withheld > 0, "some of it is held back");
    tap_note("withheld in %d of %d calls", withheld, job->steps * LAYERS);
    tap_ok(tap.rank != 0 || ledger_wrong(&total, 0, "all layers") == 0,
           "the results of all layers sum to their inputs");
    if (each)
        tap_ok(wrong == 0, "each of the twelve layers has its own residual: each balances");
    ledger_close(&total);
}

/* ---- a fusion buffer ---- */

/* PIECES gradients, the first far larger than the others, packed in an order that changes. */
static void pack(const struct job *job, int rank, int step, int packing, float *out)
{
    int order[PIECES], piece = job->n / PIECES;
    struct gradient g = job->g;

    for (int k = 0; k < PIECES; k++)
        order[k] = k;
    for (int k = PIECES - 1; k > 0; k--) {
        int other = (int)(input_word(9, packing, (uint64_t)k) % (unsigned)(k + 1));
        int swapped = order[k];
        order[k] = order[other];
        order[other] = swapped;
    }
    memset(out, 0, (size_t)job->n * sizeof *out);
    g.n = piece;
    g.form = WHOLE;
    for (int k = 0; k < PIECES; k++) {
        float *to = out + k * piece;
        g.seed = 700 + (uint64_t)order[k];
        gradient_fill(&g, rank, step, to);
        for (int i = 0; i < piece && order[k] == 0; i++)
            to[i] *= 64;
    }
}

/* Over the steps the schedule holds each packing for `period` calls. */
static void fusion(struct job *job)
{
    int packings = argument_number(job->argc, job->argv, "packings", 12);
    int period = argument_number(job->argc, job->argv, "period", 1);
    struct ledger ledger = ledger_open(job->n);
    float *other = input_alloc((size_t)job->n * sizeof *other);
    int withheld = 0, last = -1;

    for (int step = 0; goes_on(job, step); step++) {
        int packing = packings > 2
                          ? (int)(input_word(8, 0, (uint64_t)(step / period)) % (unsigned)packings)
                          : step / period % packings;
        float *sum = memset(job->native, 0, (size_t)job->n * sizeof *sum);
        for (int r = 0; r < tap.size && step < job->steps; r++) {
            pack(job, r, step, packing, other);
            for (int i = 0; i < job->n; i++) {
                sum[i] += other[i];
                ledger.in[i] += (long double)other[i];
                ledger.magnitude[i] += fabsl((long double)other[i]);
            }
        }
        feed(job, job->steps);
        if (step < job->steps)
            pack(job, tap.rank, step, packing, job->in);
        reduce(job, job->in, job->out, job->n);
        ledger_receive(&ledger, false, job->out);
        listen(job, &ledger, step);
        for (int i = 0; i < job->n && step < job->steps; i++)
            if (job->out[i] != sum[i]) {
                withheld++;
                last = step;
                break;
            }
    }
    tap_note("%d of %d results were not the sum of their inputs, the last in step %d", withheld,
             job->steps, last);
    check_drained(job);
    tap_ok(tap.rank != 0 || ledger_wrong(&ledger, job->bound, "buffer") == 0,
           "the results sum to the inputs");
    if (strcmp(argument(job->argc, job->argv, "exact", "yes"), "yes") == 0)
        tap_ok(last < job->steps - 20, "the last 20 results are exact");
    ledger_close(&ledger);
    free(other);
}

/* ---- weights ---- */

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

/* ---- metrics ---- */

static void metric(struct job *job)
{
    bool first = strcmp(argument(job->argc, job->argv, "end", "last"), "first") == 0;
    int at = first ? 0 : job->n - METRICS;
    struct ledger ledger = ledger_open(job->n);
    bool arrives = true;

    for (int step = 0; goes_on(job, step); step++) {
        feed(job, step);
        for (int k = 0; k < METRICS && step < job->steps;
             k++) /* far smaller than what is selected */
            job->in[at + k] = (float)((tap.rank + 1) * (step + k)) * 0x1p-120f;
        reduce(job, job->in, job->out, job->n);
        for (int k = 0; k < METRICS && step < job->steps; k++)
            arrives =
                arrives &&
                job->out[at + k] == (float)(tap.size * (tap.size + 1) / 2 * (step + k)) * 0x1p-120f;
        book(job, &ledger, step);
    }
    for (int k = 0; k < METRICS; k++)
        ledger.in[at + k] = ledger.out[at + k] = 0;
    tap_note("withheld in %d of %d calls", job->withheld, job->steps);
    tap_ok(arrives, "every metric arrives exact, in its own call");
    tap_ok(job->withheld > 0, "some of the rest is held back");
    check_drained(job);
    tap_ok(tap.rank != 0 || ledger_wrong(&ledger, job->bound, "gradient") == 0,
           "the results sum to the inputs");
    ledger_close(&ledger);
}

/* ---- what is not finite ---- */

/* Now and then. Returns whether it was done; not inlined, lest the compiler should make two calls
 * of the one that follows. */
__attribute__((noinline)) static bool spoil(const struct job *job, int step)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    int turn = step / 5;

    if (step % 5 != 3 || step >= job->steps)
        return false;
    if (tap.rank != turn % tap.size)
        return true;
    job->in[turn % 7] = bad[turn % 3];
    job->in[job->n - 1 - turn % 5] = bad[(turn + 1) % 3];
    if (turn % 2)
        job->in[job->n / 2] = bad[turn % 3];
    return true;
}

static void notfinite(struct job *job)
{
    struct ledger ledger = ledger_open(job->n);
    bool native = true;

    for (int step = 0; goes_on(job, step); step++) {
        feed(job, step);
        bool bad = spoil(job, step);
        reduce(job, job->in, job->out, job->n);
        if (bad) {
            PMPI_Allreduce(job->in, job->native, job->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            native = native && same_bits(job->out, job->native, job->n);
            continue;
        }
        book(job, &ledger, step);
    }
    tap_ok(native, "Inf and NaN on one rank arrive as the MPI library has them, bit for bit");
    tap_ok(job->withheld > 0, "between them some of the gradient is held back");
    check_drained(job);
    tap_ok(tap.rank != 0 || ledger_wrong(&ledger, job->bound, "finite calls") == 0,
           "the results of finite calls sum to their inputs");
    ledger_close(&ledger);
}

__attribute__((noinline)) static bool make_huge(const struct job *job, int at, int step)
{
    if (step % 5 != 3 || step >= job->steps)
        return false;
    job->in[at] = step % 2 ? FLT_MAX : -FLT_MAX;
    return true;
}

static void overflow(struct job *job)
{
    struct ledger ledger = ledger_open(job->n);
    int at = job->n / 3;
    bool arrives = true, elsewhere = true, later = true;

    for (int step = 0; goes_on(job, step); step++) {
        feed(job, step);
        bool huge = make_huge(job, at, step);
        reduce(job, job->in, job->out, job->n);
        for (int i = 0; i < job->n; i++)
            if (i != at)
                elsewhere = elsewhere && isfinite(job->out[i]);
        if (huge)
            arrives = arrives && job->out[at] == (step % 2 ? INFINITY : -INFINITY);
        else
            later = later && isfinite(job->out[at]) && fabsf(job->out[at]) < 1e30f;
        job->out[at] = 0;
        book(job, &ledger, step);
    }
    ledger.in[at] = ledger.out[at] = 0;
    tap_ok(arrives, "a sum that overflows arrives as Inf");
    tap_ok(elsewhere && later, "elsewhere and in later calls it leaves no trace");
    tap_ok(job->withheld > 0, "some of the gradient is held back");
    check_drained(job);
    tap_ok(tap.rank != 0 || ledger_wrong(&ledger, job->bound, "other elements") == 0,
           "the results of the other elements sum to their inputs");
    ledger_close(&ledger);
}

/* ---- nothing registered ---- */

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

static void layers_and_loss(struct job *job)
{
    layers(job, true);
}

static void layers_alone(struct job *job)
{
    layers(job, false);
}

static const struct {
    const char *name;
    void (*run)(struct job *job);
    int steps;
} cases[] = {
    {"layers", layers_and_loss, 30}, {"scratch", layers_alone, 12},
    {"fusion", fusion, 120},         {"weights", weights, 100},
    {"metric", metric, 30},          {"notfinite", notfinite, 40},
    {"overflow", overflow, 40},      {"native", native_throughout, 30},
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
    size_t bytes = (size_t)(job.n + LAYERS) * sizeof *job.in;
    job.in = input_alloc(bytes);
    job.out = input_alloc(bytes);
    job.native = input_alloc(bytes);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        if (argc > 1 && strcmp(argv[1], cases[c].name) == 0) {
            job.steps = argument_number(argc, argv, "steps", cases[c].steps);
            if (strcmp(argument(argc, argv, "bound", "exact"), "eps") == 0)
                job.bound = (job.steps + tap.size + 2) * (long double)FLT_EPSILON;
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
