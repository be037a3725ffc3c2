/* conserve NAME=VALUE...: no gradient is lost, seen from outside (core/README.md, invariant 3).
 *
 * The ranks sum gradients for `steps` steps, then zeros until the results have died out. The sum of
 * all results must be the sum of all inputs over ranks and steps, within (S + P + 2) eps sum |in|
 * per element. If every sum of the input's form is exact, the two are equal. Patterns follow each
 * other: with comm=fresh each has its own communicator; with comm=same all share one, so that a
 * pattern begins with the thresholds of the pattern before.
 *
 *     n=COUNT steps=STEPS tensors=TENSORS in a step, type=float|double|both,
 *     pattern=all|NAME,NAME...,
 *     form=fractions|scaled|whole, place=out|in|turns, bound=exact|eps, limit=CALLS to die out,
 *     quiet=CALLS without a result after which it has, lossy=yes: results must have been withheld,
 *     norms=steady|steps|drift|lognormal|turns: how the gradients' norms go, in turns by pattern
 *     inf=CALLS: about one in so many calls has an Inf or NaN on one rank: it is neither in the sum
 *     of inputs nor in that of results, and its result says so in that element
 */
#include "tests/mpi/support/gradient.h"
#include "tests/mpi/support/tap.h"

enum { MOST_TENSORS = 8 };
enum { OUT_OF_PLACE, IN_PLACE, TURNS };
static const char *const places[] = {"out", "in", "turns"};
static const char *const types[] = {"float", "double", "both"};
static const char *const bounds[] = {"exact", "eps"};
enum { IN_TURNS = NORMS };
static const char *const norms_choices[] = {"steady", "steps", "drift", "lognormal", "turns"};

struct tensor {
    struct gradient gradient;
    struct ledger ledger;
    void *in, *out;
    bool spoiled; /* its input of this call is not finite on one rank */
};

struct job {
    int n, steps, tensors, type, place, limit, quiet, norms, inf;
    MPI_Comm comm;
    enum form form;
    bool exact, lossy, fresh;
    struct tensor tensor[MOST_TENSORS];
    struct hashes hashes;
    uint64_t bits;
    int calls;
    int withheld;     /* calls whose result was not the sum of this step's inputs */
    int infs, hidden; /* calls with Inf or NaN; of these, results without */
};

/* Makes all calls from one call site, which is part of a tensor's identity. */
__attribute__((noinline)) static void call(struct job *job, struct tensor *t)
{
    const struct gradient *g = &t->gradient;
    bool in_place = job->place == IN_PLACE || (job->place == TURNS && job->calls % 3 == 1);

    if (in_place)
        memcpy(t->out, t->in, gradient_bytes(g));
    MPI_Allreduce(in_place ? MPI_IN_PLACE : t->in, t->out, g->n, gradient_type(g), MPI_SUM,
                  job->comm);
    uint64_t hash = gradient_hash(1, t->out, gradient_bytes(g));
    hashes_add(&job->hashes, hash);
    job->bits = job->bits * 0x100000001b3u ^ hash;
    job->calls++;
}

/* Returns true if some element of rank 0's result lacks this step's inputs. */
static bool is_withheld(const struct tensor *t, int step)
{
    const struct gradient *g = &t->gradient;

    for (int i = 0; i < g->n; i++) {
        long double sum = 0;
        bool zero = g->wide ? ((double *)t->out)[i] == 0 : ((float *)t->out)[i] == 0;
        for (int r = 0; r < g->ranks && zero; r++)
            sum += gradient_at(g, r, step, i);
        if (sum != 0)
            return true;
    }
    return false;
}

static double element(const struct tensor *t, const void *v, int i)
{
    return t->gradient.wide ? ((const double *)v)[i] : (double)((const float *)v)[i];
}

static int spoiled_at(const struct tensor *t, uint64_t word)
{
    return (int)((word >> 8) % (uint64_t)t->gradient.n);
}

/* Makes the input not finite on one rank, where it is to be. Not inline: the compiler must not make
 * two of the call that follows, which would be two call sites. */
