/* steps CASE [first=STEP]: from which step on the gradients of a program are lossy.
 *
 *     flat               one gradient from a kept buffer; printed: a loss behind each tenth step
 *     fresh              the same from an array of its own in each step
 *     fresh_beside       flat on rank 0, fresh on the others
 *     unlike, changing   eight layers of unlike counts, in order and in changing order
 *     posted             changing, nonblocking; posted_in_order: unlike, nonblocking
 *     own, own_posted    eight equal layers, each with its buffer, blocking and nonblocking
 *     scratch            the same received in one buffer; packed: sent from it as well
 *     turns              the same received in two buffers in turn
 *     fifth              flat, and a vector of another count in each fifth step
 *     two                two optimisers of unlike counts in turn
 *     frozen             own, in ten of twenty steps without the last two layers
 *     accumulated        own, a loss between micro-steps
 *     extra, missing     own with a call more, or less, in step 20
 *
 * first=0: never. */
#include "tests/mpi/support/tap.h"

#include <stdlib.h>
#include <string.h>

enum { LAYERS = 8, N = 2000, STEPS = 80 };

static struct {
    float *in[LAYERS], *kept[LAYERS], *fresh[STEPS];
    int step, first;
    double lossy, all; /* elements of the last quarter */
} job;

static bool differs(const float *in, const float *out, int n)
{
    static float truth[N + LAYERS];

    PMPI_Allreduce(in, truth, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return memcmp(truth, out, (size_t)n * sizeof *truth) != 0;
}

static void book(const float *in, const float *out, int n)
{
    bool lossy = differs(in, out, n);

    if (lossy && job.first == 0)
        job.first = job.step + 1;
    if (job.step < STEPS * 3 / 4)
        return;
    job.all += n;
    job.lossy += lossy ? n : 0;
}

static void fill(float *in, int layer, int n)
{
    for (int i = 0; i < n; i++) {
        unsigned h = (unsigned)(i * 40503 + job.step * 977 + tap.rank * 101 + layer) * 2654435761u;
        in[i] = (float)((int)(h >> 24) - 128);
    }
}

__attribute__((noinline)) static void sum(int layer, float *out, int n)
{
    fill(job.in[layer], layer, n);
    MPI_Allreduce(job.in[layer], out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    book(job.in[layer], out, n);
}

static void loss(int times)
{
    float mine = 1, all;

    for (int i = 0; i < times; i++)
        MPI_Allreduce(&mine, &all, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Layers of which the counts differ by `unlike`, in an order that turns, through their own buffers
 * or the first. */
static void sum_all(int layers, int unlike, int turn, bool own)
{
    for (int i = 0; i < layers; i++) {
        int k = (i + turn) % layers;
        sum(k, job.kept[own ? k : 0], N + unlike * k);
    }
}

__attribute__((noinline)) static void post_all(int unlike, int turn)
{
    MPI_Request request[LAYERS];
    MPI_Status status[LAYERS];

    for (int i = 0; i < LAYERS; i++) {
        int k = (i + turn) % LAYERS, n = N + unlike * k;
        fill(job.in[k], k, n);
        MPI_Iallreduce(job.in[k], job.kept[k], n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request[i]);
    }
    MPI_Waitall(LAYERS, request, status);
    for (int k = 0; k < LAYERS; k++)
        book(job.in[k], job.kept[k], N + unlike * k);
}

/* A vector that no rule names. */
static void sum_other(void)
{
    static float in[N / 2], out[N / 2];

    MPI_Allreduce(in, out, N / 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void step_of(const char *name)
{
    const int s = job.step;

    if (strcmp(name, "fresh_beside") == 0)
        sum(0, tap.rank == 0 ? job.kept[0] : job.fresh[s], N);
    else if (strcmp(name, "fresh") == 0)
        sum(0, job.fresh[s], N);
    else if (strcmp(name, "unlike") == 0)
        sum_all(LAYERS, 1, 0, true);
    else if (strcmp(name, "changing") == 0)
        sum_all(LAYERS, 1, s * 3 % 7, true);
    else if (strcmp(name, "posted_in_order") == 0)
        post_all(1, 0);
    else if (strcmp(name, "posted") == 0)
        post_all(1, s * 3 % 7);
    else if (strncmp(name, "own", 3) == 0 && name[3] == '\0')
        sum_all(LAYERS, 0, 0, true);
    else if (strcmp(name, "own_posted") == 0)
        post_all(0, 0);
    else if (strcmp(name, "scratch") == 0)
        sum_all(LAYERS, 0, 0, false);
    else if (strcmp(name, "packed") == 0)
        for (int k = 0; k < LAYERS; k++)
            sum(0, job.kept[0], N);
    else if (strcmp(name, "turns") == 0)
        for (int k = 0; k < LAYERS; k++)
            sum(k, job.kept[k % 2], N);
    else if (strcmp(name, "two") == 0)
        sum(s % 2, job.kept[s % 2], N + s % 2);
    else if (strcmp(name, "frozen") == 0)
        sum_all(s / 10 % 2 ? LAYERS - 2 : LAYERS, 0, 0, true);
    else if (strcmp(name, "accumulated") == 0)
        for (int micro = 0; micro < 1 + s % 3; micro++, loss(1))
            sum_all(LAYERS, 0, 0, true);
    else if (strcmp(name, "extra") == 0 || strcmp(name, "missing") == 0)
        sum_all(s == 20 && name[0] == 'm' ? LAYERS - 1 : LAYERS, 0, 0, true);
    else
        sum(0, job.kept[0], N);
    if (strcmp(name, "extra") == 0 && s == 20)
        sum(0, job.kept[0], N);
    if (strcmp(name, "fifth") == 0 && s % 5 == 0)
        sum_other();
    loss(strcmp(name, "printed") == 0 && s % 10 == 9);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "flat";
    int first = argc > 2 ? atoi(argv[2] + strlen("first=")) : 0;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    for (int k = 0; k < LAYERS; k++) {
        job.in[k] = malloc((N + LAYERS) * sizeof(float));
        job.kept[k] = malloc((N + LAYERS) * sizeof(float));
    }
    for (int s = 0; s < STEPS; s++)
        job.fresh[s] = malloc(N * sizeof(float));
    for (; job.step < STEPS; job.step++)
        step_of(name);
    tap_ok(job.first == first, "lossy from step %d on: from %d", first, job.first);
    tap_ok(job.lossy >= (first > 0 ? 0.9 : 0) * job.all && (first > 0 || job.lossy == 0),
           "lossy in the last quarter: %.0f %%", 100 * job.lossy / job.all);
    for (int k = 0; k < LAYERS; k++) {
        free(job.in[k]);
        free(job.kept[k]);
    }
    for (int s = 0; s < STEPS; s++)
        free(job.fresh[s]);
    MPI_Finalize();
    return tap_end();
}
