/* nb_random [--seed S] [--runs N] [--steps N] [--trace 1]: random legal programs of blocking and
 * nonblocking allreduces, messages, other collectives and operations on communicators.
 *
 * All ranks draw the calls, their communicators and their sizes from the seed alike; each rank
 * draws for itself when it waits or tests for which requests. All ranks reach every step in one
 * order, and a rank waits only for operations that all ranks post in this step or an earlier one.
 * No program can deadlock under a correct MPI library. A rank may be blocked in a message or
 * another collective until a sum has arrived elsewhere, so that its own part has to move. Sums are
 * compared bit for bit with the known ones.
 */
#include "tests/mpi/nonblocking/nb.h"
#include "tests/mpi/support/tap.h"

enum { SLOTS = 6, PENDING = 160, LIMIT = 60 };

enum kind { SUM, SENT, RECEIVED, BARRIER, BROADCAST };

struct pending {
    enum kind kind;
    struct nb_call call; /* its request, and for the other kinds out, seed and count */
    int from;            /* rank whose values a message or broadcast carries */
};

struct program {
    uint64_t seed, shared, own; /* states of the two random streams */
    int step;
    MPI_Comm comm[SLOTS]; /* the world first; all ranks are members of one in each slot */
    bool used[SLOTS];
    struct pending pending[PENDING];
    int waiting;
    bool trace, wrong;
};

static int drawn(uint64_t *state, int below)
{
    *state = input_word(*state, 1, 1);
    return (int)((*state >> 33) % (uint64_t)below);
}

static int draw(struct program *p, int below)
{
    return drawn(&p->shared, below);
}

static int draw_own(struct program *p, int below)
{
    return drawn(&p->own, below);
}

__attribute__((format(printf, 2, 3))) static void trace(const struct program *p, const char *format,
                                                        ...)
{
    va_list args;

    if (!p->trace)
        return;
    fprintf(stderr, "rank %d, seed %llu, step %d: ", tap.rank, (unsigned long long)p->seed,
            p->step);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static int draw_slot(struct program *p)
{
    int slot = draw(p, SLOTS);

    while (!p->used[slot])
        slot = (slot + 1) % SLOTS;
    return slot;
}

/* Below and above MIN_COUNT=64; few are long. */
static int draw_count(struct program *p)
{
    switch (draw(p, 8)) {
    case 0:
        return draw(p, 4);
    case 1:
        return 1 + draw(p, 63);
    case 2:
        return 1000 + draw(p, 4000);
    case 3:
        return 256; /* often the same, so that lanes repeat */
    default:
        return 64 + draw(p, 600);
    }
}

static struct nb_call draw_call(struct program *p, MPI_Comm comm)
{
    static const MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT};
    MPI_Datatype type = types[draw(p, 3)];
    enum nb_input input = (enum nb_input)draw(p, NB_INPUTS);
    bool in_place = draw(p, 2);
    int count = draw_count(p);

    return nb_make(comm, type, count, input, in_place, p->seed * 1000 + (uint64_t)p->step);
}

/* A buffer of ints, filled where this rank is the one they come from. */
static struct nb_call message(struct program *p, int count, int from)
{
    struct nb_call call = {.request = MPI_REQUEST_NULL,
                           .type = MPI_INT,
                           .seed = p->seed * 1000 + (uint64_t)p->step,
                           .count = count,
                           .rank = from,
                           .size = 1};

    call.out = input_alloc((size_t)count * sizeof(int));
    for (int i = 0; i < count; i++)
        nb_store(call.out, MPI_INT, i,
                 tap.rank == from ? nb_value(NB_DENSE, call.seed, from, (uint64_t)i) : -99);
    return call;
}

static bool message_arrived(const struct nb_call *call, int from)
{
    for (int i = 0; i < call->count; i++)
        if (((const int *)call->out)[i] != nb_value(NB_DENSE, call->seed, from, (uint64_t)i))
            return false;
    return true;
}

/* The operation at this place of the list is complete. */
static void finish(struct program *p, int place)
{
    struct pending *done = &p->pending[place];
    char what[80];

    snprintf(what, sizeof what, "program of seed %llu, known to be complete at step %d",
             (unsigned long long)p->seed, p->step);
    trace(p, "complete: operation of step %llu", (unsigned long long)(done->call.seed % 1000));
    if (done->kind == SUM) {
        p->wrong |= !nb_finish(&done->call, what);
    } else {
        if (done->kind != BARRIER && !message_arrived(&done->call, done->from)) {
            fprintf(stderr, "%s: a message from rank %d is wrong\n", what, done->from);
            p->wrong = true;
        }
        nb_drop(&done->call);
    }
    *done = p->pending[--p->waiting];
}