__attribute__((noinline)) static void spoil(struct tensor *t, uint64_t word)
{
    int at = spoiled_at(t, word);
    float bad = word & 1 ? INFINITY : NAN;

    if (t->spoiled && tap.rank == (int)((word >> 40) % (uint64_t)tap.size)) {
        if (t->gradient.wide)
            ((double *)t->in)[at] = (double)bad;
        else
            ((float *)t->in)[at] = bad;
    }
}

static void book_not_finite(struct job *job, struct tensor *t, int step, uint64_t word)
{
    int at = spoiled_at(t, word);

    job->infs++;
    job->hidden += isfinite(element(t, t->out, at));
    if (tap.rank == 0) /* what the call claimed goes back within eps (|g| + |r|) */
        ledger_magnitudes(&t->ledger, &t->gradient, step);
}

static void book_finite(struct job *job, struct tensor *t, int step)
{
    if (tap.rank != 0)
        return;
    ledger_receive(&t->ledger, t->gradient.wide, t->out);
    if (step >= job->steps)
        return;
    ledger_enter(&t->ledger, &t->gradient, step);
    job->withheld += is_withheld(t, step);
}

/* Returns true if rank 0's result is negligible: zero if sums are exact, otherwise far below the
 * error that the sum may have. Values rounded to fractions of the largest leave ever smaller
 * errors. */
static bool is_silent(const struct job *job, const struct tensor *t)
{
    const struct gradient *g = &t->gradient;
    long double eps = g->wide ? DBL_EPSILON : (long double)FLT_EPSILON;

    for (int i = 0; i < g->n; i++) {
        long double out =
            g->wide ? (long double)((double *)t->out)[i] : (long double)((float *)t->out)[i];
        long double limit = job->exact ? 0 : eps / 16 * t->ledger.magnitude[i];
        if (!(fabsl(out) <= limit))
            return false;
    }
    return true;
}

/* Sums gradients, then zeros until results have been negligible for a while. Returns on rank 0 the
 * number of steps of zeros before that, or -1 if it took too long. If ranks cancel each other,
 * results are negligible for long although the residuals are large. A single loop makes the calls,
 * since the callers of a call site can be part of a tensor's identity, too. */
