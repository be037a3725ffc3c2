/* lossscale CASE NAME=VALUE...: a loss scale changes the unit of the gradients; the residual
 * follows.
 *
 *     halved   the same gradients twice, bare and multiplied by a scale that is halved after each
 *              overflow: after division the results are the same bits in every step, where all
 *              sums are exact, and else within bound
 *     scalers  two loss scalers, of which one overflows (`where`) and halves its scale; norms
 *              fluctuate: what arrives in all balances in the unit of the bare gradients
 *     train    mixed precision training (scale doubled every `growth` steps, halved at each
 *              overflow, the step skipped) of a least-squares problem beside the same training
 *              without a scale: the same loss
 *
 *     n=COUNT steps=STEPS growth=STEPS form=whole|fractions tolerance=MILLIONTHS
 *     where=first|last|all: the tensors of a step that overflow
 *
 * Each of the two has a communicator and tensors of its own. */
#include "tests/mpi/support/gradient.h"
#include "tests/mpi/support/tap.h"

enum { TENSORS = 3, QUIET = 40, LIMIT = 400, ROWS = 64 };
static const double RATE = 0.01;
static const double HALF_PRECISION = 65504; /* the largest finite number of 16 bits */

struct run {
    MPI_Comm comm;
    float *in[TENSORS], *out[TENSORS];
    double scale;
};

struct job {
    int n, steps, growth;
    int first, last; /* tensors that overflow */
    struct gradient g[TENSORS];
    struct run bare, scaled;
};

static void run_open(struct run *run, const struct job *job, double scale)
{
    PMPI_Comm_dup(MPI_COMM_WORLD, &run->comm);
    for (int k = 0; k < TENSORS; k++) {
        run->in[k] = input_alloc(gradient_bytes(&job->g[k]));
        run->out[k] = input_alloc(gradient_bytes(&job->g[k]));
    }
    run->scale = scale;
}

static void run_close(struct run *run)
{
    for (int k = 0; k < TENSORS; k++) {
        free(run->in[k]);
        free(run->out[k]);
    }
    MPI_Comm_free(&run->comm);
}

/* One call site. */
__attribute__((noinline, noclone)) static void reduce(struct run *run, int k, int n)
{
    MPI_Allreduce(run->in[k], run->out[k], n, MPI_FLOAT, MPI_SUM, run->comm);
}

static bool is_finite(const float *v, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return false;
    return true;
}

/* The gradients of a step into both runs; on one rank a huge entry in both where it overflows. */
static void fill(struct job *job, int step, bool overflow)
{
    for (int k = 0; k < TENSORS; k++) {
        gradient_fill(&job->g[k], tap.rank, step, job->bare.in[k]);
        for (int i = 0; i < job->g[k].n; i++)
            job->scaled.in[k][i] = (float)((double)job->bare.in[k][i] * job->scaled.scale);
    }
    for (int k = job->first; k <= job->last && overflow && tap.rank == step % tap.size; k++)
        job->bare.in[k][step % job->g[k].n] = job->scaled.in[k][step % job->g[k].n] = INFINITY;
}

/* Relative to the sums over all steps. */
static double distance(const long double *a, const long double *b, int n)
{
    long double apart = 0, norm = 0;
    for (int i = 0; i < n; i++) {
        apart += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return norm > 0 ? (double)sqrtl(apart / norm) : 0;
}

struct sums {
    long double *bare, *scaled;
    int silent;
    int differ; /* steps in which the results differed */
    int first;
    double worst;         /* largest difference of an element, relative to the largest result */
    double most[TENSORS]; /* the largest result so far: what is left at the end is small */
};

static void compare(struct job *job, struct sums *sums, int step)
{
    bool same = true, zero = true;

    for (int k = 0, at = 0; k < TENSORS; at += job->g[k++].n) {
        double *most = &sums->most[k], apart = 0;
        for (int i = 0; i < job->g[k].n; i++) {
            float a = job->bare.out[k][i];
            float b = (float)((double)job->scaled.out[k][i] / job->scaled.scale);
            *most = fmax(*most, fabs((double)a));
            apart = fmax(apart, fabs((double)a - (double)b));
            zero = zero && a == 0 && b == 0;
            sums->bare[at + i] += (long double)a;
            sums->scaled[at + i] += (long double)b;
        }
        same = same && apart == 0;
        if (*most > 0)
            sums->worst = fmax(sums->worst, apart / *most);
    }
    sums->silent = zero ? sums->silent + 1 : 0;
    if (!same && sums->differ++ == 0)
        sums->first = step;
}

static void step_both(struct job *job, struct sums *sums, int step)
{
    bool finite = true;

    for (int k = 0; k < TENSORS; k++) {
        reduce(&job->bare, k, job->g[k].n);
        reduce(&job->scaled, k, job->g[k].n);
        finite = finite && is_finite(job->scaled.out[k], job->g[k].n);
    }
    if (finite)
        compare(job, sums, step);
}

/* The scale is halved every growth steps, each time after an overflow. */
static void open_loop(struct job *job, struct sums *sums)
{
    int elements = 0;

    for (int k = 0; k < TENSORS; k++)
        elements += job->g[k].n;
    sums->bare = calloc((size_t)elements, sizeof *sums->bare);
    sums->scaled = calloc((size_t)elements, sizeof *sums->scaled);
    if (!sums->bare || !sums->scaled)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int step = 0; step < job->steps || (sums->silent < QUIET && step < job->steps + LIMIT);
         step++) {
        bool overflow = step > 0 && step % job->growth == 0 && step < job->steps;
        if (step < job->steps)
            fill(job, step, overflow);
        for (int k = 0; k < TENSORS && step >= job->steps; k++) {
            memset(job->bare.in[k], 0, gradient_bytes(&job->g[k]));
            memset(job->scaled.in[k], 0, gradient_bytes(&job->g[k]));
        }
        step_both(job, sums, step);
        if (overflow)
            job->scaled.scale /= 2;
    }
    tap_ok(sums->silent >= QUIET, "what is held back arrives within %d steps", LIMIT);
    tap_note("results differ in %d steps, the first is %d, by at most %.3g of the largest; "
             "all in all by %.3g",
             sums->differ, sums->first, sums->worst, distance(sums->scaled, sums->bare, elements));
}

