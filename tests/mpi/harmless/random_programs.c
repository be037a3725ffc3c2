/* random_programs [--seed S] [--programs N] [--init single|funneled|serialized|multiple|sessions]
 *                 [--out PREFIX] [--trace] [--only N] [--skip A,B,...] [--without "action,..."]
 *                 [--raised] [--callbacks late|early|any|none] [--limit SECONDS] [--plain-end]
 *
 * Random legal MPI programs, N of them, one for each seed from S on. Each rank writes to
 * PREFIX.RANK (or its standard output) one line for each program: its seed, a digest of all it
 * observed, and how many callbacks ran in a thread that is not the program's. Run bare and under a
 * library that promises to change nothing, the files are the same. scripts/campaign does that.
 *
 * All ranks draw the calls, their communicators and their sizes from the seed alike; each rank
 * draws for itself when it waits or tests for which requests. All ranks reach every step in one
 * order, and a rank waits only for operations that all ranks post in this step or an earlier one.
 * No program can deadlock under a correct MPI library.
 *
 * - --limit: a program that takes longer ends with a line that names the step in which it hangs.
 * - --plain-end sets no attributes that MPI_Finalize deletes.
 * - --trace prints the lines behind the digest.
 * - --only N takes the first N steps of each program; --skip leaves out single steps, --without the
 *   steps of an action.
 * - --raised leaves out the actions that are not possible in a program raised to
 *   MPI_THREAD_MULTIPLE (SPARSESHIM_PROGRESS=watchdog and thread).
 * - --callbacks says when the program makes operators and attributes: before all else (early),
 * never (none), at any time except attributes of datatypes (any), or in a step that completes all
 * that it began (late, the default).
 *
 * --callbacks obeys a rule of the README. At MPI_THREAD_MULTIPLE a program may set its first
 * attribute with callbacks on a datatype, or start its first persistent request beside an operator,
 * while a nonblocking call is in flight. The program must then complete that call before it blocks
 * in a call that the library does not see. Calls that are the MPI library's from their post on are
 * free of the rule: with "early" all are.
 */
#include "tests/mpi/harmless/rp_attributes.h"
#include "tests/mpi/harmless/rp_births.h"
#include "tests/mpi/harmless/rp_collectives.h"
#include "tests/mpi/harmless/rp_comms.h"
#include "tests/mpi/harmless/rp_errors.h"
#include "tests/mpi/harmless/rp_gathers.h"
#include "tests/mpi/harmless/rp_messages.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

enum { LONG = 65536 }; /* elements that any MIN_COUNT of scripts/campaign serves */

static struct {
    const char *init, *out, *skip, *without;
    long seed, programs, only;
    long limit; /* seconds of a program */
    bool trace, raised, plain_end;
    const char *callbacks;
} options = {.init = "single",
             .without = "",
             .callbacks = "late",
             .seed = 1,
             .programs = 1,
             .only = 1000,
             .limit = 20};

static struct {
    MPI_Comm world, self;
    MPI_Session session; /* MPI_SESSION_NULL: MPI_Init was called */
    int level;           /* of threads, as the program knows it */
    FILE *out;
} job = {.world = MPI_COMM_WORLD, .self = MPI_COMM_SELF, .session = MPI_SESSION_NULL};

/* This rank does something else for a while. */
static void act_compute(struct rp *p)
{
    if (rp_draw_own(p, 3) == 0)
        usleep((useconds_t)(500 + rp_draw_own(p, 10000)));
}

/* Lets a rank wait for a message of a rank that waits for a collective first. */
static void act_elsewhere(struct rp *p)
{
    struct rp_slot *slot = rp_draw_intra(p);
    int token = p->step;

    if (slot->comm == MPI_COMM_NULL || slot->size < 2)
        return;
    rp_reduce_on(p, slot, RP_IALLREDUCE);
    if (p->settles)
        rp_complete_some(p, true);
    if (slot->rank == 0) {
        rp_complete_some(p, true);
        for (int r = 1; r < slot->size; r++)
            RP(Send, &token, 1, MPI_INT, r, p->step, slot->comm);
    } else {
        RP(Recv, &token, 1, MPI_INT, 0, p->step, slot->comm, MPI_STATUS_IGNORE);
    }
}