static int train_and_drain(struct job *job, bool cancels)
{
    int silent = 0, zeros = 0, until = job->quiet * (cancels ? 8 : 1), end = 0;

    for (int step = 0; !end; step++) {
        bool quiet = true;
        for (int k = 0; k < job->tensors; k++) {
            struct tensor *t = &job->tensor[k];
            if (step < job->steps)
                gradient_fill(&t->gradient, tap.rank, step, t->in);
            else
                memset(t->in, 0, gradient_bytes(&t->gradient));
            uint64_t word = input_word(t->gradient.seed + 5000, 0, (uint64_t)step);
            t->spoiled =
                job->inf > 0 && step < job->steps && (word >> 20) % (uint64_t)job->inf == 0;
            spoil(t, word);
            call(job, t);
            if (t->spoiled)
                book_not_finite(job, t, step, word);
            else
                book_finite(job, t, step);
            if (tap.rank == 0 && step >= job->steps)
                quiet = quiet && is_silent(job, t);
        }
        if (step < job->steps)
            continue;
        silent = quiet ? silent + 1 : 0;
        if (++zeros % 8 == 0) {
            end = silent >= until || zeros >= job->limit;
            PMPI_Bcast(&end, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    }
    return silent >= until ? zeros - silent : -1;
}

static void run_pattern(struct job *job, enum pattern pattern)
{
    bool balanced = true;

    job->withheld = 0;
    if (job->fresh)
        MPI_Comm_dup(MPI_COMM_WORLD, &job->comm);
    for (int k = 0; k < job->tensors; k++) {
        struct tensor *t = &job->tensor[k];
        t->gradient.pattern = pattern;
        t->gradient.norms = (enum norms)(job->norms < IN_TURNS    ? job->norms
                                         : job->form == FRACTIONS ? (int)pattern % NORMS
                                                                  : (int)pattern % 2);
        t->gradient.seed = (uint64_t)pattern * 100 + (uint64_t)k;
        t->ledger = ledger_open(t->gradient.n);
    }
    int dead = train_and_drain(job, pattern == CANCELLING || pattern == MASKED);
    for (int k = 0; k < job->tensors; k++) {
        struct tensor *t = &job->tensor[k];
        double eps = t->gradient.wide ? DBL_EPSILON : (double)FLT_EPSILON;
        long double bound = job->exact ? 0 : (job->steps + tap.size + 2) * (long double)eps;
        if (tap.rank == 0 && ledger_wrong(&t->ledger, bound, pattern_names[pattern]) > 0)
            balanced = false;
        ledger_close(&t->ledger);
    }
    if (job->fresh)
        MPI_Comm_free(&job->comm);
    tap_note("%s: withheld in %d of %d calls, died out after %d steps of zeros",
             pattern_names[pattern], job->withheld, job->steps * job->tensors, dead);
    tap_ok(dead >= 0, "%s: what is held back arrives within %d calls", pattern_names[pattern],
           job->limit);
    tap_ok(balanced, "%s: the results sum to the inputs%s", pattern_names[pattern],
           job->exact ? ", to the last bit" : "");
    if (job->lossy && (pattern == HEAVY || pattern == EQUAL || pattern == MAGNITUDES))
        tap_ok(tap.rank != 0 || job->withheld > 0, "%s: some of it is held back",
               pattern_names[pattern]);
}

static void open_job(struct job *job, int argc, char **argv)
{
    job->n = argument_number(argc, argv, "n", 3001);
    job->steps = argument_number(argc, argv, "steps", 20);
    job->tensors = argument_number(argc, argv, "tensors", 1);
    job->type = argument_choice(argument(argc, argv, "type", "float"), types, 3);
    job->place = argument_choice(argument(argc, argv, "place", "out"), places, 3);
    job->form =
        (enum form)argument_choice(argument(argc, argv, "form", "fractions"), form_names, FORMS);
    job->exact = argument_choice(argument(argc, argv, "bound", "eps"), bounds, 2) == 0;
    job->comm = MPI_COMM_WORLD;
    job->fresh = strcmp(argument(argc, argv, "comm", "same"), "fresh") == 0;
    job->limit = argument_number(argc, argv, "limit", 1500);
    job->quiet = argument_number(argc, argv, "quiet", 70);
    job->norms = argument_choice(argument(argc, argv, "norms", "turns"), norms_choices, NORMS + 1);
    job->inf = argument_number(argc, argv, "inf", 9);
    job->lossy = strcmp(argument(argc, argv, "lossy", "no"), "yes") == 0;
    for (int k = 0; k < job->tensors && k < MOST_TENSORS; k++) {
        struct tensor *t = &job->tensor[k];
        t->gradient = (struct gradient){.form = job->form,
                                        .wide = job->type == 2 ? k % 2 : job->type == 1,
                                        .n = job->n / (k + 1) + k,
                                        .ranks = tap.size};
        t->in = input_alloc(gradient_bytes(&t->gradient));
        t->out = input_alloc(gradient_bytes(&t->gradient));
    }
}

static bool is_among(const char *list, const char *name)
{
    size_t length = strlen(name);

    if (strcmp(list, "all") == 0)
        return true;
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strncmp(list, name, length) == 0 && (list[length] == ',' || !list[length]))
            return true;
    return false;
}

static void close_job(struct job *job)
{
    for (int k = 0; k < job->tensors; k++) {
        free(job->tensor[k].in);
        free(job->tensor[k].out);
    }
    free(job->hashes.of);
}

int main(int argc, char **argv)
{
    static struct job job;
    const char *patterns;
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    open_job(&job, argc, argv);
    patterns = argument(argc, argv, "pattern", "all");
    for (int p = 0; p < PATTERNS; p++)
        if (is_among(patterns, pattern_names[p]))
            run_pattern(&job, (enum pattern)p);
    int differ = hashes_differ(&job.hashes, tap.rank, tap.size);
    tap_ok(differ < 0, "all ranks hold the same bits in each of %d calls", job.calls);
    if (differ >= 0)
        tap_note("the first call in which they do not: %d", differ + 1);
    tap_ok(job.hidden == 0, "Inf and NaN arrive in each of %d calls", job.infs);
    tap_note("bits %016llx", (unsigned long long)job.bits);
    close_job(&job);
    status = tap_end();
    MPI_Finalize();
    return status;
}
