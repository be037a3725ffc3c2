/* nb_steps [--seed S] [--runs N] [--calls N]: random trainings. Steps of nonblocking allreduces, on
 * communicators in turn and with blocking calls between where the training has some, repeated for N
 * calls or more (default 600), so that the step is found. Now and then a step is cut short, one
 * call more is made, or the layers change.
 *
 * All ranks draw the calls from the seed alike; each rank draws for itself when it posts and how it
 * waits. Prints the bits of all results, which are the same on all ranks. Values
 * are fractions, whose sums depend on the order of addition. */
#include "tests/mpi/nonblocking/nb.h"
#include "tests/mpi/support/tap.h"

enum { COMMS = 3, LAYERS = 24, LIMIT = 60 };

struct layer {
    int comm, count;
    bool wide, blocking; /* double */
    MPI_Request request;
    void *in, *out;
    bool posted;
};

struct training {
    uint64_t shared, own, seed, bits;
    MPI_Comm comm[COMMS];
    struct layer layer[LAYERS];
    int layers;
    int how; /* 0: all are waited for at the end of a step; 1: each before its next call */
};

static int drawn(uint64_t *state, int below)
{
    *state = input_word(*state, 1, 1);
    return (int)((*state >> 33) % (uint64_t)below);
}

static MPI_Datatype type_of(const struct layer *l)
{
    return l->wide ? MPI_DOUBLE : MPI_FLOAT;
}

static void take_bits(struct training *t, const struct layer *l)
{
    const unsigned char *byte = l->out;
    size_t bytes = (size_t)l->count * nb_type_size(type_of(l));

    for (size_t i = 0; i < bytes; i++)
        t->bits = (t->bits ^ byte[i]) * 0x100000001b3u;
}

/* Ends the call as this rank draws. */
static void end(struct training *t, struct layer *l)
{
    int done = 0;

    if (!l->posted)
        return;
    if (l->request != MPI_REQUEST_NULL && drawn(&t->own, 3) > 0)
        MPI_Wait(&l->request, MPI_STATUS_IGNORE);
    while (l->request != MPI_REQUEST_NULL && !done)
        MPI_Test(&l->request, &done, MPI_STATUS_IGNORE);
    l->posted = false;
    take_bits(t, l);
}

static void fill(const struct training *t, struct layer *l, uint64_t step)
{
    for (int i = 0; i < l->count; i++) {
        uint64_t word = input_word(t->seed * 100000 + step, tap.rank, (uint64_t)i);
        double value = word % 8 == 0 ? ((double)(word >> 40 & 1023) - 511) / 7 : 0;
        if (l->wide)
            ((double *)l->in)[i] = value;
        else
            ((float *)l->in)[i] = (float)value;
    }
}

static void post(struct training *t, struct layer *l, uint64_t step)
{
    fill(t, l, step);
    if (drawn(&t->own, 60) == 0)
        nb_user_code(1e-4 * drawn(&t->own, 30));
    l->request = MPI_REQUEST_NULL;
    l->posted = true;
    if (l->blocking)
        MPI_Allreduce(l->in, l->out, l->count, type_of(l), MPI_SUM, t->comm[l->comm]);
    else
        MPI_Iallreduce(l->in, l->out, l->count, type_of(l), MPI_SUM, t->comm[l->comm], &l->request);
}

static void drop_layers(struct training *t)
{
    for (int i = 0; i < t->layers; i++) {
        end(t, &t->layer[i]);
        free(t->layer[i].in);
        free(t->layer[i].out);
    }
    t->layers = 0;
}

/* Draws layers, several of them with one count, so that they share a lane. */
static void draw_layers(struct training *t)
{
    int comms = 1 + drawn(&t->shared, COMMS), few = 1 + drawn(&t->shared, 6), counts[6];
    bool blocking = drawn(&t->shared, 4) == 0;

    t->how = drawn(&t->shared, 2);
    for (int i = 0; i < few; i++)
        counts[i] = 64 + drawn(&t->shared, drawn(&t->shared, 3) == 0 ? 6000 : 600);
    t->layers = 2 + drawn(&t->shared, LAYERS - 2);
    for (int i = 0; i < t->layers; i++) {
        struct layer *l = &t->layer[i];
        *l = (struct layer){.comm = drawn(&t->shared, comms),
                            .count = counts[drawn(&t->shared, few)],
                            .wide = drawn(&t->shared, 5) == 0,
                            .blocking = blocking && drawn(&t->shared, 8) == 0,
                            .request = MPI_REQUEST_NULL};
        l->in = input_alloc((size_t)l->count * sizeof(double));
        l->out = input_alloc((size_t)l->count * sizeof(double));
    }
}

static void take_step(struct training *t, uint64_t step, bool odd)
{
    int first = odd ? drawn(&t->shared, t->layers) : 0;
    int last = odd ? drawn(&t->shared, t->layers) : t->layers;

    if (drawn(&t->own, 8) == 0)
        nb_user_code(1e-3);
    for (int i = first; i < last; i++) {
        end(t, &t->layer[i]);
        post(t, &t->layer[i], step * LAYERS + (uint64_t)i);
    }
    for (int i = 0; t->how == 0 && i < t->layers; i++)
        end(t, &t->layer[i]);
    if (odd)
        MPI_Barrier(t->comm[0]);
}

static uint64_t run(uint64_t seed, int calls)
{
    static struct training t;
    uint64_t step = 0;

    t = (struct training){.seed = seed,
                          .shared = input_word(seed, 0, 2),
                          .own = input_word(seed, tap.rank, 3),
                          .comm = {MPI_COMM_WORLD}};
    MPI_Comm_dup(MPI_COMM_WORLD, &t.comm[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -tap.rank, &t.comm[2]);
    for (int phase = 1 + drawn(&t.shared, 3); phase > 0; phase--) {
        int odd = 20 + drawn(&t.shared, 200);
        draw_layers(&t);
        for (int i = 0; i * t.layers < calls; i++, step++) {
            nb_within(LIMIT, "training of seed %llu, step %llu of %d calls",
                      (unsigned long long)seed, (unsigned long long)step, t.layers);
            take_step(&t, step, drawn(&t.shared, odd) == 0);
        }
        drop_layers(&t);
    }
    MPI_Comm_free(&t.comm[1]);
    MPI_Comm_free(&t.comm[2]);
    return t.bits;
}

int main(int argc, char **argv)
{
    uint64_t seed, runs;
    int calls, status, right = 1;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    seed = (uint64_t)nb_option(argc, argv, "--seed", 1);
    runs = (uint64_t)nb_option(argc, argv, "--runs", 10);
    calls = (int)nb_option(argc, argv, "--calls", 600);
    for (uint64_t i = 0; i < runs && right; i++) {
        uint64_t bits = run(seed + i, calls), first = bits;
        nb_within(LIMIT, "after the training of seed %llu", (unsigned long long)(seed + i));
        PMPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
        right = first == bits;
        PMPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        tap_note("bits %016llx seed %llu", (unsigned long long)bits,
                 (unsigned long long)(seed + i));
    }
    tap_ok(right, "%llu trainings from seed %llu: the same bits on all ranks",
           (unsigned long long)runs, (unsigned long long)seed);
    nb_within(LIMIT, "MPI_Finalize");
    status = tap_end();
    MPI_Finalize();
    return status;
}