static void act_pcontrol(struct rp *p)
{
    bool alike = rp_draw(p, 2);
    int level = alike ? rp_draw(p, 2) : rp_draw_own(p, 2);

    rp_note(p, "Pcontrol(%d): %d", level, RP(Pcontrol, level));
}

static const struct {
    const char *name;
    void (*act)(struct rp *p);
    int weight;
    bool alone; /* only where no other thread runs a program */
    bool calls_back;
} actions[] = {
    {"reduce", rp_act_reduce, 30, false, false},
    {"gather", rp_act_gather, 20, false, false},
    {"shuffle", rp_act_shuffle, 6, false, false},
    {"make", rp_act_make, 12, false, false},
    {"make inter", rp_act_make_inter, 3, false, false},
    {"free", rp_act_free, 6, false, false},
    {"name", rp_act_name, 3, false, false},
    {"compare", rp_act_compare, 2, false, false},
    {"inter", rp_act_inter, 4, false, false},
    {"neighbours", rp_act_neighbours, 3, false, false},
    {"set attribute", rp_act_set_attribute, 6, false, true},
    {"get attribute", rp_act_get_attribute, 5, false, true},
    {"predefined copy", rp_act_dup_fn, 2, false, false},
    {"type attribute", rp_act_type_attribute, 4, false, true},
    {"set handler", rp_act_set_handler, 6, false, false},
    {"wrong", rp_act_wrong, 8, false, false},
    {"message", rp_act_message, 12, false, false},
    {"sendrecv", rp_act_sendrecv, 4, false, false},
    {"elsewhere", act_elsewhere, 4, false, false},
    {"cancel", rp_act_cancel, 3, false, false},
    {"refused", rp_act_refused, 3, true, false},
    {"window", rp_act_window, 3, false, false},
    {"generalized", rp_act_general, 5, false, false},
    {"compute", act_compute, 5, false, false},
    {"Pcontrol", act_pcontrol, 4, true, false},
    {"between", rp_act_between, 8, false, false},
    {"crowd", rp_act_crowd, 3, false, false},
    {"lone operator", rp_act_lone_operator, 3, false, true},
    {"lone type attribute", rp_act_lone_type_attribute, 3, false, true},
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
    if (!p->main)
        return;
    snprintf(place, sizeof place, "hangs: seed %llu, rank %d, step %d\n",
             (unsigned long long)p->seed, p->rank, p->step);
    signal(SIGALRM, too_late);
    alarm((unsigned)options.limit);
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
        bool can = (p->alone || !actions[i].alone) && !(p->plain && actions[i].calls_back);

        weight[i] = input_word(p->seed, i, 4) % 3 && can ? actions[i].weight : 0;
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
    if (strstr(options.without, actions[action].name) ||
        (strcmp(options.callbacks, "any") == 0 && strstr(actions[action].name, "type attribute")))
        return;
    rp_note(p, "%s", actions[action].name);
    actions[action].act(p);
    while (p->waiting > RP_PENDING / 2)
        rp_complete_some(p, rp_draw_own(p, 2));
    if (p->settles)
        rp_complete_some(p, true);
    else if (rp_draw_own(p, 2))
        rp_complete_some(p, false);
}

static void end_slots(struct rp *p)
{
    for (int i = 0; i < RP_SLOTS + p->crowd; i++)
        if (p->slot[i].used && !p->slot[i].borrowed && p->slot[i].comm != MPI_COMM_NULL)
            RP(Comm_free, &p->slot[i].comm);
}