/* Waits or tests for some of what is pending, as this rank alone draws. */
static void complete_some(struct program *p, bool all)
{
    MPI_Request request[PENDING];
    MPI_Status status[PENDING];
    int chosen[PENDING], indices[PENDING], n = 0, flag = 0, done = 0, how;

    for (int i = p->waiting - 1; i >= 0; i--)
        if (all || draw_own(p, 2)) {
            chosen[n] = i; /* descending: finish moves the last into the gap */
            request[n++] = p->pending[i].call.request;
        }
    if (n == 0)
        return;
    how = all ? 0 : draw_own(p, 9);
    trace(p, "completion %d over %d of %d", how, n, p->waiting);
    switch (how) {
    case 0:
        if (draw_own(p, 2))
            nb_wait_all(n, request);
        else
            MPI_Waitall(n, request, status);
        break;
    case 1:
        MPI_Waitany(n, request, &indices[0], &status[0]);
        break;
    case 2:
        MPI_Waitsome(n, request, &done, indices, status);
        p->wrong |= done < 1;
        break;
    case 3:
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        break;
    case 4:
        MPI_Test(&request[0], &flag, &status[0]);
        break;
    case 5:
        MPI_Testall(n, request, &flag, status);
        break;
    case 6:
        MPI_Testany(n, request, &indices[0], &flag, &status[0]);
        break;
    case 7:
        MPI_Testsome(n, request, &done, indices, status);
        break;
    default:
        MPI_Request_get_status(request[0], &flag, &status[0]);
        if (flag)
            MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        break;
    }
    for (int i = 0; i < n; i++) {
        p->pending[chosen[i]].call.request = request[i];
        if (request[i] == MPI_REQUEST_NULL)
            finish(p, chosen[i]);
    }
}

static void keep(struct program *p, enum kind kind, struct nb_call call, int from)
{
    p->pending[p->waiting++] = (struct pending){.kind = kind, .call = call, .from = from};
}

static void reduce(struct program *p, bool blocking)
{
    int slot = draw_slot(p);
    struct nb_call call = draw_call(p, p->comm[slot]);

    trace(p, "%s of %d %s, %s, %s, in slot %d", blocking ? "Allreduce" : "Iallreduce", call.count,
          nb_type_name(call.type), nb_input_names[call.input], call.in_place ? "in place" : "apart",
          slot);
    if (blocking) {
        nb_reduce(&call, p->comm[slot]);
        p->wrong |= !nb_finish(&call, "blocking call of a random program");
    } else {
        nb_post(&call, p->comm[slot]);
        keep(p, SUM, call, 0);
    }
}

