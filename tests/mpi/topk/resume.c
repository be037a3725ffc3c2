/* A job that ends and is started again, with its residuals in its checkpoint or without: under
 * MODE=topk, REGISTER='*:calls=1'.
 *
 *     resume end FOLDER      60 steps, then a checkpoint: a file of each rank
 *     resume keep FOLDER     60 more, the residuals added to the first gradients
 *     resume lose FOLDER     60 more, the residuals forgotten */
#include "shim/sparseshim.h"

#include <stdlib.h>
#include <string.h>

#include "tests/mpi/support/tap.h"

enum { COUNT = 4096, STEPS = 60 };

/* Of one rank. All numbers are whole, so that sums are exact. */
struct checkpoint {
    float residual[COUNT];
    double given[COUNT];  /* gradients, this rank's */
    double summed[COUNT]; /* results */
};

static struct checkpoint state;
static float gradient[COUNT];

static FILE *open_file(const char *folder, const char *mode)
{
    char name[4096];
    FILE *file;

    snprintf(name, sizeof name, "%s/rank-%d", folder, tap.rank);
    file = fopen(name, mode);
    if (!file)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return file;
}

static bool saved(const char *folder)
{
    FILE *file = open_file(folder, "w");
    bool whole = fwrite(&state, sizeof state, 1, file) == 1;

    return fclose(file) == 0 && whole;
}

static bool loaded(const char *folder)
{
    FILE *file = open_file(folder, "r");
    bool whole = fread(&state, sizeof state, 1, file) == 1;

    return fclose(file) == 0 && whole;
}

/* From `from` on, which makes each run's gradients its own. */
static void train(int from, bool add)
{
    for (int step = from; step < from + STEPS; step++) {
        for (int i = 0; i < COUNT; i++) {
            unsigned h = (unsigned)(i * 40503 + step * 977 + tap.rank * 101) * 2654435761u;
            gradient[i] = (float)((int)(h >> 24) - 128) * (float)(1 + (i % 7 == 0) * 15);
            state.given[i] += gradient[i];
            if (add && step == from)
                gradient[i] += state.residual[i];
        }
        MPI_Allreduce(MPI_IN_PLACE, gradient, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i++)
            state.summed[i] += gradient[i];
    }
}

/* Elements whose gradients, of all ranks and runs, are not what was summed and is held back, nor
 * lost. */
static int unbalanced(const float *lost)
{
    double mine[COUNT], all[COUNT];
    int off = 0;

    for (int i = 0; i < COUNT; i++)
        mine[i] = state.given[i] - state.residual[i] - lost[i];
    PMPI_Allreduce(mine, all, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        off += all[i] != state.summed[i];
    return off;
}

static int held(const float *residual)
{
    int n = 0;

    for (int i = 0; i < COUNT; i++)
        n += residual[i] != 0;
    return n;
}

int main(int argc, char **argv)
{
    static float lost[COUNT];

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    bool first = strcmp(argv[1], "end") == 0, keep = strcmp(argv[1], "keep") == 0;
    if (!first)
        tap_ok(loaded(argv[2]) && held(state.residual) > COUNT / 2, "residuals come from before");
    if (!first && !keep)
        memcpy(lost, state.residual, sizeof lost);
    train(first ? 0 : STEPS, keep);
    int status = sparseshim_read_residual(gradient, 0, state.residual, COUNT);
    tap_ok(status == SPARSESHIM_OK && held(state.residual) > COUNT / 2,
           "residuals at the end, of %d elements", held(state.residual));
    int off = unbalanced(lost);
    tap_ok(off == 0, "what was given was summed, is held back%s: %d elements off",
           first || keep ? "" : ", or was lost with the job", off);
    if (first)
        tap_ok(saved(argv[2]), "a checkpoint");
    int failed = tap_end();
    MPI_Finalize();
    return failed;
}
