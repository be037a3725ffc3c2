/* random_programs [--seed S] [--programs N] [--init single|funneled|serialized|multiple|sessions]
 *                 [--out PREFIX] [--trace] [--only N] [--skip A,B,...] [--raised]
 *
 * Random legal MPI programs, N of them, one for each seed from S on. Each rank writes to
 * PREFIX.RANK (or its standard output) one line for each program: its seed, a digest of all it
 * observed, and how many callbacks ran in a thread that is not the program's. Run bare and under a
 * library that promises to change nothing, the files are the same. scripts/campaign does that.
 *
 * What is called, on which communicator and with which sizes is drawn from the seed alike on all
 * ranks; when which requests are waited or tested for, each rank draws for itself. Every step is
 * reached by all ranks in one order, and a rank waits only for what all ranks have posted or post
 * in an earlier step: no program can deadlock under a right MPI library.
 *
 * --trace prints the lines behind the digest; --only N takes the first N steps of each program, and
 * --skip leaves single ones out; --raised leaves out what no program can do that is raised to
 * MPI_THREAD_MULTIPLE (SPARSESHIM_PROGRESS=watchdog and thread).
 */
#include "tests/mpi/rp_collectives.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

enum { LIMIT = 20 }; /* seconds of a program */

static struct {
    const char *init, *out, *skip;
    long seed, programs, only;
    bool trace, raised;
} options = {.init = "single", .seed = 1, .programs = 1, .only = 1000};

static const struct {
    const char *name;
    void (*act)(struct rp *p);
    int weight;
} actions[] = {
    {"reduce", rp_act_reduce, 30},
    {"shuffle", rp_act_shuffle, 10},
};
enum { ACTIONS = sizeof actions / sizeof *actions };

/* MPICH polls without ever leaving the processor, which costs a tenfold where there are more ranks
 * than processors. The poll of UCX, on which it may stand, found here first: it leaves. */
unsigned ucp_worker_progress(void *worker);
unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*_Atomic next)(void *);
    unsigned (*found)(void *) = atomic_load(&next);
    unsigned events;

    if (!found) {
        void *address = dlsym(RTLD_NEXT, "ucp_worker_progress");
        memcpy(&found, &address, sizeof found);
        atomic_store(&next, found);
    }
    events = found(worker);
    if (events == 0)
        sched_yield();
    return events;
}

/* ---- a program ---- */

static char place[100];

static void too_late(int signal_number)
{
    ssize_t ignored = write(STDERR_FILENO, place, strlen(place));

    (void)signal_number;
    _exit(ignored > 0 ? 99 : 98);
}

static void within_limit(const struct rp *p)
{
    if (!p->alone)
        return;
    snprintf(place, sizeof place, "hangs: seed %llu, rank %d, step %d\n",
             (unsigned long long)p->seed, p->rank, p->step);
    signal(SIGALRM, too_late);
    alarm(LIMIT);
}

static bool is_skipped(int step)
{
    char *end;

    for (const char *at = options.skip; at && *at; at = *end ? end + 1 : end)
        if (strtol(at, &end, 10) == step)
            return true;
        else if (end == at)
            return false;
    return false;
}

/* Each program has about two thirds of the actions, so that some get deep into one matter. */
static int draw_action(struct rp *p)
{
    int weight[ACTIONS], sum = 0, drawn;

    for (int i = 0; i < ACTIONS; i++) {
        weight[i] = input_word(p->seed, i, 4) % 3 ? actions[i].weight : 0;
        sum += weight[i];
    }
    if (sum == 0)
        return 0;
    drawn = rp_draw(p, sum);
    for (int i = 0; i < ACTIONS; i++) {
        if (drawn < weight[i])
            return i;
        drawn -= weight[i];
    }
    return 0;
}

static void take_step(struct rp *p)
{
    int action;

    p->shared = input_word(p->seed, p->step, 2);
    p->own = input_word(p->seed * 64 + (uint64_t)p->rank, p->step, 3);
    within_limit(p);
    if (is_skipped(p->step))
        return;
    action = draw_action(p);
    rp_note(p, "%s", actions[action].name);
    actions[action].act(p);
    while (p->waiting > RP_PENDING / 2)
        rp_complete_some(p, rp_draw_own(p, 2));
    if (rp_draw_own(p, 2))
        rp_complete_some(p, false);
}

static void end_slots(struct rp *p)
{
    for (int i = 0; i < RP_SLOTS; i++)
        if (p->slot[i].used && !p->slot[i].borrowed && p->slot[i].comm != MPI_COMM_NULL)
            RP(Comm_free, &p->slot[i].comm);
}

static void run(struct rp *p)
{
    int steps = 4 + (int)(input_word(p->seed, 0, 5) % 40);

    rp_here = (struct rp_thread){.program = p};
    for (p->step = 0; p->step < steps && p->step < options.only; p->step++)
        take_step(p);
    p->step = steps;
    within_limit(p);
    p->shared = input_word(p->seed, p->step, 2);
    if (rp_draw(p, 2))
        rp_complete_some(p, true);
    end_slots(p);
    rp_complete_some(p, true);
    alarm(0);
}

static void borrow(struct rp *p, int slot, MPI_Comm comm)
{
    struct rp_slot *s = &p->slot[slot];

    *s = (struct rp_slot){
        .used = true, .borrowed = true, .comm = comm, .handler = MPI_ERRORS_RETURN};
    MPI_Comm_rank(comm, &s->rank);
    MPI_Comm_size(comm, &s->size);
}

static void run_seed(uint64_t seed, MPI_Comm world, MPI_Comm self, FILE *out)
{
    static struct rp p;

    p = (struct rp){
        .seed = seed, .alone = true, .raised = options.raised, .trace = options.trace ? out : NULL};
    borrow(&p, 0, world);
    borrow(&p, 1, self);
    p.rank = p.slot[0].rank;
    p.size = p.slot[0].size;
    atomic_store(&rp_operations, 0);
    atomic_store(&rp_combined, 0);
    atomic_store(&rp_foreign, 0);
    atomic_store(&rp_outside, 0);
    run(&p);
    rp_note(&p, "%ld calls of operators, %ld elements", atomic_load(&rp_operations),
            atomic_load(&rp_combined));
    fprintf(out, "%llu %016llx foreign %d outside %d\n", (unsigned long long)seed,
            (unsigned long long)p.digest, atomic_load(&rp_foreign), atomic_load(&rp_outside));
    fflush(out);
}

/* ---- the whole ---- */

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--trace") == 0) {
            options.trace = true;
            continue;
        }
        if (strcmp(argv[i], "--raised") == 0) {
            options.raised = true;
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0)
            options.seed = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--programs") == 0)
            options.programs = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--only") == 0)
            options.only = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--skip") == 0)
            options.skip = value;
        else if (strcmp(argv[i], "--out") == 0)
            options.out = value;
        else if (strcmp(argv[i], "--init") == 0)
            options.init = value;
        i++;
    }
}

static FILE *open_out(int rank)
{
    char path[400];
    FILE *out;

    if (!options.out)
        return stdout;
    snprintf(path, sizeof path, "%s.%d", options.out, rank);
    out = fopen(path, "w");
    if (!out)
        MPI_Abort(MPI_COMM_WORLD, 2);
    return out;
}

int main(int argc, char **argv)
{
    FILE *out;
    int rank;

    read_options(argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    out = open_out(rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (long i = 0; i < options.programs; i++)
        run_seed((uint64_t)(options.seed + i), MPI_COMM_WORLD, MPI_COMM_SELF, out);
    MPI_Finalize();
    fprintf(out, "finalized\n");
    return 0;
}
