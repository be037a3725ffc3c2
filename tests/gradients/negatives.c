/* negatives MODE TYPE [NAME=VALUE...]: programs that reduce something other than gradients, each
 * through one helper and mostly one buffer. TYPE: float or double, of what is reduced; all else is
 * double. Prints
 *
 *     digest TOLERANCE VALUE...
 *
 * values that depend on every result, and how far they may be apart, relatively, for the order of
 * additions. Names: n= elements, steps=, seed=. MODE list: the names of all modes.
 */
#include "tests/gradients/negative_descents.h"
#include "tests/gradients/negative_gathers.h"
#include "tests/gradients/negative_krylov.h"
#include "tests/gradients/negative_relatives.h"
#include "tests/gradients/negative_solvers.h"
#include "tests/gradients/negative_statistics.h"
#include "tests/gradients/negative_trainings.h"

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"cg_rows", cg_rows},
    {"cg_data", cg_data},
    {"cg_restarted", cg_restarted},
    {"cg_rough", cg_rough},
    {"cg_slow", cg_slow},
    {"cgls", cgls},
    {"lanczos", lanczos},
    {"power", power},
    {"jacobi", jacobi},
    {"pagerank", pagerank},
    {"kmeans", kmeans},
    {"codebook", codebook},
    {"em", em},
    {"histogram", histogram},
    {"tree_gradients", tree_gradients},
    {"tree_both", tree_both},
    {"hessian", hessian},
    {"kfac", kfac},
    {"kfac_relu", kfac_relu},
    {"activations", activations},
    {"activations_relu", activations_relu},
    {"moments", moments},
    {"squares", squares},
    {"batchnorm", batchnorm},
    {"weights_1", weights_1},
    {"weights_10", weights_10},
    {"weights_50", weights_50},
    {"weights_600", weights_600},
    {"metrics", metrics},
    {"line_search", line_search},
    {"lbfgs", lbfgs},
    {"gather_cyclic", gather_cyclic},
    {"gather_blocks", gather_blocks},
    {"gather_random", gather_random},
    {"gather_parts", gather_parts},
    {"broadcast_root", broadcast_root},
    {"broadcast_turns", broadcast_turns},
    {"weights_broadcast", weights_broadcast},
    {"admm", admm},
    {"sketch", sketch},
    {"signals", signals},
    {"assembly", assembly},
    {"powersgd", powersgd},
    {"sparse_cg", sparse_cg},
    {"sparse_cg_short", sparse_cg_short},
    {"sparse_cg_two", sparse_cg_two},
    {"sparse_cr", sparse_cr},
    {"sparse_lsqr", sparse_lsqr},
    {"sparse_bicgstab", sparse_bicgstab},
    {"sparse_gmres", sparse_gmres},
    {"sparse_lanczos", sparse_lanczos},
    {"sparse_jacobi", sparse_jacobi},
};
enum { MODES = sizeof modes / sizeof modes[0] };

static long number(int argc, char **argv, const char *name, long otherwise)
{
    size_t length = strlen(name);

    for (int i = 3; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return strtol(argv[i] + length + 1, NULL, 10);
    return otherwise;
}

int main(int argc, char **argv)
{
    int mode = 0;

    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (int m = 0; m < MODES; m++)
            puts(modes[m].name);
        return 0;
    }
    while (argc > 2 && mode < MODES && strcmp(argv[1], modes[mode].name) != 0)
        mode++;
    if (argc < 3 || mode == MODES) {
        fprintf(stderr, "usage: negatives MODE float|double [n=N] [steps=STEPS] [seed=SEED]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    job.wide = strcmp(argv[2], "double") == 0;
    job.n = (int)number(argc, argv, "n", 4096);
    job.steps = (int)number(argc, argv, "steps", 80);
    job.seed = (uint64_t)number(argc, argv, "seed", 1);
    job.narrow = calloc((size_t)job.n, sizeof *job.narrow);
    modes[mode].run();
    if (job.rank == 0) {
        printf("digest %g", job.tolerance);
        for (int i = 0; i < job.values; i++)
            printf(" %.9g", job.digest[i]);
        printf("\n");
    }
    return MPI_Finalize();
}