static void *run(void *program)
{
    struct rp *p = program;
    int steps = 4 + (int)(input_word(p->seed, 0, 5) % 40);

    rp_here = (struct rp_thread){.program = p};
    for (p->step = 0; p->step < steps && p->step < options.only; p->step++)
        take_step(p);
    p->step = steps;
    within_limit(p);
    p->shared = input_word(p->seed, p->step, 2);
    rp_end_general(p);
    if (rp_draw(p, 2) || RP_OPEN_MPI)
        rp_complete_some(p, true);
    end_slots(p);
    rp_complete_some(p, true);
    rp_end_handlers(p);
    return NULL;
}

static void borrow(struct rp *p, int slot, MPI_Comm comm)
{
    struct rp_slot *s = &p->slot[slot];

    *s = (struct rp_slot){
        .used = true, .borrowed = true, .comm = comm, .handler = MPI_ERRORS_RETURN};
    MPI_Comm_rank(comm, &s->rank);
    MPI_Comm_size(comm, &s->size);
}

/* Returns true if nonblocking calls may be taken over. */
static bool is_multiple(void)
{
    return options.raised || job.level == MPI_THREAD_MULTIPLE;
}

static void make_program(struct rp *p, uint64_t seed, MPI_Comm world, MPI_Comm self, FILE *trace)
{
    *p = (struct rp){.seed = seed,
                     .level = job.level,
                     .sessions = job.session != MPI_SESSION_NULL,
                     .raised = options.raised,
                     .plain = strcmp(options.callbacks, "none") == 0,
                     .settles = is_multiple() && strcmp(options.callbacks, "late") == 0,
                     .trace = trace};
    borrow(p, 0, world);
    borrow(p, 1, self);
    p->rank = p->slot[0].rank;
    p->size = p->slot[0].size;
}

