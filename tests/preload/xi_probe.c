/* Measures Assumption 1 of Ok-Topk (Li and Hoefler, PPoPP'22, equation 5) during a training, which
 * goes on with Ok-Topk's result (their Algorithm 2), local and global selections being exact. To be
 * preloaded in place of the library under test. With G_i the gradient of rank i and e_i its
 * residual, the assumption is that a small xi bounds, in every step,
 *
 *     || Topk(1/P sum_i (G_i + e_i)) - Topk(1/P sum_i Topk(G_i + e_i)) || <= xi || 1/P sum_i G_i ||
 *
 * and this library writes the least such xi. Gradients are selected from one by one; the norms are
 * those of all gradients of the step. (With the learning rate inside both gradient and residual, as
 * in the paper, the factor cancels where it is constant.)
 *
 * XI_FILE      where rank 0 writes step,xi,difference,gradient: both norms of sums, not of means
 * XI_DENSITY   share of the elements selected, locally and globally (default 0.01)
 * XI_MIN_COUNT elements from which a float sum is taken for a gradient (default 1024) */
#include "tests/preload/topk_exact.h"

enum { TRUE_SUM, GRADIENT_SUM, SELECTED_SUM, TRUE_TOP };

static struct {
    struct gradient *gradients;
    FILE *file;
    long step;                   /* whose squared norms are being added up, from 1 */
    double difference, gradient; /* squared */
} probe;

static void write_step(void)
{
    const char *path = getenv("XI_FILE");

    if (!probe.file) {
        if (!path)
            topk_die("XI_FILE", "names no file");
        probe.file = fopen(path, "w");
        if (!probe.file)
            topk_die("XI_FILE cannot be written", path);
        fputs("step,xi,difference,gradient\n", probe.file);
    }
    if (probe.step > 0)
        fprintf(probe.file, "%ld,%.6g,%.6g,%.6g\n", probe.step,
                probe.gradient > 0 ? sqrt(probe.difference / probe.gradient) : 0,
                sqrt(probe.difference), sqrt(probe.gradient));
}

/* A step ends where a gradient comes again. */
static void note(const struct gradient *g, const float *top, const float *true_top,
                 const float *gradient)
{
    if (g->calls > probe.step) {
        write_step();
        probe.step = g->calls;
        probe.difference = probe.gradient = 0;
    }
    for (int i = 0; i < g->count; i++) {
        double by = (double)true_top[i] - (double)top[i];

        probe.difference += by * by;
        probe.gradient += (double)gradient[i] * (double)gradient[i];
    }
}

static int reduce_to_0(const float *in, float *out, int count, MPI_Comm comm)
{
    return PMPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, comm);
}

/* The sums and both global selections are made by rank 0, the result goes to all. */
static int measure(struct gradient *g, const float *in, float *out, double density, MPI_Comm comm)
{
    size_t k = topk_count(density, g->count);
    int rank, status;

    PMPI_Comm_rank(comm, &rank);
    status = reduce_to_0(g->total, topk_work(g, TRUE_SUM), g->count, comm);
    if (status == MPI_SUCCESS)
        status = reduce_to_0(in, topk_work(g, GRADIENT_SUM), g->count, comm);
    if (status == MPI_SUCCESS)
        status = reduce_to_0(g->sent, topk_work(g, SELECTED_SUM), g->count, comm);
    if (status == MPI_SUCCESS && rank == 0) {
        topk_keep(topk_work(g, TRUE_SUM), topk_work(g, TRUE_TOP), g->count, k);
        topk_keep(topk_work(g, SELECTED_SUM), out, g->count, k);
        note(g, out, topk_work(g, TRUE_TOP), topk_work(g, GRADIENT_SUM));
    }
    return status == MPI_SUCCESS ? PMPI_Bcast(out, g->count, MPI_FLOAT, 0, comm) : status;
}

EXPORT int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm)
{
    double density = topk_number("XI_DENSITY", 0, 1, 0.01);
    const float *input = in == MPI_IN_PLACE ? out : in;
    struct gradient *g;
    int status;

    if (!topk_takes(count, type, op, (long)topk_number("XI_MIN_COUNT", 0, 1e9, 1024)))
        return PMPI_Allreduce(in, out, count, type, op, comm);
    g = topk_gradient(&probe.gradients, __builtin_return_address(0), out, count);
    topk_select(g, input, density);
    status = measure(g, input, out, density, comm);
    /* Algorithm 2, line 6: cleared where a selected entry reached the result. */
    for (int i = 0; status == MPI_SUCCESS && i < count; i++)
        g->residual[i] = g->sent[i] != 0 && ((float *)out)[i] != 0 ? 0 : g->total[i];
    return status;
}

EXPORT int MPI_Finalize(void)
{
    int rank;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        write_step();
    if (probe.file && fclose(probe.file) != 0)
        topk_die("XI_FILE", "could not be written whole");
    topk_free(&probe.gradients);
    return PMPI_Finalize();
}