static void send_message(struct program *p, bool blocking)
{
    int from = draw(p, tap.size), to = draw(p, tap.size), count = 1 + draw(p, 3000), tag = p->step;

    if (from == to)
        return;
    trace(p, "%d ints from rank %d to rank %d", count, from, to);
    if (tap.rank == from) {
        struct nb_call call = message(p, count, from);
        if (blocking) {
            MPI_Send(call.out, count, MPI_INT, to, tag, MPI_COMM_WORLD);
            nb_drop(&call);
        } else {
            MPI_Isend(call.out, count, MPI_INT, to, tag, MPI_COMM_WORLD, &call.request);
            keep(p, SENT, call, from);
        }
    } else if (tap.rank == to) {
        struct nb_call call = message(p, count, from);
        if (blocking) {
            MPI_Recv(call.out, count, MPI_INT, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            p->wrong |= !message_arrived(&call, from);
            nb_drop(&call);
        } else {
            MPI_Irecv(call.out, count, MPI_INT, from, tag, MPI_COMM_WORLD, &call.request);
            keep(p, RECEIVED, call, from);
        }
    }
}

/* Posts more calls at once than the library keeps under way together. */
static void burst(struct program *p)
{
    int calls = 66 + draw(p, 10);

    trace(p, "%d calls at once", calls);
    for (int i = 0; i < calls; i++) {
        int slot = draw_slot(p);
        struct nb_call call = nb_make(p->comm[slot], MPI_INT, 64 + i, NB_SPARSE, i % 2,
                                      p->seed * 1000 + (uint64_t)p->step);

        nb_post(&call, p->comm[slot]);
        keep(p, SUM, call, 0);
    }
}

/* Blocks a rank, behind a sum that it has posted, in what the others come to with the sum. */
static void block_elsewhere(struct program *p)
{
    int slot = draw_slot(p), blocked = draw(p, tap.size), how = draw(p, 4);
    int from = (blocked + 1 + draw(p, tap.size)) % tap.size, word = tap.rank == from ? 4711 : 0;
    struct nb_call call = draw_call(p, p->comm[slot]), other = draw_call(p, p->comm[0]);

    trace(p, "rank %d is blocked in way %d behind %d elements in slot %d", blocked, how, call.count,
          slot);
    nb_post(&call, p->comm[slot]);
    if (tap.rank != blocked && (how > 0 || tap.rank == from))
        MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    if (how == 0 && tap.rank == blocked && from != blocked)
        MPI_Recv(&word, 1, MPI_INT, from, p->step, p->comm[0], MPI_STATUS_IGNORE);
    else if (how == 0 && tap.rank == from && from != blocked)
        MPI_Send(&word, 1, MPI_INT, blocked, p->step, p->comm[0]);
    else if (how == 1)
        MPI_Barrier(p->comm[0]);
    else if (how == 2)
        MPI_Bcast(&word, 1, MPI_INT, from, p->comm[0]);
    if (how == 3) {
        nb_reduce(&other, p->comm[0]);
        p->wrong |= !nb_finish(&other, "a sum in which a rank is blocked");
    } else {
        nb_drop(&other);
    }
    p->wrong |= word != 4711 && (how == 2 || (how == 0 && tap.rank == blocked));
    MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    p->wrong |= !nb_finish(&call, "a sum behind which a rank is blocked");
}

/* Collectives that are not ours, blocking and nonblocking. */
static void another_collective(struct program *p)
{
    int slot = draw_slot(p), what = draw(p, 6), root = draw(p, tap.size), all = 1;
    struct nb_call call = message(p, 1 + draw(p, 200), root);

    trace(p, "collective %d in slot %d", what, slot);
    switch (what) {
    case 0:
        MPI_Barrier(p->comm[slot]);
        break;
    case 1:
        MPI_Ibarrier(p->comm[slot], &call.request);
        keep(p, BARRIER, call, root);
        return;
    case 2:
        MPI_Bcast(call.out, call.count, MPI_INT, root, MPI_COMM_WORLD);
        p->wrong |= !message_arrived(&call, root);
        break;
    case 3:
        MPI_Ibcast(call.out, call.count, MPI_INT, root, MPI_COMM_WORLD, &call.request);
        keep(p, BROADCAST, call, root);
        return;
    case 4:
        MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, p->comm[slot]);
        p->wrong |= all != 1;
        break;
    default:
        MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        p->wrong |= all != tap.size;
        break;
    }
    nb_drop(&call);
}