/* Two programs in two threads, the second on communicators of its own. */
static void run_two(struct rp *p, struct rp *other)
{
    MPI_Comm world, self;
    pthread_t thread;

    MPI_Comm_dup(p->slot[0].comm, &world);
    MPI_Comm_dup(p->slot[1].comm, &self);
    make_program(other, p->seed + (1ull << 40), world, self, p->trace);
    other->label = "second, ";
    if (pthread_create(&thread, NULL, run, other) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    run(p);
    pthread_join(thread, NULL);
    rp_here.program = other;
    rp_end_attributes(other);
    rp_here.program = p;
    rp_end_attributes(p);
    p->digest += other->digest;
    MPI_Comm_free(&self);
    MPI_Comm_free(&world);
}

/* In a thread that ends before the next program begins. */
static void run_elsewhere(struct rp *p)
{
    pthread_t thread;

    p->main = false;
    if (pthread_create(&thread, NULL, run, p) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    pthread_join(thread, NULL);
    rp_here.program = p;
}

static void run_seed(uint64_t seed)
{
    static struct rp p, other;

    make_program(&p, seed, job.world, job.self, options.trace ? job.out : NULL);
    p.alone = job.level < MPI_THREAD_MULTIPLE || seed % 3 || RP_OPEN_MPI;
    p.main = true;
    atomic_store(&rp_operations, 0);
    atomic_store(&rp_combined, 0);
    atomic_store(&rp_foreign, 0);
    atomic_store(&rp_outside, 0);
    if (job.level == MPI_THREAD_SERIALIZED && seed % 2) {
        run_elsewhere(&p);
        rp_end_attributes(&p);
    } else if (p.alone) {
        run(&p);
        rp_end_attributes(&p);
    } else {
        run_two(&p, &other);
    }
    MPI_Pcontrol(1);
    alarm(0);
    rp_note(&p, "%ld calls of operators, %ld elements", atomic_load(&rp_operations),
            atomic_load(&rp_combined));
    fprintf(job.out, "%llu %016llx foreign %d outside %d\n", (unsigned long long)seed,
            (unsigned long long)p.digest, atomic_load(&rp_foreign), atomic_load(&rp_outside));
    fflush(job.out);
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
        if (strcmp(argv[i], "--plain-end") == 0) {
            options.plain_end = true;
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
        else if (strcmp(argv[i], "--limit") == 0)
            options.limit = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--skip") == 0)
            options.skip = value;
        else if (strcmp(argv[i], "--without") == 0)
            options.without = value;
        else if (strcmp(argv[i], "--out") == 0)
            options.out = value;
        else if (strcmp(argv[i], "--callbacks") == 0)
            options.callbacks = value;
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
    if (!out) {
        perror(path);
        exit(2);
    }
    return out;
}

static MPI_Comm from_session(const char *set, const char *tag)
{
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;

    MPI_Group_from_session_pset(job.session, set, &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    return comm;
}

static int requested_level(void)
{
    return strcmp(options.init, "multiple") == 0     ? MPI_THREAD_MULTIPLE
           : strcmp(options.init, "serialized") == 0 ? MPI_THREAD_SERIALIZED
           : strcmp(options.init, "funneled") == 0   ? MPI_THREAD_FUNNELED
                                                     : MPI_THREAD_SINGLE;
}

static void initialise(int *argc, char ***argv)
{
    int provided = -1, queried = -1, main_thread = -1, rank;

    if (strcmp(options.init, "sessions") == 0) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &job.session);
        job.world = from_session("mpi://WORLD", "random_programs.world");
        job.self = from_session("mpi://SELF", "random_programs.self");
    } else {
        if (strcmp(options.init, "single") == 0)
            MPI_Init(argc, argv);
        else
            MPI_Init_thread(argc, argv, requested_level(), &provided);
        MPI_Query_thread(&queried);
        MPI_Is_thread_main(&main_thread);
        job.level = queried;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    }
    MPI_Comm_rank(job.world, &rank);
    job.out = open_out(rank);
    setvbuf(job.out, NULL, _IOLBF, 0);
    fprintf(job.out, "0 init provided %d queried %d main %d\n", provided, queried, main_thread);
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF first, the last set first; MPI works in
 * their callbacks. */
static int at_finalize(MPI_Comm comm, int keyval, void *value, void *extra)
{
    static int in[4096], out[4096];
    long number = (long)(intptr_t)value, size;

    (void)comm, (void)keyval, (void)extra;
    for (int i = 0; i < 4096; i++)
        in[i] = (int)number + i % 7;
    MPI_Barrier(MPI_COMM_WORLD);
    size =
        MPI_Allreduce(in, out, 4096, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS ? out[8] : -1;
    fprintf(job.out, "finalize attribute %ld: %ld, in the thread of the program %d\n", number, size,
            rp_here.program != NULL);
    return MPI_SUCCESS;
}

static void set_at_finalize(long number)
{
    int keyval;

    if (options.plain_end || job.session != MPI_SESSION_NULL)
        return;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, (void *)(intptr_t)number);
    MPI_Comm_free_keyval(&keyval);
}

static void finalise(void)
{
    int err;

    snprintf(place, sizeof place, "hangs: in MPI_Finalize\n");
    signal(SIGALRM, too_late);
    alarm((unsigned)options.limit);
    if (job.session == MPI_SESSION_NULL) {
        err = MPI_Finalize();
    } else {
        MPI_Comm_free(&job.self);
        MPI_Comm_free(&job.world);
        err = MPI_Session_finalize(&job.session);
    }
    fprintf(job.out, "finalized %d\n", err);
}

/* Makes an operator, and a sum by which all ranks hear of it. Behind that, nonblocking calls on the
 * world are the MPI library's from their post on. */
static void make_operator(void)
{
    static int in[LONG], out[LONG];
    MPI_Op op;

    MPI_Op_create(rp_user_sum, 1, &op);
    MPI_Op_free(&op);
    MPI_Allreduce(in, out, LONG, MPI_INT, MPI_SUM, job.world);
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    initialise(&argc, &argv);
    set_at_finalize(1);
    if (strcmp(options.callbacks, "early") == 0)
        make_operator();
    for (long i = 0; i < options.programs; i++) {
        run_seed((uint64_t)(options.seed + i));
        if (i == 2)
            set_at_finalize(2);
    }
    finalise();
    return 0;
}