static void close_sums(struct sums *sums)
{
    free(sums->bare);
    free(sums->scaled);
}

static void halved(struct job *job, double tolerance)
{
    struct sums sums = {.first = -1};

    open_loop(job, &sums);
    if (tolerance == 0)
        tap_ok(sums.differ == 0, "halved after overflows: divided by the scale, the same bits");
    else
        tap_ok(sums.worst <= tolerance,
               "halved after overflows: divided by the scale, within %g of the largest result",
               tolerance);
    close_sums(&sums);
}

/* One step of a program with two scalers, one for the first tensor, one for the others; whether all
 * results were zero. */
static bool scalers_step(struct job *job, struct ledger *ledgers, int step, const double *scale,
                         bool overflow)
{
    double norm = exp2(0.4 * gradient_fraction(input_word(77, 0, (uint64_t)step)));
    bool zero = true;

    for (int k = 0; k < TENSORS; k++) {
        struct gradient *g = &job->g[k];
        float *in = job->scaled.in[k], *out = job->scaled.out[k];
        bool over = overflow && k == (job->first == 0 ? 0 : TENSORS - 1);

        for (int i = 0; i < g->n; i++)
            in[i] = step < job->steps
                        ? (float)((double)gradient_at(g, tap.rank, step, i) * norm * scale[k > 0])
                        : 0;
        if (over && tap.rank == step % tap.size)
            in[step % g->n] = INFINITY;
        reduce(&job->scaled, k, g->n);
        for (int i = 0; i < g->n && !over; i++) {
            for (int r = 0; r < g->ranks && step < job->steps; r++) {
                double x = (double)gradient_at(g, r, step, i) * norm * scale[k > 0];
                ledgers[k].in[i] += (long double)(float)x / scale[k > 0];
                ledgers[k].magnitude[i] += fabsl((long double)(float)x / scale[k > 0]);
            }
            ledgers[k].out[i] += (long double)out[i] / scale[k > 0];
            zero = zero && out[i] == 0;
        }
    }
    return zero;
}

static void scalers(struct job *job, double tolerance)
{
    struct ledger ledgers[TENSORS];
    double scale[2] = {65536, 1024}, *over = &scale[job->first > 0];
    int silent = 0, wrong = 0;

    (void)tolerance;
    for (int k = 0; k < TENSORS; k++)
        ledgers[k] = ledger_open(job->g[k].n);
    for (int step = 0; step < job->steps || (silent < QUIET && step < job->steps + LIMIT); step++) {
        bool overflow = step > 0 && step % job->growth == 0 && step < job->steps;
        silent = scalers_step(job, ledgers, step, scale, overflow) ? silent + 1 : 0;
        if (overflow)
            *over /= 2;
    }
    for (int k = 0; k < TENSORS; k++) {
        long double bound = (job->steps + tap.size + 2) * (long double)FLT_EPSILON;
        wrong += ledger_wrong(&ledgers[k], bound, k == 0 ? "the first" : "the other");
        ledger_close(&ledgers[k]);
    }
    tap_ok(silent >= QUIET, "two scalers: what is held back arrives within %d steps", LIMIT);
    tap_ok(wrong == 0, "two scalers: what arrives balances in the unit without a scale");
}

/* ---- training ---- */

struct problem {
    int n;
    float *x; /* ROWS x n */
    float y[ROWS];
};