static void make_communicator(struct program *p)
{
    int from = draw_slot(p), what = draw(p, 6), slot = 0, rank, colour;
    MPI_Request request;

    while (slot < SLOTS && p->used[slot])
        slot++;
    if (slot == SLOTS)
        return;
    MPI_Comm_rank(p->comm[from], &rank);
    trace(p, "slot %d becomes communicator %d of slot %d", slot, what, from);
    if (what == 0) {
        MPI_Comm_dup(p->comm[from], &p->comm[slot]);
    } else if (what == 1) {
        MPI_Comm_idup(p->comm[from], &p->comm[slot], &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        colour = what == 2 ? rank / 2 : what == 3 ? rank % 2 : what == 4 ? rank % 3 : 0;
        MPI_Comm_split(p->comm[from], colour, what == 5 ? -rank : rank, &p->comm[slot]);
    }
    p->used[slot] = true;
}

/* Open MPI (4.1, 5.0) crashes if a communicator is freed while a collective is in flight on it. */
static void complete_before_free(struct program *p)
{
#ifdef OPEN_MPI
    complete_some(p, true);
#else
    (void)p;
#endif
}

static void free_communicator(struct program *p)
{
    int slot = draw_slot(p);

    if (slot == 0)
        return;
    complete_before_free(p);
    trace(p, "slot %d is freed", slot);
    MPI_Comm_free(&p->comm[slot]);
    p->used[slot] = false;
}

static void take_step(struct program *p)
{
    int what = draw(p, 100);

    if (what < 34)
        reduce(p, false);
    else if (what < 39)
        block_elsewhere(p);
    else if (what < 40)
        burst(p);
    else if (what < 55)
        reduce(p, true);
    else if (what < 67)
        send_message(p, false);
    else if (what < 72)
        send_message(p, true);
    else if (what < 84)
        another_collective(p);
    else if (what < 92)
        make_communicator(p);
    else if (what < 96)
        free_communicator(p);
    else if (draw_own(p, tap.size) == 0)
        nb_user_code(0.001);
}

/* Returns whether it was right on this rank. */
static bool run(uint64_t seed, int steps, bool traced)
{
    struct program *p = input_alloc(sizeof *p);
    bool right;

    memset(p, 0, sizeof *p);
    p->trace = traced;
    p->seed = seed;
    p->shared = input_word(seed, 0, 2);
    p->own = input_word(seed, tap.rank, 3);
    p->comm[0] = MPI_COMM_WORLD;
    p->used[0] = true;
    for (p->step = 0; p->step < steps; p->step++) {
        nb_within(LIMIT, "program of seed %llu, step %d", (unsigned long long)seed, p->step);
        take_step(p);
        while (p->waiting > PENDING / 2)
            complete_some(p, draw_own(p, 2));
        if (draw_own(p, 2))
            complete_some(p, false);
    }
    nb_within(LIMIT, "program of seed %llu, after its last step", (unsigned long long)seed);
    if (draw(p, 2))
        complete_some(p, true);
    complete_before_free(p);
    for (int slot = 1; slot < SLOTS; slot++)
        if (p->used[slot])
            MPI_Comm_free(&p->comm[slot]);
    complete_some(p, true);
    right = !p->wrong;
    free(p);
    return right;
}

/* A grid of processes that reduces over its rows and columns in each step, both at once. */
static void rows_and_columns_reduce_each_step(void)
{
    enum { STEPS = 12 };
    MPI_Comm line[2];
    int width = tap.size > 3 ? 2 : 1;
    bool good = true;

    MPI_Comm_split(MPI_COMM_WORLD, tap.rank / width, tap.rank, &line[0]);
    MPI_Comm_split(MPI_COMM_WORLD, tap.rank % width, tap.rank, &line[1]);
    for (int step = 0; step < STEPS; step++) {
        struct nb_call call[2];
        nb_within(LIMIT, "rows and columns, step %d", step);
        for (int i = 0; i < 2; i++) {
            int which = (tap.rank + i) % 2; /* the order differs from rank to rank */
            call[which] = nb_make(line[which], MPI_FLOAT, 500, (enum nb_input)(step % NB_INPUTS),
                                  step % 2, (uint64_t)(10 * step + which));
            nb_post(&call[which], line[which]);
        }
        for (int i = 0; i < 2; i++) {
            MPI_Wait(&call[i].request, MPI_STATUS_IGNORE);
            good = nb_finish(&call[i], "grid") && good;
        }
    }
    MPI_Comm_free(&line[0]);
    MPI_Comm_free(&line[1]);
    tap_ok(good, "rows and columns of a grid of width %d, %d steps", width, STEPS);
}

int main(int argc, char **argv)
{
    long seed, runs, steps, done = 0;
    bool traced;
    int status, right = 1;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    seed = nb_option(argc, argv, "--seed", 1);
    runs = nb_option(argc, argv, "--runs", 200);
    steps = nb_option(argc, argv, "--steps", 30);
    traced = nb_option(argc, argv, "--trace", 0) != 0;
    for (; right && done < runs; done++) {
        right = run((uint64_t)(seed + done), (int)steps, traced);
        nb_within(LIMIT, "after the program of seed %ld", seed + done);
        PMPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    tap_ok(right, "%ld random programs of %ld steps from seed %ld on %d ranks", done, steps, seed,
           tap.size);
    if (!right)
        tap_note("wrong: --seed %ld --runs 1 --steps %ld", seed + done - 1, steps);
    rows_and_columns_reduce_each_step();
    nb_within(LIMIT, "MPI_Finalize");
    status = tap_end();
    MPI_Finalize();
    return status;
}