static void problem_open(struct problem *p, int n)
{
    p->n = n;
    p->x = input_alloc(sizeof *p->x * (size_t)n * ROWS);
    for (int row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            uint64_t at = (uint64_t)row * (uint64_t)n + (uint64_t)i;
            double feature = gradient_fraction(input_word(21, tap.rank, at)) * 8 / sqrt(n);
            p->x[at] = (float)feature;
            sum += feature * gradient_fraction(input_word(22, 0, (uint64_t)i));
        }
        p->y[row] = (float)sum;
    }
}

/* Mean square error over this rank's rows; its gradient, times scale, to g. */
static double problem_loss(const struct problem *p, const float *w, double scale, float *g)
{
    double loss = 0;

    memset(g, 0, sizeof *g * (size_t)p->n);
    for (int row = 0; row < ROWS; row++) {
        const float *x = p->x + (size_t)row * (size_t)p->n;
        double error = -(double)p->y[row];
        for (int i = 0; i < p->n; i++)
            error += (double)x[i] * (double)w[i];
        loss += error * error / ROWS;
        for (int i = 0; i < p->n; i++)
            g[i] += (float)(error * scale) * x[i];
    }
    for (int i = 0; i < p->n; i++)
        if (fabs((double)g[i]) > HALF_PRECISION)
            g[i] = g[i] > 0 ? INFINITY : -INFINITY;
    return loss;
}

/* One step of one run. Returns whether it was taken: not where the gradient overflowed. */
static bool train_step(struct run *run, const struct problem *p, float *w, double rate)
{
    problem_loss(p, w, run->scale, run->in[0]);
    reduce(run, 0, p->n);
    if (!is_finite(run->out[0], p->n))
        return false;
    for (int i = 0; i < p->n; i++)
        w[i] -= (float)(rate * (double)run->out[0][i] / run->scale / tap.size);
    return true;
}

static void train(struct job *job, double tolerance)
{
    struct problem p;
    float *bare, *scaled;
    double loss[3], all[3];
    int since = 0, overflows = 0, doublings = 0;

    problem_open(&p, job->n);
    bare = memset(input_alloc(gradient_bytes(&job->g[0])), 0, gradient_bytes(&job->g[0]));
    scaled = memset(input_alloc(gradient_bytes(&job->g[0])), 0, gradient_bytes(&job->g[0]));
    loss[0] = problem_loss(&p, bare, 1, job->bare.in[0]);
    for (int step = 0; step < job->steps;) {
        if (!train_step(&job->scaled, &p, scaled, RATE)) {
            job->scaled.scale /= 2;
            overflows++;
            since = 0;
            continue;
        }
        train_step(&job->bare, &p, bare, RATE);
        step++;
        if (++since == job->growth) {
            job->scaled.scale *= 2;
            doublings++;
            since = 0;
        }
    }
    loss[1] = problem_loss(&p, bare, 1, job->bare.in[0]);
    loss[2] = problem_loss(&p, scaled, 1, job->bare.in[0]);
    PMPI_Allreduce(loss, all, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    tap_note("loss %.6g at first, %.6g without a scale, %.6g with one; %d overflows, %d doublings",
             all[0], all[1], all[2], overflows, doublings);
    tap_ok(overflows >= 2 && doublings >= 2, "the scale is doubled and halved");
    tap_ok(all[1] < 0.5 * all[0], "the training without a scale learns");
    tap_ok(fabs(all[2] - all[1]) <= tolerance * all[0],
           "the training with a scale arrives at the same loss, within %g of the first", tolerance);
    free(p.x);
    free(bare);
    free(scaled);
}

static const struct {
    const char *name;
    void (*run)(struct job *job, double tolerance);
} cases[] = {{"halved", halved}, {"scalers", scalers}, {"train", train}};

int main(int argc, char **argv)
{
    struct job job = {.n = 0};
    int status = 2;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    job.n = argument_number(argc, argv, "n", 2000);
    job.steps = argument_number(argc, argv, "steps", 100);
    job.growth = argument_number(argc, argv, "growth", 12);
    const char *where = argument(argc, argv, "where", "all");
    job.first = strcmp(where, "last") == 0 ? TENSORS - 1 : 0;
    job.last = strcmp(where, "first") == 0 ? 0 : TENSORS - 1;
    for (int k = 0; k < TENSORS; k++)
        job.g[k] = (struct gradient){.form = (enum form)argument_choice(
                                         argument(argc, argv, "form", "whole"), form_names, FORMS),
                                     .n = job.n / (k + 1) + k,
                                     .ranks = tap.size,
                                     .seed = 900 + (uint64_t)k};
    run_open(&job.bare, &job, 1);
    run_open(&job.scaled, &job, 65536);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        if (argc > 1 && strcmp(argv[1], cases[c].name) == 0) {
            cases[c].run(&job, argument_number(argc, argv, "tolerance", 0) * 1e-6);
            status = tap_end();
        }
    run_close(&job.bare);
    run_close(&job.scaled);
    MPI_Finalize();
    return status;
}
